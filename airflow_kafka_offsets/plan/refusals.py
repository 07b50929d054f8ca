"""Collects the refusals of partitions: one error names every bad partition, and each remedy once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from airflow_kafka_offsets.errors import PartitionsRefused

T = TypeVar("T")
V = TypeVar("V")


class Refusal(Exception):
    """Why one partition is refused; :func:`decide_each` collects them."""

    def __init__(self, error: type[PartitionsRefused], line: str, remedy: str) -> None:
        super().__init__(line)
        self.error, self.line, self.remedy = error, line, remedy


def decide_each(items: Iterable[T], decide: Callable[[T], V]) -> list[V]:
    """What ``decide`` says of each, in their order.

    :raises PartitionsRefused: ``decide`` raised :class:`Refusal` for some, all of which are in it.
    """
    decided: list[V] = []
    refusals: list[Refusal] = []
    for item in items:
        try:
            decided.append(decide(item))
        except Refusal as refusal:
            refusals.append(refusal)
    raise_refusals(refusals)
    return decided


def raise_refusals(refusals: Sequence[Refusal]) -> None:
    """Raise all of them as one error of the first one's kind, with each remedy once."""
    if refusals:
        remedies = dict.fromkeys(refusal.remedy for refusal in refusals)
        raise refusals[0].error([refusal.line for refusal in refusals], "\n".join(remedies))
