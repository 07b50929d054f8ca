"""A pipeline's log in the checkpoint location.

::

    <pipeline>/batches/<number / 100>/<number>/
        <k>.json                       entry k: plan, claim or commit (the header)
        <k>-<random>.ranges.json       the per-partition half of a plan or a commit
        <n>-<random>.begun.json        attempt n of a Spark driver, and its <n>-<random>.report.json
    <pipeline>/windows/<start>--<end>.json                    the number of the batch of that window
    <pipeline>/runs/<dag>/<run>/<task>-<map index>.json       the number of the batch of that run
    <pipeline>/jobs/<digest>.json                             what rows mean and where they go

One mechanism: a name is created once and never changed. Of two writers exactly one wins; the other one looks again. A
name whose creation decides something is never deleted either, or a late writer would create it a second time.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from airflow_kafka_offsets.errors import StoreDamaged
from airflow_kafka_offsets.kafka_values import CommittedOffset, RunKey, TopicPartition
from airflow_kafka_offsets.log.entries import Attempt, Batch, BodyName, Commit, Entry, entry_from_dict, entry_to_dict
from airflow_kafka_offsets.log.reports import Report, report_from_dict
from airflow_kafka_offsets.plan.body import (
    Offset,
    PlanBody,
    body_from_dict,
    body_to_dict,
    offsets_from_list,
    offsets_to_list,
)
from airflow_kafka_offsets.progress_log import Progress
from airflow_kafka_offsets.store.objects import create_object, encode, read_object, safe_name
from airflow_kafka_offsets.store.protocol import Store, together

_ENTRY = re.compile(r"([1-9][0-9]*)\.json")
_ATTEMPT = re.compile(r"([1-9][0-9]*)-([a-z0-9]+)\.(begun|report)\.json")
_GROUP = 100
_AT_ONCE = 64
T = TypeVar("T")
Position = Mapping[TopicPartition, Offset]
Body = PlanBody | Position | None


class PipelineLog:
    """The log of one pipeline. Entries and bodies never change, so each is read once.

    :param pipeline_id: with ``/<i>-of-<n>`` for a shard.
    """

    def __init__(self, store: Store, pipeline_id: str) -> None:
        self.store, self.pipeline_id = store, pipeline_id
        self.root = safe_name(pipeline_id)
        self._read: dict[str, Any] = {}

    # ── batches ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def folder(self, number: int) -> str:
        return f"{self.root}/batches/{number // _GROUP:08}/{number:010}"

    def newest(self) -> Batch | None:
        """The batch with the highest number; found by three listings, however many there are."""
        return next((batch for number in self.folders() if (batch := self.batch(number)) is not None), None)

    def folders(self) -> Iterator[int]:
        """The numbers that have a folder, the highest first. Of the first one there may be no plan yet."""
        for group in reversed(self.store.list(f"{self.root}/batches")):
            for folder in reversed(self.store.list(f"{self.root}/batches/{group.rstrip('/')}")):
                yield int(folder.rstrip("/"))

    def batch(self, number: int) -> Batch | None:
        """The batch as it is now; ``None`` where it is not planned."""
        folder = self.folder(number)
        names = self.store.list(folder)
        numbers = sorted(int(match[1]) for name in names if (match := _ENTRY.fullmatch(name)))
        if not numbers:
            return None
        if numbers != list(range(1, len(numbers) + 1)):
            raise self._damaged(f"{folder}/{numbers[-1]}.json", f"entries {numbers} are not numbered without gaps")
        entries = together(self.store, *(self._reader(f"{folder}/{k}.json", entry_from_dict) for k in numbers))
        found: dict[tuple[int, str], bool] = {}
        for name in names:
            if match := _ATTEMPT.fullmatch(name):
                key = int(match[1]), match[2]
                found[key] = found.get(key, False) or match[3] == "report"
        return Batch(
            number,
            tuple(entries),
            tuple(Attempt(n, random, is_reported) for (n, random), is_reported in sorted(found.items())),
            frozenset(name for name in names if name.endswith(".ranges.json")),
        )

    def existing(self, number: int) -> Batch:
        """A batch that a name in this log leads to.

        :raises StoreDamaged: it is not there.
        """
        batch = self.batch(number)
        if batch is None:
            raise self._damaged(f"{self.folder(number)}/1.json", "it is not there, and the log refers to it")
        return batch

    def read_each(self, numbers: Iterable[int], read: Callable[[Batch], T]) -> Iterator[T]:
        """What ``read`` makes of these batches; many at a time where the store is remote.

        What was read for it is forgotten: all batches of a log may be larger than memory.

        :raises StoreDamaged: one of them is not there, or cannot be read.
        """
        left = list(numbers)
        progress = Progress("read batches", len(left))
        while left:
            some, left = left[:_AT_ONCE], left[_AT_ONCE:]
            known = set(self._read)
            calls = (partial(lambda number: read(self.existing(number)), number) for number in some)
            found = together(self.store, *calls)
            for name in self._read.keys() - known:
                del self._read[name]
            progress.add(len(some))
            yield from found

    def append(self, number: int, k: int, entry: Entry) -> bool:
        """Create entry ``k`` of a batch. ``False``: another writer created it first; look again."""
        return create_object(self.store, f"{self.folder(number)}/{k}.json", entry_to_dict(entry))

    def write_body(self, number: int, k: int, body: PlanBody | Position) -> BodyName:
        """Write the per-partition half of entry ``k``, which names it; before the entry itself."""
        value = body_to_dict(body) if isinstance(body, PlanBody) else {"version": 1, "position": offsets_to_list(body)}
        data = encode(value)
        name = f"{k}-{secrets.token_hex(4)}.ranges.json"
        self.store.create(f"{self.folder(number)}/{name}", data)
        return BodyName(name, hashlib.sha256(data).hexdigest())

    def body(self, batch: Batch) -> PlanBody:
        """The per-partition half of the current plan."""
        return self._body_of(batch.number, batch.plan.ranges)

    def first_body(self, batch: Batch) -> PlanBody:
        """That of the batch's first plan, whatever became of it."""
        return self._body_of(batch.number, batch.first_plan.ranges)

    def seen(self, batch: Batch) -> Mapping[TopicPartition, CommittedOffset]:
        """What the last plan, or a person's claim after it, says that the group held where it was not ours."""
        named = (e.ranges for e in reversed(batch.entries) if not isinstance(e, Commit))
        return self._body_of(batch.number, next(name for name in named if name is not None)).seen

    def position_after(self, batch: Batch) -> Position:
        """The position that the batch's commit holds."""
        name = batch.commits[-1].ranges
        if name is None:
            return {}
        found: Position = self._body(batch.number, name, lambda data: offsets_from_list(data["position"]))
        return found

    def report(self, batch: Batch, attempt: Attempt) -> Report:
        name = f"{attempt.number}-{attempt.random}.report.json"
        report: Report = self._object(f"{self.folder(batch.number)}/{name}", report_from_dict)
        return report

    def output_of(self, batch: Batch, attempt: Attempt) -> str | None:
        """The output that a driver named when it began."""
        name = f"{attempt.number}-{attempt.random}.begun.json"
        output: str | None = self._object(f"{self.folder(batch.number)}/{name}", lambda data: data["output"])
        return output

    # ── names ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def batch_of(self, run: RunKey) -> int | None:
        """The number of the batch that a run is bound to; ``None``: none, as of each new run.

        Listed first: a remote store makes sure that it is there by a listing, which would follow a get of nothing.
        """
        folder, _, name = self._run(run).rpartition("/")
        return self._number(f"{folder}/{name}") if name in self.store.list(folder) else None

    def bind(self, run: RunKey, number: int) -> int:
        """Bind a run to a batch, once. Returns the number that it is bound to."""
        return self._name(self._run(run), number)

    def batch_of_window(self, window: tuple[int, int]) -> int | None:
        return self._number(self._window(window))

    def name_window(self, window: tuple[int, int], number: int) -> int:
        """Say which batch has a window, once."""
        return self._name(self._window(window), number)

    def _run(self, run: RunKey) -> str:
        return f"{self.root}/runs/{safe_name(run.dag_id)}/{safe_name(run.run_id)}/{safe_name(run.task_id)}-{run.map_index}.json"  # noqa: E501

    def _window(self, window: tuple[int, int]) -> str:
        return f"{self.root}/windows/{window[0]}--{window[1]}.json"

    def _number(self, name: str) -> int | None:
        found = read_object(self.store, name)
        return None if found is None else int(found["batch"])

    def _name(self, name: str, number: int) -> int:
        if create_object(self.store, name, {"version": 1, "batch": number}):
            return number
        found = self._number(name)
        assert found is not None  # a name that was created is never deleted
        return found

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _body_of(self, number: int, name: BodyName) -> PlanBody:
        body: PlanBody = self._body(number, name, body_from_dict)
        return body

    def _body(self, number: int, name: BodyName, parse: Any) -> Any:
        def checked(data: Mapping[str, Any]) -> Any:
            if hashlib.sha256(encode(data)).hexdigest() != name.sha256:
                raise ValueError(f"its digest is not {name.sha256}, which its header names")
            return parse(data)

        return self._object(f"{self.folder(number)}/{name.name}", checked)

    def _reader(self, name: str, parse: Any) -> Any:
        return lambda: self._object(name, parse)

    def _object(self, name: str, parse: Any) -> Any:
        if name not in self._read:
            data = read_object(self.store, name)
            if data is None:
                raise self._damaged(name, "it is not there")
            try:
                self._read[name] = parse(data)
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise self._damaged(name, f"{type(error).__name__}: {error}") from None
        return self._read[name]

    def _damaged(self, name: str, reason: str) -> StoreDamaged:
        return StoreDamaged(
            f"Cannot use object {name} of the checkpoint location {self.store.uri}",
            reason,
            "Restore it from a copy. If another version of airflow-kafka-offsets wrote it, use that version.",
        )


def pipelines_of(store: Store) -> list[str]:
    """The folders of the pipelines in a checkpoint location, as :func:`safe_name` writes them."""
    return [name.rstrip("/") for name in store.list("") if name.endswith("/")]


def put_job(store: Store, pipeline_id: str, job: Mapping[str, Any]) -> str:
    """Write what rows mean and where they go, once. Returns its digest."""
    data = encode(job)
    digest = hashlib.sha256(data).hexdigest()
    name = f"{safe_name(pipeline_id)}/jobs/{digest}.json"
    if store.get(name) is None:  # one request where it is there, as after the first run; to create it again takes two
        store.create(name, data)
    return digest
