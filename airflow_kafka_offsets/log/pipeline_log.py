"""A pipeline's log of batches in the work store: what Structured Streaming's checkpoint folder is to a query.

::

    pipelines/<pipeline_id>/
        batches/<hundreds>/<number>/<k>.json      the log of a batch: k = 1, 2, …: plan, taken, commit, cleaned
        windows/<from>--<to>/<k>.json             the same, of a window
        window-claims/<yyyy-mm>/<from>--<to>.<k>  in each month that the window lies in, for its plan k
        …/<split>-<n>-<random>.{begun,report}.json    beside them, what Spark drivers report (``reads``)
        runs/<dag_id>/<run_id>/<task_id>/<map>.json    which batch that run took

The newest batch is found by two listings of one page each, at the ten thousandth batch as at the tenth.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any
from urllib.parse import unquote

from airflow_kafka_offsets.errors import StoreDamaged
from airflow_kafka_offsets.json_columns import as_json, read_as, reading, require_version
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.log.entries import (
    BatchLog,
    Cleaned,
    Committed,
    Entry,
    Planned,
    StoredEntry,
    entry_from_dict,
    entry_to_dict,
    log_of,
)
from airflow_kafka_offsets.plan.plan import HIGHEST, number_of
from airflow_kafka_offsets.plan.window_claims import WINDOW_NAME, OffsetClaim, time_claim_of_name
from airflow_kafka_offsets.stores.objects import create_object, read_object, safe_name
from airflow_kafka_offsets.stores.store import Store, together

_ENTRY = re.compile(r"([1-9][0-9]{0,17})\.json")
_BATCH = re.compile(r"([0-9]{10})/")
_HUNDREDS = re.compile(r"([0-9]{8})/")
_CLAIM = re.compile(rf"(?P<name>{WINDOW_NAME})\.(?P<k>[1-9][0-9]{{0,17}})")
_FOLDER = re.compile(rf"batches/[0-9]{{8}}/[0-9]{{10}}|windows/{WINDOW_NAME}")


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch's log, and where it is.

    :ivar folder: its folder in the store.
    """

    store: Store
    folder: str
    log: BatchLog

    @property
    def plan_object(self) -> str:
        """The name of the object that holds the current plan."""
        return f"{self.folder}/{self.log.plan_number}.json"

    @property
    def next_object(self) -> str:
        """The name that the next entry gets: it is another one as soon as somebody has written."""
        return f"{self.folder}/{self.log.next_number}.json"

    @property
    def name(self) -> str:
        """The folder below the pipeline's, as runs know it."""
        return self.folder.split("/", 2)[2]

    def append(self, entry: Entry) -> StoredBatch | None:
        """The batch with one more entry; ``None`` where somebody was faster: read it again. A commit is summed up."""
        if isinstance(entry, Committed):
            entry = replace(entry, summary=self.log.with_entry(entry).summary)
        return replace(self, log=self.log.with_entry(entry)) if self._create(entry) else None

    def close(self) -> bool:
        """Say that the batch is cleaned away; ``False`` where somebody was faster."""
        return self._create(Cleaned())

    def _create(self, entry: StoredEntry) -> bool:
        return create_object(self.store, self.next_object, entry_to_dict(entry))

    def entries(self) -> list[tuple[int, Entry]]:
        """Every entry from the first plan on, with its number; ``log`` begins with the current plan."""
        if self.log.plan_number == 1:  # all of them are known
            return list(enumerate((self.log.planned, *self.log.later), 1))
        return entries_since_clean(self.store, self.folder, self.store.list(self.folder))


@dataclass(frozen=True, slots=True)
class BatchOfRun:
    """Which batch a run took.

    :ivar folder: below the pipeline's; ``None``: there was nothing to do.
    """

    folder: str | None
    key: str | None = None
    output: str | None = None


class PipelineLog:
    """The log of the pipeline ``pipeline_id``."""

    def __init__(self, store: Store, pipeline_id: str) -> None:
        self.store = store
        self.pipeline_id = pipeline_id
        self.root = f"pipelines/{safe_name(pipeline_id)}"

    # ── batches ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def newest(self, known: StoredBatch | None = None) -> StoredBatch | None:
        """The batch with the highest number; ``None`` where there is none."""
        return next(self.newest_first(known), None)

    def newest_first(self, known: StoredBatch | None = None) -> Iterator[StoredBatch]:
        """The batches from the newest on, each read when it is asked for.

        :param known: see :func:`read_batch`.
        """
        any_found = False
        for folder in self.folders(reverse=True):
            found = read_what_is_left(self.store, folder) if any_found else read_batch(self.store, folder, known)
            if found is not None:
                any_found = True
                yield found

    def folders(self, *, reverse: bool = False) -> Iterator[str]:
        """The batches' folders, the oldest first."""
        for above in self.hundreds(reverse=reverse):
            yield from self._in_hundred(above, reverse=reverse)

    def all_folders(self) -> list[str]:
        """The same, all at once: the hundreds are listed together."""
        listings = (partial(self._in_hundred, above, reverse=False) for above in self.hundreds())
        return list(chain.from_iterable(together(self.store, *listings)))

    def first_and_last(self) -> tuple[int, int] | None:
        """The lowest and the highest number of a batch; ``None`` where there is none. Some in between may be absent."""
        hundreds = self.hundreds()
        ends = hundreds[:1] + hundreds[-1:]
        found = list(together(self.store, *(partial(self._in_hundred, above, reverse=False) for above in ends)))
        if not found or not found[0] or not found[-1]:
            return None
        lowest, highest = (int(folder.rpartition("/")[2]) for folder in (found[0][0], found[-1][-1]))
        return lowest, highest

    def newest_commit(self, known: StoredBatch | None = None) -> StoredBatch | None:
        """The newest batch that is committed; ``None`` where this log has none, or does not know it as committed.

        :param known: see :func:`read_batch`.
        """
        newest = self.newest(known)
        if newest is None or newest.log.committed:
            return newest
        after = newest.log.plan.batch.after
        before = self.batch(number_of(after)) if after else None
        # The group may know a batch as committed that this log, an older copy, does not.
        return before if before is not None and before.log.committed else None

    def batch(self, number: int, known: StoredBatch | None = None) -> StoredBatch | None:
        """:param known: see :func:`read_batch`."""
        return read_batch(self.store, self.folder_of(number), known)

    def begin(self, number: int, planned: Planned) -> StoredBatch | None:
        """The new batch ``number``; ``None`` where somebody was faster."""
        return self._begin(self.folder_of(number), planned)

    def is_newest(self, batch: StoredBatch) -> bool:
        """Whether no batch has a higher number: who slept while the log was cleaned takes one that was passed."""
        above, hundreds, own = batch.folder.rsplit("/", 2)
        questions = (partial(self.store.list, above), partial(self.store.list, f"{above}/{hundreds}"))
        found = zip(together(self.store, *questions), (_HUNDREDS, _BATCH), (hundreds, own), strict=True)
        return all(name <= f"{mine}/" for names, kind, mine in found for name in names if kind.fullmatch(name))

    def is_batch(self, folder: str) -> bool:
        """Whether a folder of the store is one of the pipeline's batches or windows."""
        return folder.startswith(f"{self.root}/") and _FOLDER.fullmatch(folder[len(self.root) + 1 :]) is not None

    # ── windows ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def window(self, name: str) -> StoredBatch | None:
        return self.look_at_window(name)[0]

    def find_window(self, named: str) -> StoredBatch | None:
        """The window of a name or a key, looked for among the names that there are: none of them leads elsewhere."""
        for name in self.windows():
            window = self.window(name) if named == name or named.startswith(f"{name}-") else None
            if window is not None and named in (name, window.log.plan.batch.key):
                return window
        return None

    def look_at_window(self, name: str) -> tuple[StoredBatch | None, int]:
        """The window, and the number of the next entry of its log: its first is not 1 where it was cleaned away."""
        found = look_into(self.store, self.folder_of_window(name))
        return found.batch, found.next_number

    def begin_window(self, name: str, number: int, planned: Planned) -> StoredBatch | None:
        """The window's first plan, as entry ``number`` of its log; ``None`` where somebody was faster.

        Who slept while the window came and was cleaned away creates an entry that was there before, and finds a later.
        """
        begun = self._begin(self.folder_of_window(name), planned, number)
        if begun is None or entry_numbers(self.store.list(begun.folder))[-1] > number:
            return None
        return begun

    def windows(self) -> list[str]:
        """The names of all windows: each is claimed as soon as it is planned, until it is cleaned away."""
        listings = (partial(self.windows_in, month) for month in self.window_places())
        return sorted(set(chain.from_iterable(together(self.store, *listings))))

    def window_places(self) -> list[str]:
        """The places that have windows: months, ascending, and ``offsets``."""
        return [name.removesuffix("/") for name in self.store.list(f"{self.root}/window-claims")]

    def claim(self, name: str, places: Iterable[str], number: int) -> None:
        """Write a window's name into every place that it lies in, for the plan that is its entry ``number``."""
        for place in places:
            create_object(self.store, f"{self._place(place)}/{name}.{number}", {"version": 1})

    def windows_in(self, place: str) -> list[str]:
        """The names that are claimed in a place."""
        return sorted({name for name, _ in self._claims(place)})

    def claims_before(self, name: str, number: int) -> Iterator[str]:
        """The objects that claim a window for a plan before entry ``number``: who plans it anew has a later one."""
        claim = time_claim_of_name(name) or OffsetClaim(())  # a later plan may claim less than the name says
        for place in claim.places:
            for window, k in self._claims(place):
                if window == name and k < number:
                    yield f"{self._place(place)}/{window}.{k}"

    # ── runs ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def batch_of_run(self, run: RunKey) -> BatchOfRun | None:
        """What ``run`` took; ``None`` where it took nothing yet."""
        return read_object(self.store, self._run(run), _batch_of_run)

    def bind(self, run: RunKey | None, batch: StoredBatch | None) -> None:
        """Write down once which batch ``run`` does; ``None``: there was nothing to do."""
        if run is None:
            return
        took = BatchOfRun(None)
        if batch is not None:
            plan = batch.log.plan
            took = BatchOfRun(batch.name, plan.batch.key, plan.asked.output)
        create_object(self.store, self._run(run), {"version": 1, **as_json(took)})

    def read(self, folder: str) -> StoredBatch | None:
        """The batch in a folder below the pipeline's, as :class:`BatchOfRun` names it; ``None``: it was cleaned."""
        return read_what_is_left(self.store, f"{self.root}/{folder}") if _FOLDER.fullmatch(folder) else None

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, folder: str, planned: Planned, number: int = 1) -> StoredBatch | None:
        if not create_object(self.store, f"{folder}/{number}.json", entry_to_dict(planned)):
            return None
        return StoredBatch(self.store, folder, BatchLog(planned, number))

    def folder_of_window(self, name: str) -> str:
        return f"{self.root}/windows/{name}"

    def _claims(self, place: str) -> Iterator[tuple[str, int]]:
        """The window's name and the plan's number of each claim in a place."""
        found = map(_CLAIM.fullmatch, self.store.list(self._place(place)))
        return ((match["name"], int(match["k"])) for match in found if match)

    def _place(self, place: str) -> str:
        return f"{self.root}/window-claims/{place}"

    def folder_of(self, number: int) -> str:
        """Where the batch of a number lies."""
        if not 0 < number <= HIGHEST:
            raise ValueError(f"{number} is not the number of a batch")
        return f"{self.root}/batches/{number // 100:08}/{number:010}"

    def hundreds(self, *, reverse: bool = False) -> list[str]:
        """The folders in which the batches lie, a hundred in each."""
        base = f"{self.root}/batches"
        found = sorted(self.store.list(base), reverse=reverse)
        return [f"{base}/{name[:-1]}" for name in found if _HUNDREDS.fullmatch(name)]

    def _in_hundred(self, above: str, *, reverse: bool) -> list[str]:
        found = sorted(self.store.list(above), reverse=reverse)
        return [f"{above}/{name[:-1]}" for name in found if _BATCH.fullmatch(name)]

    def _run(self, run: RunKey) -> str:
        names = "/".join(map(safe_name, (run.dag_id, run.run_id, run.task_id)))
        return f"{self.root}/runs/{names}/{run.map_index}.json"


def pipeline_ids(store: Store) -> list[str]:
    """Every pipeline that the store has."""
    folders = [name[:-1] for name in store.list("pipelines") if name.endswith("/")]
    names = [(_name_in_plans(store, folder) if "%2D" in folder else unquote(folder), folder) for folder in folders]
    # What does not lead back is no pipeline's: somebody made that folder, or copied another one's batches into it.
    return [name for name, folder in names if name is not None and safe_name(name) == folder]


def _name_in_plans(store: Store, folder: str) -> str | None:
    """Of a pipeline whose name was too long for a folder; ``None`` where it has no plan yet."""
    pipeline = PipelineLog(store, "")
    pipeline.root = f"pipelines/{folder}"
    newest = pipeline.newest() or next(filter(None, map(pipeline.window, pipeline.windows())), None)
    return newest.log.plan.pipeline if newest else None


def read_batch(store: Store, folder: str, known: StoredBatch | None = None) -> StoredBatch | None:
    """The batch in ``folder`` as its log says; ``None`` where there is none.

    :param known: a batch as it was; it is not read again where nobody has written to its log since.
    :raises StoreDamaged: an entry is torn, missing or altered.
    """
    found = look_into(store, folder, known)
    if found.missing is not None:
        raise _missing(store, found.missing)
    return found.batch


def read_what_is_left(store: Store, folder: str) -> StoredBatch | None:
    """The same; ``None`` also where no plan is left: an old batch of which a clean, cut off, has left the rest."""
    return look_into(store, folder).batch


@dataclass(frozen=True, slots=True)
class Found:
    """What a batch's folder holds.

    :ivar names: the objects in it, without the folder.
    :ivar missing: the entry that is not there, going back from the last one to the current plan.
    """

    batch: StoredBatch | None
    next_number: int
    names: Sequence[str] = ()
    missing: str | None = None


def look_into(store: Store, folder: str, known: StoredBatch | None = None) -> Found:
    """What there is of a batch: nothing damaged, and no batch, where its plan is gone or it was cleaned away."""
    names = store.list(folder)
    numbers = entry_numbers(names)
    if not numbers:
        return Found(None, 1, names)
    if known is not None and (known.folder, known.log.next_number) == (folder, numbers[-1] + 1):
        return Found(known, known.log.next_number, names)
    entries: list[Entry] = []
    last = numbers[-1]  # and with it the one before: usually a commit and its plan
    pair = together(store, *(partial(_entry, store, folder, number) for number in range(last, max(last - 2, 0), -1)))
    rest = (_entry(store, folder, number) for number in range(last - 2, 0, -1))
    for number, entry in zip(range(last, 0, -1), chain(pair, rest), strict=True):
        if entry is None:
            return Found(None, last + 1, names, f"{folder}/{number}.json")
        if isinstance(entry, Cleaned):
            return Found(None, last + 1, names)
        entries.insert(0, entry)
        if isinstance(entry, Planned):
            return Found(StoredBatch(store, folder, log_of(entries, number)), last + 1, names)
    return Found(None, last + 1, names, f"{folder}/1.json")


def entries_since_clean(store: Store, folder: str, names: Iterable[str]) -> list[tuple[int, Entry]]:
    """The entries of a log with their numbers, without what a clean that was cut off has left before it.

    :param names: what the batch's folder holds.
    """
    found: list[tuple[int, Entry]] = []
    for number in entry_numbers(names):
        entry = _entry(store, folder, number)
        if entry is None:
            raise _missing(store, f"{folder}/{number}.json")
        found = [] if isinstance(entry, Cleaned) else [*found, (number, entry)]
    return found


def read_plan(store: Store, name: str) -> Planned | None:
    """The plan in one object of a batch's log; ``None`` where there is none.

    :raises StoreDamaged: it is torn, altered or no plan.
    """
    return read_object(store, name, _planned)


def newer_plan(store: Store, plan_object: str, names: Iterable[str]) -> str | None:
    """The id of a plan that took the place of the one in ``plan_object``; ``None`` where that is the current one.

    It is empty where the batch was cleaned away.

    :param names: what the batch's folder holds.
    """
    folder, _, own = plan_object.rpartition("/")
    numbers = entry_numbers(names)
    for number in reversed([n for n in numbers if n > int(own.removesuffix(".json"))]):
        entry = _entry(store, folder, number)
        if isinstance(entry, Planned | Cleaned):
            return entry.plan.plan_id if isinstance(entry, Planned) else ""
    return None


def is_entry(name: str) -> bool:
    """Whether an object in a batch's folder is an entry of its log; else it is of its reads."""
    return _ENTRY.fullmatch(name) is not None


def entry_numbers(names: Iterable[str]) -> list[int]:
    """The numbers of a log's entries, ascending.

    :param names: what the batch's folder holds.
    """
    return sorted(int(match[1]) for name in names if (match := _ENTRY.fullmatch(name)))


def _entry(store: Store, folder: str, number: int) -> StoredEntry | None:
    return read_object(store, f"{folder}/{number}.json", entry_from_dict)


def _planned(data: dict[str, Any]) -> Planned:
    entry = entry_from_dict(data)
    if not isinstance(entry, Planned):
        raise ValueError("it is no plan")
    return entry


def _missing(store: Store, name: str) -> StoreDamaged:
    return StoreDamaged(
        f"Object {name} of the work store {store.uri} is not there",
        "other objects say that it was written",
        "Somebody, or a lifecycle rule, removed it: restore it from a copy, and see what removes objects there.",
    )


def _batch_of_run(data: dict[str, Any]) -> BatchOfRun:
    with reading("what a run took"):
        require_version(data, 1, "run")
        found: BatchOfRun = read_as(BatchOfRun, data)
    if found.folder is not None and not _FOLDER.fullmatch(found.folder):
        raise ValueError(f"{found.folder!r} is not the folder of a batch")
    return found
