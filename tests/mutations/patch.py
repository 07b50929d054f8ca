"""A patch that breaks one rule, and its place in one text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PACKAGE = "airflow_kafka_offsets"
ROOT = Path(__file__).parents[2] / PACKAGE


@dataclass(frozen=True)
class Mutation:
    """``old`` stands exactly once in the file.

    :ivar tests: which tests must notice: arguments of pytest where it begins with ``tests/``; else a regular expression
        that is searched for in the ids of the fast tests; empty: the tests whose ids carry the rule.
    """

    rule: str
    file: str
    old: str
    new: str
    tests: str = ""


def apply(mutation: Mutation, text: str) -> str:
    """``text`` with the mutation in it.

    :raises ValueError: the old text is not there exactly once.
    """
    count = text.count(mutation.old)
    if count != 1:
        raise ValueError(f"no longer applies: the old text is there {count} times")
    return text.replace(mutation.old, mutation.new)
