"""A sensor's defaults: it waits deferred, for ten minutes.

Airflow's own defaults are a worker's slot and seven days: that is what a typing mistake in a topic's name then costs.
What somebody has set as ``[operators] default_deferrable`` or ``[sensors] default_timeout`` holds here as elsewhere,
also where it equals Airflow's own default. But where there is no ``airflow.cfg``, Airflow writes one with all of its
options: in that file a line that has Airflow's default is nobody's word.
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
    """Whether the environment has it, or an ``airflow.cfg`` where a person has written it."""
    if f"AIRFLOW__{section}__{key}".upper() in os.environ:
        return True
    # `conf.as_dict` would run what is configured as a command, and Airflow 3.0's DAG processor has one that fails.
    written = ConfigParser.get(conf, section, key, raw=True, fallback=None)  # the file alone
    if written is None:
        return False
    return written.strip().lower() != str(conf.get_default_value(section, key)).strip().lower() or not _is_airflows()


def _is_airflows() -> bool:
    """Whether Airflow itself has written the file: then it has all options of a section that hardly anybody sets."""
    options = conf.configuration_description["operators"]["options"]
    return all(ConfigParser.has_option(conf, "operators", name) for name in options)
