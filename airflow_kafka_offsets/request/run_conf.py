"""What a run's conf says for that run alone: ``{"kafka_offsets": {"policies": {"data_loss": "advance"}}}``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.request.parameters import CONF, RequestParameters, names_in
from airflow_kafka_offsets.request.policies import SITUATIONS, read_answers

CONF_WORDS = frozenset(names_in(CONF, RequestParameters))


def refuse_misplaced(conf: Mapping[str, Any]) -> None:
    """:raises InvalidRequest: a run's conf has a policy at its top level, where it would be without effect."""
    policies = conf.get("policies")
    misplaced = {name: conf[name] for name in SITUATIONS if name in conf}
    if isinstance(policies, Mapping):
        misplaced |= {name: policies[name] for name in SITUATIONS if name in policies}
    if misplaced:
        raise InvalidRequest(
            (
                f'The run\'s conf has {", ".join(misplaced)} at its top level. Put it under "kafka_offsets": '
                f"{json.dumps({'kafka_offsets': {'policies': misplaced}}, default=str)}",
            )
        )


def with_conf(parameters: RequestParameters, conf: Any) -> RequestParameters:
    """``parameters`` with what the run's conf says; of the policies, what it does not name is as it was.

    :param conf: the value of ``kafka_offsets`` in the conf; ``None`` where there is none.
    :raises InvalidRequest: it is no object, or has a key that is not known.
    """
    if conf is None:
        return parameters
    if not isinstance(conf, Mapping):
        raise InvalidRequest(
            (f'The run\'s conf has "kafka_offsets": {conf!r}; expected an object, such as {{"redo": true}}.',)
        )
    unknown = sorted(map(str, conf.keys() - CONF_WORDS))
    if unknown:
        raise InvalidRequest(
            (
                f'The run\'s conf has unknown keys under "kafka_offsets": {", ".join(unknown)}. It may have '
                f"{', '.join(sorted(CONF_WORDS))}.",
            )
        )
    try:
        answers = {**read_answers(parameters.policies), **read_answers(conf.get("policies"))}
    except ValueError as error:
        raise InvalidRequest((f"policies {error}.",)) from None
    return replace(parameters, **{**conf, "policies": answers})
