"""One patch on one text."""

from __future__ import annotations

from pathlib import Path

from tests.mutations.mutations import Mutation

PACKAGE = "airflow_kafka_offsets"
ROOT = Path(__file__).parents[2] / PACKAGE


def apply(mutation: Mutation, text: str) -> str:
    """``text`` with the mutation in it.

    :raises ValueError: the old text is not there exactly once.
    """
    count = text.count(mutation.old)
    if count != 1:
        raise ValueError(f"no longer applies: the old text is there {count} times")
    return text.replace(mutation.old, mutation.new)
