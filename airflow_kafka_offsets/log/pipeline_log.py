# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""A pipeline's log in the checkpoint location.

::

    <pipeline>/pipeline/<k>.json                              identity k, and its <k>-<random>.ranges.json
    <pipeline>/jobs/<digest>.json                             what rows mean and where they go
    <pipeline>/[<i>-of-<n>/]
        batches/<number / 100>/<number>/
            <k>.json                                          entry k: plan or commit (the header)
            <k>-<random>.ranges.json                          the per-partition half of a plan or a commit
            <n>-<random>.begun.json                           attempt n of a Spark driver, and its .report.json
        windows/<start>--<end>.json                           the number of the batch of that window
        runs/<dag>/<run>/<group or task>/<map index>.json     the number of the batch of that run
        cleaned/<number>.json                                 batches up to this one are cleaned

One mechanism: a name is created once and never changed. Of two writers exactly one wins; the other reads the log again.
A name whose creation decides something is never deleted either, or a late writer would create it a second time.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from airflow_kafka_offsets.errors import StoreDamaged
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.log.entries import Attempt, Batch, BodyName, Entry, Plan, entry_from_dict, entry_to_dict
from airflow_kafka_offsets.log.identity import (
    Identity,
    IdentityBody,
    identity_body_from_dict,
    identity_body_to_dict,
    identity_from_dict,
    identity_to_dict,
)
from airflow_kafka_offsets.log.reports import Report, report_from_dict
from airflow_kafka_offsets.plan.body import (
    Offsets,
    PlanBody,
    body_from_dict,
    body_to_dict,
    offsets_from_list,
    offsets_to_list,
)
from airflow_kafka_offsets.progress_log import Progress
from airflow_kafka_offsets.store.objects import create_object, encode, read_object, safe_name
from airflow_kafka_offsets.store.protocol import Store, together, unavailable

_ENTRY = re.compile(r"([1-9][0-9]*)\.json")
_ATTEMPT = re.compile(r"([1-9][0-9]*)-([a-z0-9]+)\.(begun|report)\.json")
_SHARD = re.compile(r"(.+)/([0-9]+)-of-([1-9][0-9]*)")
_GROUP = 100
_AT_ONCE = 64
T = TypeVar("T")


class Head(NamedTuple):
    """The end of a log in sequence, where numbers have no gaps and one batch at most is unfinished.

    :ivar committed: the newest committed batch; ``unfinished``: the one behind it.
    """

    committed: Batch | None = None
    unfinished: Batch | None = None

    @property
    def newest(self) -> Batch | None:
        return self.unfinished or self.committed

    @property
    def next_number(self) -> int:
        return 1 if self.newest is None else self.newest.number + (self.unfinished is None)


class PipelineLog:
    """The log of one pipeline, or of one of its shards. What is created never changes, so each object is read once.

    :param pipeline_id: with ``/<i>-of-<n>`` for a shard.
    """

    def __init__(self, store: Store, pipeline_id: str) -> None:
        self.store, self.pipeline_id = store, pipeline_id
        found = _SHARD.fullmatch(pipeline_id)
        self.name = found[1] if found else pipeline_id
        self.shard = (int(found[2]), int(found[3])) if found else None
        self.root = safe_name(self.name)
        self._own = f"{self.root}/{found[2]}-of-{found[3]}" if found else self.root
        self._read: dict[str, Any] = {}

    def of_shards(self, shards: int) -> list[PipelineLog]:
        """The logs of all shards of this pipeline; this one for its own shard."""
        names = [f"{self.name}/{i}-of-{shards}" for i in range(shards)] if shards > 1 else [self.name]
        return [self if name == self.pipeline_id else PipelineLog(self.store, name) for name in names]

    # ── the identity ──────────────────────────────────────────────────────────────────────────────────────────────────

    def identity(self, number: int | None = None) -> Identity | None:
        """The current identity, or the one with this number.

        :raises StoreDamaged: an older version of this package wrote the log.
        """
        if number is None:
            numbers = [int(m[1]) for m in map(_ENTRY.fullmatch, self.store.list(f"{self.root}/pipeline")) if m]
            if not numbers:
                if not self.store.list(f"{self.root}/batches"):
                    return None
                if self.store.list(f"{self.root}/pipeline"):
                    return self.identity()  # another run has created both in between
                raise self._damaged(f"{self.root}/pipeline/1.json", "there are batches, and no identity")
            number = max(numbers)
        identity: Identity = self._object(f"{self.root}/pipeline/{number}.json", identity_from_dict)
        return identity

    def identity_body(self, identity: Identity) -> IdentityBody:
        body: IdentityBody = self._body(f"{self.root}/pipeline", identity.ranges, identity_body_from_dict)
        return body

    def create_identity(self, identity: Identity) -> bool:
        """``False``: another run created this number first; look again."""
        return create_object(self.store, f"{self.root}/pipeline/{identity.number}.json", identity_to_dict(identity))

    def write_identity_body(self, number: int, body: IdentityBody) -> BodyName:
        return self._write(f"{self.root}/pipeline", number, identity_body_to_dict(body), body)

    def probe(self, identity: Identity) -> None:
        """Probe the store, once per pipeline: a name is created once, and listings show it.

        :raises StoreUnavailable: one of the two does not hold.
        """
        name = f"{self.root}/pipeline/{identity.number}.json"
        if create_object(self.store, name, {"version": 1, "probe": secrets.token_hex(4)}):
            raise unavailable(self.store, "create", name, "a second create of one name succeeded", retriable=False)
        if f"{identity.number}.json" not in self.store.list(f"{self.root}/pipeline"):
            raise unavailable(self.store, "list", name, "it was just created, and is not listed", retriable=False)

    # ── batches ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def folder(self, number: int) -> str:
        return f"{self._own}/batches/{number // _GROUP:08}/{number:010}"

    def newest(self) -> Batch | None:
        """The batch with the highest number; found by three listings, however many there are."""
        return next((batch for number in self.folders() if (batch := self.batch(number)) is not None), None)

    def head(self, newest: Batch | None = None) -> Head:
        """In sequence: the newest committed batch and the unfinished one.

        :param newest: where it was looked at already.
        """
        newest = newest or self.newest()
        if newest is None or newest.is_committed:
            return Head(newest)
        return Head(self.existing(newest.number - 1) if newest.number > 1 else None, newest)

    def folders(self) -> Iterator[int]:
        """The numbers that have a folder, the highest first. Of the first one there may be no plan yet."""
        for group in reversed(self.store.list(f"{self._own}/batches")):
            for folder in reversed(self.store.list(f"{self._own}/batches/{group.rstrip('/')}")):
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
        calls = (partial(self._object, f"{folder}/{k}.json", entry_from_dict) for k in numbers)
        entries = together(self.store, *calls)
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
        name = f"{self.folder(number)}/{k}.json"
        if not create_object(self.store, name, entry_to_dict(entry)):
            return False
        self._read[name] = entry
        return True

    def write_body(self, number: int, k: int, body: PlanBody | Offsets) -> BodyName:
        """Write the per-partition half of entry ``k``, which names it; before the entry itself."""
        value = body_to_dict(body) if isinstance(body, PlanBody) else {"version": 1, "position": offsets_to_list(body)}
        return self._write(self.folder(number), k, value, body)

    def body(self, batch: Batch) -> PlanBody:
        """The per-partition half of the current plan."""
        return self.body_of(batch, batch.plan)

    def first_body(self, batch: Batch) -> PlanBody:
        """The body of the batch's first plan, even if it was replaced."""
        return self.body_of(batch, batch.first_plan)

    def body_of(self, batch: Batch, plan: Plan) -> PlanBody:
        """That of one of the batch's plans."""
        body: PlanBody = self._body(self.folder(batch.number), plan.ranges, body_from_dict)
        return body

    def position_after(self, batch: Batch) -> Offsets:
        """The position that the batch's commit holds."""
        name = batch.commits[-1].ranges
        return {} if name is None else self.position(batch.number, name)

    def position(self, number: int, name: BodyName) -> Offsets:
        """The position that a commit of this batch names."""
        found: Offsets = self._body(self.folder(number), name, lambda data: offsets_from_list(data["position"]))
        return found

    def begun(self, batch: Batch, attempt: Attempt) -> dict[str, Any]:
        """What a driver has said when its attempt began: its ``plan_id``, ``output`` and perhaps ``spark_ui``."""
        name = f"{self.folder(batch.number)}/{attempt.number}-{attempt.random}.begun.json"
        found: dict[str, Any] = self._object(name, dict)
        return found

    def report(self, batch: Batch, attempt: Attempt) -> Report:
        name = f"{attempt.number}-{attempt.random}.report.json"
        report: Report = self._object(f"{self.folder(batch.number)}/{name}", report_from_dict)
        return report

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

    def cleaned(self) -> tuple[int, list[int]]:
        """The number up to which all batches are cleaned, and which of them could not be."""
        names = self.store.list(f"{self._own}/cleaned")
        up_to = max((int(match[1]) for match in map(_ENTRY.fullmatch, names) if match), default=0)
        found = read_object(self.store, f"{self._own}/cleaned/{up_to}.json") if up_to else None
        return (0, []) if found is None else (up_to, found["left"])

    def note_cleaned(self, number: int, left: list[int]) -> None:
        """It decides nothing: the next cleaning begins behind it, and with what is left."""
        create_object(self.store, f"{self._own}/cleaned/{number}.json", {"version": 1, "left": left})

    def _run(self, run: RunKey) -> str:
        names = "/".join(map(safe_name, (run.dag_id, run.run_id, run.task_id)))
        return f"{self._own}/runs/{names}/{run.map_index}.json"

    def _window(self, window: tuple[int, int]) -> str:
        return f"{self._own}/windows/{window[0]}--{window[1]}.json"

    def _number(self, name: str) -> int | None:
        found = read_object(self.store, name)
        return None if found is None else int(found["batch"])

    def _name(self, name: str, number: int) -> int:
        if create_object(self.store, name, {"version": 1, "batch": number}):
            return number
        found = self._number(name)
        assert found is not None  # a name that was created is never deleted
        return found

    # ── objects ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _write(self, folder: str, k: int, value: Mapping[str, Any], body: Any) -> BodyName:
        data = encode(value)
        name = f"{k}-{secrets.token_hex(4)}.ranges.json"
        self.store.create(f"{folder}/{name}", data)
        self._read[f"{folder}/{name}"] = body
        return BodyName(name, hashlib.sha256(data).hexdigest())

    def _body(self, folder: str, name: BodyName, parse: Any) -> Any:
        def checked(data: Mapping[str, Any]) -> Any:
            if hashlib.sha256(encode(data)).hexdigest() != name.sha256:
                raise ValueError(f"its digest is not {name.sha256}, which its header names")
            return parse(data)

        return self._object(f"{folder}/{name.name}", checked)

    def _object(self, name: str, parse: Any) -> Any:
        if name not in self._read:
            data = read_object(self.store, name)
            if data is None:
                raise self._damaged(name, "it is not there")
            try:
                if data["version"] != 1:
                    raise ValueError(f"version {data['version']!r} is not known")
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


def name_in(store: Store, folder: str) -> str | None:
    """The name of the pipeline in a folder, whose own name may be cut; ``None``: there is none."""
    first = read_object(store, f"{folder}/pipeline/1.json")
    return None if first is None else str(first.get("pipeline"))


def job_digest(job: Mapping[str, Any]) -> str:
    """What a job object is called."""
    return hashlib.sha256(encode(job)).hexdigest()


def put_job(log: PipelineLog, job: Mapping[str, Any]) -> str:
    """Write what rows mean and where they go, once. Returns its digest."""
    data, digest = encode(job), job_digest(job)
    name = f"{log.root}/jobs/{digest}.json"
    if (
        log.store.get(name) is None
    ):  # one request where it is there, as after the first run; to create it again takes two
        log.store.create(name, data)
    return digest
