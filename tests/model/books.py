"""The books of the model: what it knows from each object, swap and write to the group, and what must hold.

They never ask the code under test what it did. Checked here, at the moment when it happens:

- a batch of the log that is committed never gets another plan; numbers never come back, and keys are unique;
- each plan joins the position that it goes on from: what lies between is counted as lost or skipped, what is read again
  was ordered; a batch planned anew goes on from where it began;
- a batch is committed when its output holds just its plan's rows; no position passes a record that no committed plan
  read, lost or skipped on record; a run whose group was reset commits nothing;
- a driver that was overtaken, or whose plan was replaced, before its last look does not write;
- the group is never ahead of the log, no mark says what is not so, and nobody's offset is overwritten that was seen.

What a reader finds in the outputs is in ``reader.py``.

A log is a cluster, a topic *id* and a partition. What a person orders to be read again begins another *epoch* of a log:
only within one epoch two batches with one record are a fault.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_kafka_offsets.kafka_values import ClusterDescription, CommittedOffset, TopicPartition
from airflow_kafka_offsets.log.entries import Cleaned, Committed, Planned, StoredEntry, Taken, entry_from_dict
from airflow_kafka_offsets.log.read_reports import SplitAttempt
from airflow_kafka_offsets.plan.commit_metadata import CommitMetadata
from airflow_kafka_offsets.plan.plan import Plan, PlannedPartition, number_of
from airflow_kafka_offsets.plan.position import Position
from airflow_kafka_offsets.stores.objects import decode
from tests.model.lake import NO_LOG, Log, Row, Rows, log_of, planned_rows
from tests.model.steps import Step, current_step

if TYPE_CHECKING:
    from tests.model.world import World

_ENTRY = re.compile(r"(pipelines/([^/]+)/(batches/\d{8}/(\d{10})|windows/[^/]+))/(\d+)\.json")
_READ = re.compile(r"(pipelines/.+)/(\d+)-(\d+)-([a-z0-9]+)\.(begun|report)\.json")


@dataclass
class Try:
    """An attempt at a split, as the books saw it.

    :ivar looked_at: when it looked last, before it swapped.
    :ivar wrote: what its report says; ``None``: it has made none.
    :ivar whole: whether its report is of all that its plan has for the split.
    """

    folder: str
    split: int
    number: int
    random: str
    plan_id: str
    step: Step | None
    begun_at: int
    looked_at: int = 0
    swapped_at: int | None = None
    wrote: bool | None = None
    whole: bool = False


@dataclass
class CommittedBatch:
    """A committed batch of a log, also where that log is lost by now."""

    pipeline: str
    number: int
    plan: Plan
    position: Position
    epochs: dict[Log, int]


@dataclass(eq=False, repr=False)
class Books:
    world: World
    now: int = 0
    # What the store holds.
    logs: dict[str, dict[int, StoredEntry]] = field(default_factory=dict)
    written_at: dict[tuple[str, int], int] = field(default_factory=dict)
    # What was ever so.
    keys: set[str] = field(default_factory=set)
    tries: dict[tuple[str, int], list[Try]] = field(default_factory=lambda: defaultdict(list))
    commits: dict[str, CommittedBatch] = field(default_factory=dict)
    windows: dict[str, Plan] = field(default_factory=dict)
    epochs: dict[tuple[str, Log], int] = field(default_factory=lambda: defaultdict(int))
    accounted: dict[tuple[str, Log], set[int]] = field(default_factory=lambda: defaultdict(set))
    orders: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    forgotten: dict[str, set[Log]] = field(default_factory=lambda: defaultdict(set))
    position: dict[str, Position] = field(default_factory=dict)
    taken_at: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)
    restarts: set[tuple[str, str]] = field(default_factory=set)
    store_changed_at: int = 0
    group_changed_at: int | None = None
    hurt: dict[str, set[Log]] = field(default_factory=dict)
    foreign: dict[int, CommittedOffset] = field(default_factory=dict)
    late: dict[tuple[str, str, int], Try | None] = field(default_factory=dict)
    marked_as_done: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    gaps: int = 0

    def tick(self) -> int:
        self.now += 1
        return self.now

    # ── what the store holds ──────────────────────────────────────────────────────────────────────────────────────────

    def on_create(self, name: str, data: bytes) -> None:
        self.tick()
        if match := _READ.fullmatch(name):
            self._on_read(match, decode(data))
        elif match := _ENTRY.fullmatch(name):
            entry = entry_from_dict(decode(data))
            folder, pipeline, number, k = match[1], match[2], int(match[4] or 0), int(match[5])
            if k == 1 and number and any(n > number for n, _ in self.batches(pipeline)):
                self.passed.add(folder)  # by who slept while the log was cleaned: nobody may work on it
                return
            if k < max(self.logs.get(folder, ()), default=0):
                return  # by who slept while a window came and went: nobody may work on it
            match entry:
                case Planned():
                    self._on_plan(pipeline, folder, number, k, entry)
                case Taken():
                    self._on_taken(folder, k)
                case Committed():
                    self._on_commit(pipeline, folder, number, entry)
            self.logs.setdefault(folder, {})[k] = entry
            self.written_at[folder, k] = self.now
            self._notice_verified(folder)

    def is_out_of_place(self, name: str) -> bool:
        """Whether the log that a late worker goes on with is not there any more, or another one.

        Not modelled: it slept while an old batch was cleaned away, which the next clean ends, or a window was twice; or
        while another log took its place. No store can tell.
        """
        step, match = current_step(), _ENTRY.fullmatch(name)
        if step is None or match is None:
            return False
        gone = int(match[5]) > 1 and int(match[5]) - 1 not in self.logs.get(match[1], {})
        return gone or self.store_changed_at > step.began_at

    def on_delete(self, name: str) -> None:
        """``clean`` has removed it; what it was about stays true."""
        self.tick()
        if match := _READ.fullmatch(name):
            self._notice_verified(match[1])
        if match := _ENTRY.fullmatch(name):
            entries = self.logs.get(match[1], {})
            entries.pop(int(match[5]), None)
            if not entries:
                self.logs.pop(match[1], None)

    def on_marked_as_done(self, plan: Plan | None) -> None:
        """A person marks Spark tasks as successful; where no report is required, nothing shows that they were not."""
        if plan is not None and plan.batch is not None and not self._requires_report(plan):
            self.marked_as_done.add(plan.batch.key)

    def _requires_report(self, plan: Plan) -> bool:
        return bool(self.world.modes[plan.pipeline or ""]["require_report"])

    def on_store(self) -> None:
        """The store is lost, or an older copy of it was put back."""
        self.store_changed_at = self.tick()
        self.logs = {}
        for name, data in self.world.memory.objects.items():
            if match := _ENTRY.fullmatch(name):
                self.logs.setdefault(match[1], {})[int(match[5])] = entry_from_dict(decode(data))
        for folder in {folder for step in self.world.open_steps() for folder in step.verified}:
            self._notice_verified(folder)
        for pipeline, position in self.position.items():
            newest = self.newest_commit(pipeline)
            if newest is None or newest.position != position:
                self.hurt.setdefault(pipeline, set())
        for folder in [folder for folder in self.logs if not self.committed(folder)]:
            self._excuse_what_was_overwritten(folder)
        self.on_group_changed()

    def _excuse_what_was_overwritten(self, folder: str) -> None:
        """An older copy may call rows verified that the batch has given up since: nobody looks at them again."""
        planned = self.planned(folder)
        if planned is not None and planned.plan.batch is not None:
            wrong = self.wrong_splits(planned.plan).keys() & self.verified_splits(folder)
            output, key = planned.plan.asked.output or "", planned.plan.batch.key
            self.late |= dict.fromkeys((output, key, split) for split in wrong)

    def has_looked_at_output(self, pipeline: str) -> bool:
        """Whether a driver of a batch that the store has now has begun since the store was lost."""
        plans = {
            folder: planned.plan.plan_id for _, folder in self.batches(pipeline) if (planned := self.planned(folder))
        }
        begun = [t for (folder, _), tries in self.tries.items() if folder in plans for t in tries]
        return any(t.begun_at >= self.store_changed_at and t.plan_id == plans[t.folder] for t in begun)

    def batches(self, pipeline: str) -> Iterator[tuple[int, str]]:
        """Number and folder of the log's batches in the store, ascending."""
        start = f"pipelines/{pipeline}/batches/"
        yield from sorted((int(folder[-10:]), folder) for folder in self.logs if folder.startswith(start))

    def planned(self, folder: str) -> Planned | None:
        """The current plan."""
        entries = self.logs.get(folder, {})
        newest = (entries[k] for k in sorted(entries, reverse=True))
        found = next((e for e in newest if isinstance(e, Planned | Cleaned)), None)
        return found if isinstance(found, Planned) else None

    def committed(self, folder: str) -> Committed | None:
        """The commit of the current plan."""
        entries = self.logs.get(folder, {})
        for k in sorted(entries, reverse=True):
            entry = entries[k]
            if isinstance(entry, Planned | Cleaned):
                return None
            if isinstance(entry, Committed):
                return entry
        return None

    def newest_commit(self, pipeline: str) -> Committed | None:
        return self._newest_commit(pipeline)[1]

    def _newest_commit(self, pipeline: str) -> tuple[str, Committed | None]:
        for _, folder in reversed(list(self.batches(pipeline))):
            if found := self.committed(folder):
                return folder, found
        return "", None

    # ── plans ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _on_plan(self, pipeline: str, folder: str, number: int, k: int, planned: Planned) -> None:
        step, plan, name = current_step(), planned.plan, planned.plan.batch
        assert step is not None
        assert name is not None
        earlier = self.planned(folder)
        if plan.asked.window:
            self.windows.pop(name.key, None)
        else:
            assert not any(isinstance(entry, Committed) for entry in self.logs.get(folder, {}).values()), (
                f"{name} is committed, and gets another plan"
            )
        if planned == earlier:  # once more, before it is looked at what its drivers did: what is seen now counts
            step.verified_splits |= {(folder, split) for split in self.verified_splits(folder)}
            step.stopped = (folder, k)
            return
        if earlier is not None:
            self._require_splits(step, folder, earlier.plan, plan)
        if plan.asked.window:
            return
        self.orders[name.key] |= {word for word, value in step.ask.items() if value not in (None, False, "fail")}
        if plan.restarted and (earlier is None or not earlier.plan.restarted):
            word = (pipeline, str(step.ask.get("restart")))
            assert word not in self.restarts or self.store_changed_at, f"{plan.batch} applies {word} a second time"
        if k == 1:
            self._require_new(step, pipeline, number, planned)
            self.forgotten[name.key] |= self.hurt.pop(pipeline, set())
        else:
            assert earlier is not None
            self._require_same_batch(step, folder, k, earlier, planned)
        for p in plan.partitions:
            self._require_join(plan, p, planned.position, self.orders[name.key] | {f"reason {plan.reason}"})

    def _require_new(self, step: Step, pipeline: str, number: int, planned: Planned) -> None:
        name = planned.plan.batch
        assert name is not None
        assert name.key not in self.keys, f"two batches have the key {name.key}"
        self.keys.add(name.key)
        others = [n for n, _ in self.batches(pipeline)]
        marked = max((number_of(m.batch) for m in self._own_marks(pipeline, step.seen_group)), default=0)
        assert number > max([marked, *others], default=0), f"number {number} was there before: {others}, mark {marked}"
        unfinished = [n for n, folder in self.batches(pipeline) if not self.committed(folder)]
        assert all(n <= number_of(name.after) for n in unfinished), f"{unfinished} are not finished: {name.key}"

    def _require_same_batch(self, step: Step, folder: str, k: int, earlier: Planned, planned: Planned) -> None:
        """A batch that is planned anew stays the same batch, from the same place; verified output is not given up."""
        plan, orders = planned.plan, step.ask
        assert plan.batch == earlier.plan.batch
        assert planned.position == earlier.position, f"{plan.batch} goes on from another position"
        ordered = orders.get("restart") or orders.get("skip") or orders.get("group_moved") == "adopt-group"
        begun = {log_of(earlier.plan, p.topic_partition): p.position for p in earlier.plan.partitions}
        for p in plan.partitions:
            before = begun.get(log_of(plan, p.topic_partition))
            assert before in (None, p.position) or ordered, (
                f"{plan.batch}: {p.topic_partition} began at {before}, and begins at {p.position} now"
            )
        verified = self._verified_before(step, folder, k)
        logs = {log for rows in planned_rows(earlier.plan).values() for log, _ in rows}
        was_cut = any(map(self.world.was_cut, logs))
        if (
            folder in step.verified
            and not ordered
            and not (orders.get("re_plan") or orders.get("hold"))
            and not was_cut
        ):
            assert plan.plan_id == earlier.plan.plan_id, f"{plan.batch} is planned anew, and all of it was verified"
        if not orders.get("skip") and not was_cut and plan.found.cluster_id == earlier.plan.found.cluster_id:
            self._require_gone_rows_kept(step, verified, earlier.plan, plan)
        by_look_up = orders.get("re_plan") or any(p.held for p in plan.partitions)
        if not ordered and not by_look_up and not self._is_of_another_log(earlier.plan):
            if (plan.asked.output, plan.asked.group_follows, plan.asked.group_id) != (
                earlier.plan.asked.output,
                earlier.plan.asked.group_follows,
                earlier.plan.asked.group_id,
            ):
                self._require_all_read(earlier.plan, plan)
            else:
                self._require_nothing_given_up(verified, earlier.plan, plan)
        if (plan.reason or "").startswith("skip past"):
            before, after = planned_rows(earlier.plan), planned_rows(plan)
            for split in (n for n in verified if after[n] == before[n]):
                assert split in plan.verified, (
                    f"{plan.batch}: split {split} is verified, loses nothing, and is done again"
                )

    def _verified_before(self, step: Step, folder: str, k: int) -> set[int]:
        """The splits that a plan, entry ``k``, has to know as verified.

        Where the same step has put the current plan on record just before, those of that moment: a report that comes
        after it is late.
        """
        seen = {split for f, split in step.verified_splits if f == folder}
        return seen if step.stopped == (folder, k - 1) else seen | self.verified_splits(folder)

    def _require_splits(self, step: Step, folder: str, earlier: Plan, plan: Plan) -> None:
        """Each split that may hold rows is written over, or stays as it was read; then nobody writes it."""
        may_hold, dealt_with = self._splits_with_rows(earlier), self._splits_with_rows(plan)
        assert may_hold <= dealt_with, f"{plan.batch}: nobody writes over splits {may_hold - dealt_with}"
        assert not plan.verified.keys() & set(plan.splits_to_start()), (
            f"{plan.batch} starts what it keeps: {plan.verified}"
        )
        assert dealt_with - plan.verified.keys() == set(plan.splits_to_start()), (
            f"{plan.batch} does not start all splits"
        )
        for split, kept in plan.verified.items():
            assert planned_rows(plan)[split] == planned_rows(earlier)[split], f"{plan.batch} changes kept split {split}"
            read_by = [t for t in self.tries[folder, split] if (t.number, t.plan_id) == (kept.attempt, kept.plan_id)]
            assert any(t.wrote and t.whole for t in read_by), f"{plan.batch} keeps split {split}, which nobody read"

    def _require_gone_rows_kept(self, step: Step, verified: set[int], earlier: Plan, plan: Plan) -> None:
        """No verified row is given up whose record was gone when the run began: deleted, or with its topic."""
        before, after = planned_rows(earlier), set().union(*planned_rows(plan).values())
        for split in verified:
            gone = {(log, offset) for log, offset in before[split] if offset < step.log_starts.get(log, NO_LOG)}
            assert gone <= after, f"{plan.batch} gives up what split {split} has verified: {sorted(gone - after)}"

    def _require_all_read(self, earlier: Plan, plan: Plan) -> None:
        """In another output, or for another group, all is written anew, by whichever split."""
        before, after = set().union(*planned_rows(earlier).values()), set().union(*planned_rows(plan).values())
        assert before <= after, f"{plan.batch} leaves {sorted(before - after)} behind: {plan.reason}"

    def _require_nothing_given_up(self, verified: set[int], earlier: Plan, plan: Plan) -> None:
        """What is gone shortens the batch in place: no record changes its split, and nothing newer is added.

        What is verified stays, also where its records are gone.
        """
        before, after = planned_rows(earlier), planned_rows(plan)
        for split, rows in after.items():
            assert rows <= before.get(split, set()), f"{plan.batch}: split {split} has other records than before"
        for split, rows in before.items():
            if split in verified:
                assert after[split] == rows, f"{plan.batch} gives up what split {split} has verified"
                assert split in plan.verified or after == before, (
                    f"{plan.batch} writes split {split} again: {plan.reason}"
                )
            there = {(log, offset) for log, offset in rows if offset >= self.world.log_start(log)}
            assert there <= after[split], f"{plan.batch} leaves out what is there of split {split}: {plan.reason}"

    def _is_of_another_log(self, plan: Plan) -> bool:
        """Whether a log that the plan reads is another one by now: cut, made anew, or of another cluster."""
        logs = {log for rows in planned_rows(plan).values() for log, _ in rows}
        gone = any(self.world.was_cut(log) or self.world.log_start(log) == NO_LOG for log in logs)
        return gone or plan.found.cluster_id != self.world.cluster.cluster_id

    def _require_join(self, plan: Plan, p: PlannedPartition, before: Position | None, orders: set[str]) -> None:
        tp, log = p.topic_partition, log_of(plan, p.topic_partition)
        kept = kept_offset(before, plan, tp)
        moved = orders & {"restart", "group_moved", "cluster_changed"}
        jumps = moved or orders & {"skip", "new_partition"}
        if before is None:
            return  # the startup mode decides
        if kept is None:
            assert jumps or p.position <= (p.log_start_offset or 0), (
                f"{tp} is new, and records of it are passed over: {p}"
            )
            return
        assert p.position == kept or moved or "skip" in orders, (
            f"{plan.batch}: {tp} goes on from {p.position}, not {kept}"
        )
        if p.start_offset < kept:
            cut = orders & {"data_loss", "reset"} and self.world.was_cut(log)  # of a reset, the end that there is
            assert moved or cut, f"{plan.batch} reads {tp} again from {p.start_offset}, unasked; it was at {kept}"
        elif not self.world.cut_at(log, kept):
            counted = p.lost + p.skipped - p.gap
            assert counted == p.start_offset - kept or (moved and counted > p.start_offset - kept), (
                f"{plan.batch} jumps from {kept} and counts {counted}: {p}"
            )
            assert not p.skipped or moved or orders & {"skip", "data_loss"}, f"{plan.batch} skips, unasked: {p}"
            assert not p.lost or kept + p.lost <= self.world.log_start(log), (
                f"{plan.batch} counts as lost what is there: {p}"
            )

    # ── commits ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _on_commit(self, pipeline: str, folder: str, number: int, entry: Committed) -> None:
        step, planned = current_step(), self.planned(folder)
        assert step is not None
        assert planned is not None
        plan = planned.plan
        assert plan.batch is not None
        assert entry.plan_id == plan.plan_id
        assert self.committed(folder) is None, f"{plan.batch} is committed twice"
        if plan.withdrawn or (plan.asked.window and not plan.splits_to_start()):
            self._excuse_what_was_there(folder, plan)
        self._require_whole(step, plan)
        if plan.asked.window:
            self.windows[plan.batch.key] = plan
            return
        assert step.kind in ("commit", "reset")
        assert entry.position is not None
        self._require_own_group(step, plan, planned.position)
        self._require_position(plan, planned.position, entry.position)
        self._account(pipeline, plan, planned.position)
        self.restarts |= {(pipeline, word) for word in plan.restarts}
        for tp, kept in entry.position.offsets.items():
            log = (entry.position.cluster_id, entry.position.topic_ids[tp.topic] or "", tp.partition)
            jumped = set(range(kept.offset)) - self.accounted[pipeline, log]
            assert not jumped, f"{pipeline} is at {kept.offset} of {tp} after {plan.batch}, past {sorted(jumped)}"
        epochs = self._epochs(pipeline, plan, planned.position)
        self.commits[plan.batch.key] = CommittedBatch(pipeline, number, plan, entry.position, epochs)
        self.position[pipeline] = entry.position

    def _excuse_what_was_there(self, folder: str, plan: Plan) -> None:
        """Rows of a log that is gone, where no driver of this one has begun: who overlaps them is refused by them."""
        assert plan.batch is not None
        begun = [t for (f, _), tries in self.tries.items() if f == folder for t in tries]
        first = min(k for k, entry in self.logs[folder].items() if isinstance(entry, Planned))
        if not any(t.begun_at > self.written_at[folder, first] for t in begun):
            output, key = plan.asked.output or "", plan.batch.key
            self.late |= dict.fromkeys((output, key, split) for split in self.world.lake.splits(output, key))

    def _require_whole(self, step: Step, plan: Plan) -> None:
        """Each split's rows are just the plan's, unless a swap got into the gap that docs/log.md admits."""
        assert plan.batch is not None
        if plan.batch.key in self.marked_as_done:
            return
        wrong = self.wrong_splits(plan)
        excused = {split for split in wrong if self._is_late(step, plan, split)}
        self.gaps += bool(excused)
        assert not wrong.keys() - excused, f"{plan.batch} is committed, and its output is not whole: {wrong}"

    def wrong_splits(self, plan: Plan) -> dict[int, str]:
        """The splits whose rows are not the plan's."""
        assert plan.batch is not None
        expected, found = planned_rows(plan), self.world.lake.splits(plan.asked.output or "", plan.batch.key)
        wrong = {}
        for split in sorted(expected.keys() | found.keys()):
            have = {(log, offset) for log, offset, _ in found.get(split, ())}
            want = expected.get(split, set())
            if have != want:
                wrong[split] = f"{len(want - have)} rows of {len(want)} are missing, {len(have - want)} are too many"
        return wrong

    def _is_late(self, step: Step, plan: Plan, split: int) -> bool:
        """Whether a late driver swapped after its last look, and had not looked again when the commit began."""
        assert plan.batch is not None
        place = (plan.asked.output or "", plan.batch.key, split)
        found = self.late.get(place)
        ended_at = found.step.ended_at if found and found.step else None
        noticed = ended_at is not None and ended_at < step.began_at and self._requires_report(plan)
        return place in self.late and not noticed

    def _require_own_group(self, step: Step, plan: Plan, before: Position | None) -> None:
        """Who finds that the group was reset before it looked commits nothing."""
        if not plan.asked.group_follows or plan.found.cluster_id != self.world.cluster.cluster_id:
            return
        for p in plan.partitions:
            tp = p.topic_partition
            found = self.world.held(plan.asked.group_id, tp)
            if found is None or id(found) not in self.foreign or step.group_at_birth.get(tp) is not found:
                continue
            same = before is not None and tp in before.offsets and before.offsets[tp].offset == found.offset
            assert same, f"{plan.batch} is committed, and somebody had reset {tp} to {found.offset} before"

    def _require_position(self, plan: Plan, before: Position | None, after: Position) -> None:
        ends = {p.topic_partition: p.end_offset for p in plan.partitions}
        found = {tp: kept.offset for tp, kept in after.offsets.items()}
        kept = (
            {tp: kept for tp in before.offsets if (kept := kept_offset(before, plan, tp)) is not None} if before else {}
        )
        assert found == {**kept, **ends}, f"the position after {plan.batch} is {found}; {kept} and {ends} are known"

    def _account(self, pipeline: str, plan: Plan, before: Position | None) -> None:
        for p in plan.partitions:
            accounted = self.accounted[pipeline, log_of(plan, p.topic_partition)]
            if kept_offset(before, plan, p.topic_partition) is None:
                accounted |= set(range(p.position))  # the startup mode's choice, or a new log that starts there
            before_it = p.lost + p.skipped - p.gap
            accounted |= set(range(p.start_offset - before_it, p.end_offset))

    def _epochs(self, pipeline: str, plan: Plan, before: Position | None) -> dict[Log, int]:
        """Which epoch of each log the batch belongs to; what was not ordered does not begin another."""
        assert plan.batch is not None
        key = plan.batch.key
        taken: dict[Log, set[Row]] = defaultdict(set)
        for other, batch in self.commits.items():
            if other != key and batch.pipeline == pipeline:
                for row in self._rows(batch.plan, other):
                    if batch.epochs.get(row[0]) == self.epochs[pipeline, row[0]]:
                        taken[row[0]].add(row)
        mine: dict[Log, set[Row]] = defaultdict(set)
        for row in self._rows(plan, key):
            mine[row[0]].add(row)
        for p in plan.partitions:
            log = log_of(plan, p.topic_partition)
            kept = kept_offset(before, plan, p.topic_partition)
            both = mine[log] & taken[log]
            again = kept is not None and p.start_offset < kept  # ordered: ``_require_join``
            assert not both or again or log in self.forgotten[key], f"{plan.batch} has what others have: {sorted(both)}"
            if both or again:
                self.epochs[pipeline, log] += 1
        return {log: self.epochs[pipeline, log] for p in plan.partitions if (log := log_of(plan, p.topic_partition))}

    def _rows(self, plan: Plan, key: str) -> Iterator[Row]:
        """The rows of a batch, apart from what a late driver swapped in the gap that docs/log.md admits."""
        output = plan.asked.output or ""
        for split, rows in self.world.lake.splits(output, key).items():
            if (output, key, split) not in self.late:
                yield from rows

    def _on_taken(self, folder: str, k: int) -> None:
        """What a redo has to be newer than."""
        highest: dict[int, int] = {}
        for (where, split), tries in self.tries.items():
            if where == folder:
                highest[split] = max((t.number for t in tries if self._is_there(t)), default=0)
        self.taken_at[folder, k] = highest

    def on_success(self, step: Step, folder: str | None, left_alone: str | None) -> None:
        """A commit task succeeded: what was done again is newer than before, and the group has followed."""
        pipeline = step.run.pipeline
        if folder is not None:
            self._require_done_again(step, f"pipelines/{pipeline}/{folder}")
        folder, newest = self._newest_commit(pipeline)
        if left_alone or newest is None or newest.position is None or step.wrote_group_at != self.group_changed_at:
            return
        committed_at = max(self.written_at.get((folder, k), 0) for k, e in self.logs[folder].items() if e is newest)
        planned = self.planned(folder)
        if planned is None or committed_at > (step.wrote_group_at or 0):
            return
        plan = planned.plan
        for p in plan.partitions:
            topic = self.world.cluster.topics.get(p.topic_partition.topic)
            if topic is None or topic.topic_id != plan.found.topic_ids[p.topic_partition.topic]:
                continue
            held = self.world.held(plan.asked.group_id, p.topic_partition)
            kept = newest.position.offsets[p.topic_partition].offset
            assert held is not None, f"{step} succeeded, and the group has nothing of {p.topic_partition}"
            assert held.offset == kept, f"{step} succeeded, and the group is at {held}; the position is {kept}"

    def _require_done_again(self, step: Step, folder: str) -> None:
        entries = self.logs.get(folder, {})
        takes = [k for k, entry in entries.items() if isinstance(entry, Taken)]
        planned = self.planned(folder)
        if planned is None or not takes or self.committed(folder) is None or not self._requires_report(planned.plan):
            return
        last, commit = max(takes), max(k for k, entry in entries.items() if isinstance(entry, Committed))
        taken = entries[last]
        assert isinstance(taken, Taken)
        if last < commit or taken.by.run != step.run.key or self.written_at.get((folder, last), 0) > step.began_at:
            return
        if not taken.attempts:  # taken to be left as it is
            return
        for split in planned.plan.splits_to_start():
            before = self.taken_at.get((folder, last), {}).get(split, 0)
            newer = [t for t in self.tries[folder, split] if t.number > before and t.wrote and self._is_there(t)]
            assert newer, f"{step} succeeded, and split {split} of {planned.plan.batch} was not done again"

    def require_refusal(self, step: Step, folder: str) -> None:
        """``ReadNotVerified`` has a reason: an attempt that may have written, or none at all."""
        entries, commit = self.logs.get(folder, {}), self.committed(folder)
        again = commit and any(isinstance(e, Taken) for k, e in entries.items() if entries.get(k) is not commit)
        assert again or folder not in step.verified, (
            f"{step} calls {folder} unverified, and it was verified all the time"
        )

    def on_removed(self, pipeline: str, keys: list[str], plan: Plan) -> None:
        """A person removes what ``UnknownOutput`` names: the batch that was refused will read it again."""
        for _, folder in self.batches(pipeline):
            known = self.planned(folder)
            if known is not None and known.plan.batch is not None and self.committed(folder):
                assert known.plan.batch.key not in keys, (
                    f"{plan.batch} does not know {known.plan.batch}, which the log has"
                )
        begins = {log_of(plan, p.topic_partition): p.start_offset for p in plan.partitions}
        for key in keys:
            self.windows.pop(key, None)  # of a log that is lost or cleaned: whoever wants it again plans it again
            if key in self.commits and not plan.asked.window:
                self._give_up(key, begins)

    # ── drivers ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _on_read(self, match: re.Match[str], value: Mapping[str, object]) -> None:
        folder, split, number, random = match[1], int(match[2]), int(match[3]), match[4]
        assert folder not in self.passed, f"{folder} is worked on, and its number was passed"
        tries = self.tries[folder, split]
        if match[5] == "begun":
            tries.append(Try(folder, split, number, random, str(value["plan_id"]), current_step(), self.now))
        else:
            [found] = [t for t in tries if (t.number, t.random) == (number, random)]
            found.wrote = bool(value["wrote"])
        self._notice_verified(folder)

    def _try(self, attempt: SplitAttempt) -> Try:
        folder = attempt.plan_object.rpartition("/")[0]
        return next(
            t for t in self.tries[folder, attempt.split] if (t.number, t.random) == (attempt.number, attempt.random)
        )

    def on_attempt_looked(self, attempt: SplitAttempt, since: int) -> None:
        """It has looked, and goes on; it began to look at ``since``."""
        self._try(attempt).looked_at = since

    def on_swap(self, attempt: SplitAttempt, plan: Plan, rows: Rows) -> None:
        """A driver that was overtaken before its last look does not write; after that, nothing can hold it off."""
        mine = self._try(attempt)
        mine.swapped_at = self.tick()
        have = {(log, offset) for log, offset, _ in rows}
        mine.whole = have == planned_rows(plan)[mine.split]
        self._require_looked(attempt, mine)
        assert plan.batch is not None
        key, current = plan.batch.key, self.planned(mine.folder)
        wanted = planned_rows(current.plan).get(mine.split, set()) if current else None
        place = (plan.asked.output or "", key, mine.split)
        self.late.pop(place, None)
        if have != wanted and (self._is_overtaken(mine) or self.store_changed_at > mine.looked_at):
            self.late[place] = mine
            return
        committed = self.commits.get(key)
        if committed is not None and not self.committed(mine.folder):  # an older copy of the log does it again
            self._give_up(key)
            return
        standing = committed.plan if committed else self.windows.get(key)
        if standing is not None and not mine.whole:  # a job that drops rows of a batch that was right
            self.late[place] = mine
        elif standing is not None:
            assert planned_rows(standing).get(mine.split, set()) <= have, f"{attempt} makes a committed output smaller"

    def on_swap_by_offsets(self, plan_object: str, plan: Plan, split: int, rows: Rows) -> None:
        """Nothing holds off a job that asks nobody, whose batch was planned anew or is committed."""
        self.tick()
        assert plan.batch is not None
        current, key = self.planned(plan_object.rpartition("/")[0]), plan.batch.key
        place = (plan.asked.output or "", key, split)
        is_current = current is not None and current.plan.plan_id == plan.plan_id
        is_right = {(log, offset) for log, offset, _ in rows} == planned_rows(plan)[split]
        is_open = key not in self.commits and key not in self.windows
        self.late.pop(place, None)
        if not is_current or not (is_right or is_open):
            self.late[place] = None

    def _require_looked(self, attempt: SplitAttempt, mine: Try) -> None:
        planned_by = int(attempt.plan_object.rpartition("/")[2].removesuffix(".json"))
        for k, entry in self.logs.get(mine.folder, {}).items():
            if isinstance(entry, Planned) and k > planned_by:
                assert self.written_at[mine.folder, k] > mine.looked_at, f"{attempt} writes by a plan that was replaced"
        for other in self._rivals(mine):
            assert other.begun_at > mine.looked_at, f"{attempt} writes, and {other.number} had begun before it looked"

    def _is_overtaken(self, mine: Try) -> bool:
        current = self.planned(mine.folder)
        return current is None or current.plan.plan_id != mine.plan_id or bool(self._rivals(mine))

    def _rivals(self, mine: Try) -> list[Try]:
        """The attempts that are not older, and may write."""
        return [
            other
            for other in self.tries[mine.folder, mine.split]
            if other is not mine and other.number >= mine.number and other.wrote is not False and self._is_there(other)
        ]

    def _give_up(self, key: str, begins: Mapping[Log, int] | None = None) -> None:
        """The batch does not count any more; its records from ``begins`` on are to be read again."""
        batch = self.commits.pop(key)
        for log, offset in set().union(*planned_rows(batch.plan).values()):
            if begins is None or (log in begins and offset >= begins[log]):
                self.accounted[batch.pipeline, log].discard(offset)

    def _is_there(self, attempt: Try) -> bool:
        name = f"{attempt.folder}/{attempt.split}-{attempt.number:06}-{attempt.random}.begun.json"
        return name in self.world.memory.objects

    def verified(self, folder: str) -> bool:
        """By the rule: of each split the single highest attempt that may have written has reported the current plan."""
        planned = self.planned(folder)
        return planned is not None and all(
            self._is_split_verified(folder, split, planned.plan) for split in self._splits_with_rows(planned.plan)
        )

    def verified_splits(self, folder: str) -> set[int]:
        """The splits of the current plan with records that need not be read again."""
        planned = self.planned(folder)
        rows = planned_rows(planned.plan) if planned else {}
        return {split for split in rows if rows[split] and self._is_split_verified(folder, split, planned.plan)}

    def _splits_with_rows(self, plan: Plan) -> set[int]:
        return {split for split, rows in planned_rows(plan).items() if rows} | set(plan.overwrites)

    def _is_split_verified(self, folder: str, split: int, plan: Plan) -> bool:
        """A split that a plan keeps counts by the plan and the attempt that it names, until it is done again."""
        kept = plan.verified.get(split)
        tries = [t for t in self.tries[folder, split] if t.wrote is not False and self._is_there(t)]
        highest = max((t.number for t in tries), default=0)
        match [t for t in tries if t.number == highest]:
            case [one]:
                by_kept = kept is not None and one.number == kept.attempt
                return bool(one.wrote) and one.whole and one.plan_id == (kept.plan_id if by_kept else plan.plan_id)
        return False

    def _notice_verified(self, folder: str) -> None:
        """Which steps may count on a verified batch: it was so all the time since they began."""
        if not self.verified(folder):
            for step in self.world.open_steps():
                step.verified.discard(folder)
        now = self.verified_splits(folder)
        for step in self.world.open_steps():
            step.verified_splits = {(f, split) for f, split in step.verified_splits if f != folder or split in now}

    # ── the group ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_describe(self, described: ClusterDescription) -> None:
        step = current_step()
        if step is not None:
            step.described |= {name: topic.topic_id for name, topic in described.topics.items()}

    def on_look(self, asked: list[TopicPartition], found: Mapping[TopicPartition, CommittedOffset]) -> None:
        step = current_step()
        if step is not None:
            step.seen_group |= {tp: found.get(tp) for tp in asked}

    def on_somebody_writes(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        self.foreign |= {id(commit): commit for commit in offsets.values()}
        self.on_group_changed()

    def on_group_changed(self) -> None:
        """Where a log is lost, the group tells the position as long as its marks are of one batch.

        What has expired, was reset, or arrived in part, is told by nobody: then it is read again.
        """
        self.group_changed_at = self.tick()
        for pipeline, forgotten in self.hurt.items():
            held = self.world.group_of(pipeline)
            marks = {tp: m for tp, c in held.items() if (m := CommitMetadata.of(c)) and m.pipeline == pipeline}
            newest = max((number_of(m.batch) for m in marks.values()), default=0)
            position = self.position[pipeline]
            for tp in position.offsets:
                log = (position.cluster_id, position.topic_ids[tp.topic] or "", tp.partition)
                if tp not in marks or number_of(marks[tp].batch) != newest:
                    forgotten.add(log)

    def on_group_write(
        self,
        group_id: str,
        before: Mapping[TopicPartition, CommittedOffset],
        landed: Mapping[TopicPartition, CommittedOffset],
    ) -> None:
        step = current_step()
        assert step is not None
        for tp, commit in landed.items():
            topic = self.world.cluster.topics.get(tp.topic)
            if topic is None or step.described.get(tp.topic) != topic.topic_id:
                # Made anew after the look: Kafka cannot tell. If the store is lost now too, this is the position.
                log = (self.world.cluster.cluster_id, topic.topic_id if topic else "", tp.partition)
                self.accounted[step.run.pipeline, log] |= set(range(commit.offset))
                continue
            self._require_true(step, tp, commit)
            self._require_unseen(step, tp, before.get(tp))
        self.on_group_changed()
        step.wrote_group_at = self.group_changed_at

    def _require_true(self, step: Step, tp: TopicPartition, commit: CommittedOffset) -> None:
        """A mark says up to which batch the group follows: the offset is the position after it, or not past it."""
        mark, pipeline = CommitMetadata.of(commit), step.run.pipeline
        assert mark is not None
        assert mark.pipeline == pipeline
        if mark.batch is None:
            assert step.kind in ("resolve", "take over")
            return
        batch = self.commits.get(mark.batch)
        if batch is None:
            assert self.store_changed_at, f"the group is marked with {mark.batch}, which nobody committed"
            return
        kept = kept_offset(batch.position, batch.plan, tp)
        if step.kind == "commit":
            seen = step.seen_group.get(tp)
            before = CommitMetadata.of(seen) if seen else None
            if before is not None and before.pipeline == pipeline and not self.store_changed_at:
                assert number_of(before.batch) <= number_of(mark.batch), (
                    f"{step} has seen {before.batch} at {tp}, and writes {mark.batch}"
                )
            assert kept == commit.offset, f"the group is set to {commit.offset} of {tp}; {mark.batch} ends at {kept}"
        elif step.ask.get("group_moved") != "adopt-group" and "cluster_changed" not in step.ask:
            assert kept is not None, f"{tp} is signed with {mark.batch}, which does not know it"
            assert commit.offset <= kept, (
                f"{tp} is signed at {commit.offset}, ahead of {mark.batch}, which ends at {kept}"
            )

    def _require_unseen(self, step: Step, tp: TopicPartition, before: CommittedOffset | None) -> None:
        """Nobody's offset is overwritten that was seen; what comes between look and write is, as docs/log.md admits."""
        pipeline = step.run.pipeline
        if before is None or step.seen_group.get(tp) is not before:
            return
        mark = CommitMetadata.of(before)
        if mark is not None and mark.pipeline == pipeline:
            return
        newest = self.newest_commit(pipeline)
        known = (
            {newest.position.offsets[tp].offset}
            if newest and newest.position and tp in newest.position.offsets
            else set()
        )
        if step.kind == "resolve":
            if (newest is None and mark is None) or step.ask.keys() & {
                "restart",
                "group_moved",
                "cluster_changed",
            }:
                return
            for _, folder in self.batches(pipeline):
                planned = self.planned(folder)
                if planned is not None and not self.committed(folder):
                    known |= {p.committed_offset for p in planned.plan.partitions if p.topic_partition == tp}
        assert before.offset in known, f"{step} overwrites {before} at {tp}, which it has seen; known: {known}"

    def _own_marks(self, pipeline: str, held: Mapping[TopicPartition, CommittedOffset | None]) -> list[CommitMetadata]:
        marks = [CommitMetadata.of(commit) for commit in held.values() if commit is not None]
        return [mark for mark in marks if mark is not None and mark.pipeline == pipeline]


def kept_offset(before: Position | None, plan: Plan, tp: TopicPartition) -> int | None:
    """What a position has of a partition, if it is the same log as the plan's."""
    if before is None or tp not in before.offsets or before.cluster_id != plan.found.cluster_id:
        return None
    ids = before.topic_ids.get(tp.topic), plan.found.topic_ids.get(tp.topic)
    return before.offsets[tp].offset if ids[0] == ids[1] or ids[1] is None else None
