"""The output against the log: which offsets of which batch are missing, there twice, or of no batch. It asks nobody.

What must be there is what the verified report of each split has counted: its rows and its bad records, which lie in
another place of the same output, without those that were left out. Without a report it is only known what may be there;
so it is where rows were merged by key: a later record of the same key has taken the place of a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from airflow_kafka_offsets.log.audit import BatchRecord
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.whole_log import is_within, whole_records
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

    :ivar rows: how many, each with another offset in ``[start, end)``; ``None``: that is not known.
    :ivar merged: whether they were merged by key.
    """

    start: int
    end: int
    rows: int | None
    merged: bool = False

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


@dataclass(frozen=True, slots=True)
class OutputToRead:
    """What an output is compared with.

    :ivar words: of the sink, as the DAG has them.
    :ivar judged: the batches; :ivar known: the key of each batch of the log, and whether it is committed.
    :ivar bounds: the keys between which they lie; ``None``: all of the output is read.
    """

    words: Mapping[str, Any]
    judged: Sequence[BatchRecord]
    known: Mapping[str, bool]
    bounds: tuple[str, str] | None

    @property
    def places(self) -> list[Mapping[str, Any]]:
        """Where bad records may lie; each once."""
        found = [words for record in self.judged for words in record.set_aside]
        return [words for index, words in enumerate(found) if words not in found[:index]]

    @property
    def formats(self) -> set[str]:
        return {words["format"] for words in (self.words, *self.places)}


def output_to_read(
    pipeline: PipelineLog, words: Mapping[str, Any], from_ms: int | None = None, to_ms: int | None = None
) -> OutputToRead:
    """The batches that were committed from ``from_ms`` to before ``to_ms``.

    :raises StoreDamaged: a part of the log cannot be read.
    """
    records = list(whole_records(pipeline, from_ms, to_ms))
    known = {record.log.plan.batch.key: record.log.committed is not None for record in records}
    judged = [record for record in records if is_within(record.log.at_ms, from_ms, to_ms)]
    keys = sorted(record.log.plan.batch.key for record in judged) or [""]
    bounds = None if from_ms is None and to_ms is None else (keys[0], keys[-1])
    return OutputToRead(words, judged, known, bounds)


def expected_of(record: BatchRecord) -> dict[Place, ExpectedRows]:
    """What the output has to have of a batch, with the bad records; nothing of one that is not committed."""
    plan, merged = record.log.plan, record.is_merged
    found: dict[Place, ExpectedRows] = {}
    for split, pieces in enumerate(plan.splits) if record.log.committed else ():
        attempts = record.attempts.get(split, ())
        report = attempts[0].report if len(attempts) == 1 and not merged else None
        for p in pieces:
            read = report.partitions.get(p.topic_partition) if report else None
            rows = read.row_count - read.left_out if read else 0 if report else None
            place = Place(plan.batch.key, split, *p.topic_partition)
            found[place] = ExpectedRows(p.start_offset, p.end_offset, rows, merged)
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
    elif expected.rows is None and not expected.merged and offsets < expected.end - expected.start:
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
