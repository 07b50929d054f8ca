"""Placeholders in a Spark job's own arguments, for a job that takes its offsets from them and knows of no batch.

``["--starting-offsets", "{starting_offsets}", …]``: the batch's values are put in their place, for each split that has
records. The batch's own arguments are left out then: such a job would refuse words that it does not know. It makes no
report, so nothing here shows that it read what it was given.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.plan.argument_rules import word_problems
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.plan.plan_json import spark_options

_OF_SPARK = {
    "{assign}": "assign",
    "{starting_offsets}": "startingOffsets",
    "{ending_offsets}": "endingOffsets",
}


def has_placeholders(words: Sequence[object]) -> bool:
    """Whether a job is to be given offsets in the place of the batch."""
    return any(name in str(word) for word in words for name in _OF_SPARK)


def placeholder_problems(words: Sequence[object]) -> list[str]:
    """Why a job could read other records than the batch's; each a sentence."""
    missing = [name for name in ("{starting_offsets}", "{ending_offsets}") if not any(name in str(w) for w in words)]
    if not has_placeholders(words) or not missing:
        return []
    return [
        f"application_args has no {' and no '.join(missing)}: a job that is given one bound alone reads other records "
        "than the batch. Give it both."
    ]


def offset_words(words: Sequence[str], plan: Plan, splits: Sequence[int]) -> list[list[str]]:
    """The words of each job, for the splits that have records.

    :param words: the job's own, with ``{assign}``, ``{starting_offsets}``, ``{ending_offsets}``, ``{batch_key}`` and
        ``{split}``.
    :raises InvalidRequest: they are too long to reach a job.
    """
    return [_of_split(words, plan, split) for split in splits if plan.splits[split]]


def _of_split(words: Sequence[str], plan: Plan, split: int) -> list[str]:
    options = spark_options(plan.splits[split])
    values = {name: options[option] for name, option in _OF_SPARK.items()}
    values |= {"{batch_key}": plan.batch.key, "{split}": str(split)}
    filled = list(words)
    for name, value in values.items():
        filled = [word.replace(name, value) for word in filled]
    if problems := word_problems(filled):
        raise InvalidRequest([*problems, f"Split {split} has {len(plan.splits[split])} partitions: give more splits."])
    return filled
