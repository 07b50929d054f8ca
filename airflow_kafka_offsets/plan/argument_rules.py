"""What every way to submit hands to a Spark job, word by word and unchanged: docs/submitting.md.

A list of words, because each service takes one (``application_args``, ``args``, ``parameters``, …), in which nothing
means anything to what lies between: no template of Airflow, YARN or Databricks, no variable of Kubernetes. They are
short: the smallest limit is Databricks' (10,000 bytes), then that of an EMR step (10,280 characters).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.plan.job_arguments import parse_job_arguments

MOST_BYTES = 10_000
"""Of all words of a job, as JSON."""

_NOT_AS_IT_IS = {
    # ContainerLaunch.expandEnvironment of Hadoop's node manager; Airflow's own templates; Databricks' dynamic values
    "{{": "Airflow, YARN and Databricks would change",
    "}}": "Airflow, YARN and Databricks would change",
    # expansion.Expand of Kubernetes' kubelet, for a container's args
    "$(": "Kubernetes would change",
    "$$": "Kubernetes would change",
    "\0": "no operating system lets through",
}


def batch_arguments(of_split: Sequence[str], own: Sequence[str] = ()) -> list[str]:
    """The words of one Spark job: its own ones, then those of its split of the batch.

    :param of_split: an entry of the resolve task's output, which names one split of one plan.
    :param own: words for the job itself; ``application_args`` of the resolve task puts them there already.
    :raises InvalidRequest: ``of_split`` is no batch's, or what the job is given would not be what is said here: a word
        is no text, or one that a service on the way changes, or they are too long together. All problems are named.
    """
    words = [*own, *of_split]
    problems = word_problems(words)
    try:
        parse_job_arguments([str(word) for word in words])
    except InvalidRequest as refused:
        problems += refused.problems
    if problems:
        raise InvalidRequest(problems)
    return words


def word_problems(words: Sequence[object]) -> list[str]:
    """Why these would not reach a job as they are; each a sentence."""
    problems = [
        f"The Spark job's argument {word!r} is of type {type(word).__name__}; arguments are text."
        for word in words
        if not isinstance(word, str)
    ]
    problems += [
        f"The Spark job's argument {word!r} has {part!r}, which {fate} on the way to the job. "
        "Write it in another way; JSON may have blanks between its braces."
        for word in words
        for part, fate in _NOT_AS_IT_IS.items()
        if part in str(word)
    ]
    size = len(json.dumps([str(word) for word in words], ensure_ascii=False).encode())
    if size > MOST_BYTES:
        problems.append(
            f"The Spark job's arguments have {size:,} bytes as JSON, and {MOST_BYTES:,} reach a job however it is "
            "submitted: put the long ones into a file that the job reads, and give its name."
        )
    return problems
