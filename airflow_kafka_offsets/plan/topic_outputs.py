"""One output for each topic: ``delta:lake.{topic}`` stands for ``delta:lake.orders``, ``delta:lake.payments``, ….

A plan names the pattern, and its topics name the outputs. Spark finds tables without regard to case, and a dot divides
catalog, schema and table. So a topic's name is lower case in the output's, and has ``_`` for ``.`` and ``-``. Two
topics whose names fall together would replace each other's rows: they are refused before anything is planned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from airflow_kafka_offsets.errors import refuse
from airflow_kafka_offsets.kafka_values import grouped

TOPIC = "{topic}"


def of_topic(pattern: str, topic: str) -> str:
    """The output's name, or a word of its sink, for one topic; one without ``{topic}`` stays as it is."""
    return pattern.replace(TOPIC, re.sub(r"[.-]", "_", topic.lower()))


def outputs_of(output: str | None, topics: Iterable[str], set_aside: str | None = None) -> list[str]:
    """What a batch of these topics writes, sorted; bad records come last.

    :param set_aside: where bad records go.
    :raises InvalidRequest: two topics have one output, or the bad records have the output of a topic.
    """
    if output is None:
        found: dict[str, list[str]] = {}
    elif TOPIC not in output:
        found = {output: []}
    else:
        found = grouped((of_topic(output, topic), topic) for topic in sorted(topics))
    problems = [
        f"The topics {' and '.join(names)} have one output, {name}: each would replace the other's rows. Subscribe "
        "to one of them here, and give the other a pipeline with an output of its own."
        for name, names in found.items()
        if len(names) > 1
    ]
    if set_aside is not None and found.get(set_aside):
        problems.append(
            f"The topic {found[set_aside][0]} has the output {set_aside}, which bad_records names: one would replace "
            "the other's rows. Let bad_records name another one."
        )
    refuse(problems)
    return [*found, *([set_aside] if set_aside is not None else [])]
