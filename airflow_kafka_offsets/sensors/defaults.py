"""A sensor's defaults: it waits deferred, for ten minutes.

Airflow's own defaults are a worker's slot and seven days: that is what a typing mistake in a topic's name then costs.
What somebody has set as ``[operators] default_deferrable`` or ``[sensors] default_timeout`` holds here as elsewhere. A
line of ``airflow.cfg`` that has Airflow's own default is not counted: Airflow writes the file with all of them in it.
"""

from __future__ import annotations

import os
from configparser import ConfigParser

from airflow_kafka_offsets.hooks.airflow_versions import conf

TIMEOUT_S = 600.0


def is_deferrable(mode: str | None) -> bool:
    """Whether a sensor without ``deferrable`` waits in the triggerer; one with a ``mode`` waits in that mode."""
    if mode is not None:
        return False
    return conf.getboolean("operators", "default_deferrable") if _is_set("operators", "default_deferrable") else True


def configured_timeout_s() -> float | None:
    """``[sensors] default_timeout``, where somebody has set it."""
    return conf.getfloat("sensors", "default_timeout") if _is_set("sensors", "default_timeout") else None


def _is_set(section: str, key: str) -> bool:
    """Whether the environment has it, or ``airflow.cfg`` with another value than Airflow's default."""
    if f"AIRFLOW__{section}__{key}".upper() in os.environ:
        return True
    # `conf.as_dict` would run what is configured as a command, and Airflow 3.0's DAG processor has one that fails.
    told = ConfigParser.get(conf, section, key, raw=True, fallback=None)  # the file alone
    return told is not None and told.strip().lower() != str(conf.get_default_value(section, key)).strip().lower()
