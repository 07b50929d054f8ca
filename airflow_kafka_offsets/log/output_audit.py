"""The output against the log: which offsets of which batch are missing, there twice, or of no batch. It asks nobody.

What must be there is what the verified report of each split has counted: its rows, without those that were set aside
and left out. Without a report it is only known what may be there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from airflow_kafka_offsets.log.audit import BatchRecord
from airflow_kafka_offsets.plan.plan import number_of

OutputKind = Literal["missing", "twice", "of no batch", "not judged"]


class Place(NamedTuple):
    """The rows of one partition, in one split of one batch."""

    key: str
    split: int
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """What the output has to have of a place.

    :ivar rows: how many, each with another offset in ``[start, end)``; ``None``: nobody has reported.
    """

    start: int
    end: int
    rows: int | None

    @property
    def is_whole(self) -> bool:
        """Whether each offset has to be there."""
        return self.rows == self.end - self.start


@dataclass(frozen=True, slots=True)
class FoundRows:
    """What the output has of a place.

    :ivar rows: how many; :ivar offsets: how many different offsets; ``first`` and ``last``: the lowest and highest.
    """

    rows: int
    offsets: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class OutputFinding:
    """Something that is not as the log says.

    :ivar count: of rows.
    """

    kind: OutputKind
    place: Place
    count: int
    what: str

    @property
    def is_wrong(self) -> bool:
        return self.kind != "not judged"

    def to_dict(self) -> dict[str, object]:
        """As JSON has it."""
        key, split, topic, partition = self.place
        place = {"key": key, "split": split, "topic": topic, "partition": partition}
        return {**place, "finding": self.kind, "rows": self.count, "what": self.what}


def expected_of(record: BatchRecord) -> dict[Place, ExpectedRows]:
    """What the output has to have of a batch; nothing of one that is not committed."""
    plan = record.log.plan
    found: dict[Place, ExpectedRows] = {}
    for split, pieces in enumerate(plan.splits) if record.log.committed else ():
        attempts = record.attempts.get(split, ())
        report = attempts[0].report if len(attempts) == 1 else None
        for p in pieces:
            read = report.partitions.get(p.topic_partition) if report else None
            rows = read.row_count - read.set_aside - read.left_out if read else 0 if report else None
            found[Place(plan.batch.key, split, *p.topic_partition)] = ExpectedRows(p.start_offset, p.end_offset, rows)
    return found


def compare(
    expected: Mapping[Place, ExpectedRows], found: Mapping[Place, FoundRows], known: Mapping[str, bool]
) -> list[OutputFinding]:
    """
    :param known: the key of each batch of the log, and whether it is committed. One that is older than all of them was
        cleaned away.
    """
    oldest = min((number for number in map(number_of, known) if number), default=0)
    findings: list[OutputFinding] = []
    for place in sorted(expected.keys() | found.keys()):
        if place in expected:
            findings += _of_place(place, expected[place], found.get(place))
        else:
            findings.append(_unexpected(place, found[place], known, oldest))
    return findings


def _of_place(place: Place, expected: ExpectedRows, found: FoundRows | None) -> Iterator[OutputFinding]:
    rows, offsets = (found.rows, found.offsets) if found else (0, 0)
    span = f"[{expected.start}, {expected.end})"
    if found and (found.first < expected.start or found.last >= expected.end):
        what = f"offsets from {found.first} to {found.last} are there, and the batch has {span}"
        yield OutputFinding("of no batch", place, rows, what)
    elif expected.rows is not None and offsets > expected.rows:
        what = f"{offsets} of {span} are there, and the report has counted {expected.rows}"
        yield OutputFinding("of no batch", place, offsets - expected.rows, what)
    if rows > offsets:
        yield OutputFinding("twice", place, rows - offsets, f"{rows} rows have {offsets} different offsets of {span}")
    if expected.rows is not None and offsets < expected.rows:
        what = f"{offsets} of {expected.rows} rows of {span} are there"
        yield OutputFinding("missing", place, expected.rows - offsets, what)
    elif expected.rows is None and offsets < expected.end - expected.start:
        left = expected.end - expected.start - offsets
        yield OutputFinding("not judged", place, left, f"nobody has reported; {offsets} offsets of {span} are there")


def _unexpected(place: Place, found: FoundRows, known: Mapping[str, bool], oldest: int) -> OutputFinding:
    if place.key in known and not known[place.key]:
        return OutputFinding("not judged", place, found.rows, "the batch is not committed")
    if 0 < number_of(place.key) < oldest:
        return OutputFinding("not judged", place, found.rows, "the log begins later: the batch was cleaned away")
    why = "the batch does not read that partition in that split" if place.key in known else "the log has no such batch"
    return OutputFinding("of no batch", place, found.rows, why)


def missing_ranges(words: Iterable[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """The ranges of ``[start, end)`` that are not there.

    :param words: the number of each 64 offsets of which some are there, and those of them, as the bits of a long.
    """
    found: list[tuple[int, int]] = []
    at = start
    for word, bits in sorted(words):
        for place in range(64):
            offset = word * 64 + place
            if bits >> place & 1 and start <= offset < end:
                if offset > at:
                    found.append((at, offset))
                at = offset + 1
    return [*found, (at, end)] if at < end else found
