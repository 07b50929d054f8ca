"""What must be true of a world at its end.

Readers of the output have each record once, or a recorded decision says why not. Plans follow one another without a gap
that nothing explains.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.plan.body import Offset, PlanBody
from airflow_kafka_offsets.plan.window import Covered
from tests.model.stepping import FAR
from tests.model.world import World

Place = tuple[Any, int, int]
"""(topic id, partition, offset)."""


def check(world: World) -> None:
    Check(world).run()


class Check:
    """
    :ivar given: the kinds of decisions about each place.
    :ivar reborn: the first offset of each partition that a decision gives up with a topic that was re-created.
    :ivar settled: old outputs that a person has acknowledged to be no more: (output, key).
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.log = [(batch, world.body_of(batch)) for batch in world.batches()]
        self.given: dict[Place, Counter[str]] = defaultdict(Counter)
        self.reborn: dict[tuple[str, int], int] = {}
        self.settled: set[tuple[str, str]] = set()
        self.spoilt: set[Place] = set(world.spoilt)
        self.topic_ids = {record[0] for record in world.records}
        self.spans: list[tuple[Any, int, int, int]] = []

    def run(self) -> None:
        keys = [batch.plan.key for batch, _ in self.log]
        if len(set(keys)) != len(keys):
            self._wrong("two batches have one key")
        for batch, body in (x for log in self.world.old_logs for x in log):
            self._note_decisions(batch, body, only_again=not batch.is_committed)
            self._settle_outputs(batch)
        for batch, body in self.log:
            self._note_decisions(batch, body)
            self._settle_outputs(batch)
            self._check_batch(batch)
        if self.world.kind == "sequence":
            for log in (*self.world.old_logs, self.log):
                committed = [x for x in log if x[0].is_committed]
                self._note_spans(committed)
                self._check_positions(committed)
        else:
            self._check_windows()
        self._check_records()

    def _wrong(self, sentence: str) -> None:
        self.world.bad.append(sentence)

    def _note_decisions(self, batch: Batch, body: PlanBody, *, only_again: bool = False) -> None:
        for d in body.decisions:
            if (
                only_again and d.kind != "again"
            ):  # of a batch whose log was lost before its commit: its rows may be there
                continue
            at, now = body.resume_from.get(d.partition), batch.plan.topic_ids.get(d.partition.topic)
            if d.end is None:
                key = d.partition.partition
                now = now if at is None or d.partition in body.ranges else at.topic_id
                self.reborn[now, key] = min(d.start, self.reborn.get((now, key), FAR))
                continue
            for topic_id in {now, at.topic_id} if at else self.topic_ids:
                for offset in range(d.start, d.end):
                    self.given[topic_id, d.partition.partition, offset][d.kind] += 1

    # ── each batch ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _settle_outputs(self, batch: Batch) -> None:
        acknowledged = _by_people(batch)
        for output, key in self.world.sink.rows:
            if key == batch.plan.key and output != self._output(batch):
                attempt = self.world.sink.attempts[output, key]
                if attempt <= acknowledged or attempt == self.world.left.get((output, key)):
                    self.settled.add((output, key))
                    self.world.counts["old rows acknowledged"] += bool(self.world.sink.rows[output, key])
                elif batch.is_closed and self.world.sink.rows[output, key] and key not in self.world.torn:
                    self._wrong(f"{batch} is in {self._output(batch)}, and has rows in {output} unacknowledged")

    def _output(self, batch: Batch) -> str:
        return batch.output or "A"

    def _check_batch(self, batch: Batch) -> None:
        world, name = self.world, str(batch)
        if not batch.is_committed:
            self._wrong(f"{name} cannot be finished")
            return
        for i, entry in enumerate(batch.entries):
            before = [e for e in batch.entries[:i] if hasattr(e, "acknowledged") and e.by.person]
            attempt = getattr(entry, "attempt", 0)
            if attempt and any(attempt <= e.acknowledged for e in before):
                self._wrong(f"{name} is committed with attempt {attempt}, which was there when a person acknowledged")
        output, expected = self._output(batch), batch.plan.output
        if not batch.is_cleaned and batch.commits[-1].attempt and expected not in (None, output):
            log = world.view
            old = {log.output_of(batch, a) for a in batch.attempts if a.number <= _by_people(batch)}
            if output not in old:
                self._wrong(f"{name} is committed into {output}, which nobody acknowledged")
        planned = world.offsets_of(batch)
        committer = batch.commits[0].by.run
        is_red = not batch.is_closed or (
            not batch.is_cleaned
            and (committer is None or world.runs[committer.run_id].task != "done")
            and not world.is_verified(batch)
        )
        if is_red or batch.plan.key in world.torn:
            self.spoilt |= set(planned)
            world.twice.update(row for at, rows in world.sink.rows.items() for row in rows if at[1] == batch.plan.key)
            return
        place = output, batch.plan.key
        if not batch.commits[-1].attempt and place in world.left:  # no job of this log has written it
            return
        rows = sorted(row[:3] for row in world.sink.rows.get(place, []))
        if [p for p in planned if p not in world.compacted or p in rows] != rows:
            self._wrong(f"{name}: readers find {len(rows)} rows of {len(planned)}: {rows[:3]} of {planned[:3]}")

    # ── what plans make of the position, and of cuts ──────────────────────────────────────────────────────────────────

    def _explains(self, topic_id: Any, p: int, a: int, b: int) -> bool:
        """Whether decisions say why ``a`` is followed by ``b``."""
        kinds = ("lost", "skipped") if b > a else ("again", "lost")
        return b < FAR and all(any(self.given[topic_id, p, o][k] for k in kinds) for o in range(min(a, b), max(a, b)))

    def _check_positions(self, log: list[tuple[Batch, PlanBody]]) -> None:
        at: dict[TopicPartition, Offset] = {}
        for batch, body in log:
            ids = batch.plan.topic_ids
            for tp, before in at.items():
                resumed = body.resume_from.get(tp)
                if resumed is None:
                    self._wrong(f"{batch} forgets where {tp} was")
                    continue
                planned = body.ranges.get(tp)
                start = resumed.offset if planned is None else planned.start
                now = resumed.topic_id if planned is None else ids.get(tp.topic, before.topic_id)
                if now != before.topic_id:
                    until = self.reborn.get((now, tp.partition), FAR)
                    if until > before.offset and not self._explains(
                        before.topic_id, tp.partition, before.offset, until
                    ):
                        self._wrong(f"{batch} reads {tp} of a re-created topic, and says nothing")
                elif not self._explains(now, tp.partition, before.offset, start):
                    self._wrong(f"{batch} starts {tp} at {start}, not {before.offset}, and does not say why")
            for tp, planned in body.ranges.items():
                resumed = body.resume_from.get(tp)
                if resumed is None:
                    self._wrong(f"{batch} reads {tp}, and does not say from where")
                elif resumed.topic_id == ids.get(tp.topic) and not self._explains(
                    resumed.topic_id, tp.partition, resumed.offset, planned.start
                ):
                    self._wrong(f"{batch} reads {tp} from {planned.start}, not {resumed.offset}, and says nothing")
            at = body.position_after(ids)

    def _note_spans(self, log: list[tuple[Batch, PlanBody]]) -> None:
        """What the batches of a log are responsible for: from the first start of each partition to the position."""
        at: dict[TopicPartition, Offset] = {}
        for batch, body in log:
            ids = batch.plan.topic_ids
            for tp, resumed in body.resume_from.items():
                if tp not in at:
                    self.spans.append((resumed.topic_id, tp.partition, resumed.offset, FAR))
                if tp in body.ranges and ids.get(tp.topic) != at.get(tp, resumed).topic_id:
                    self.spans.append((ids.get(tp.topic), tp.partition, body.ranges[tp].start, FAR))
            at = body.position_after(ids)
        ends = {(o.topic_id, tp.partition): o.offset for tp, o in at.items()}
        self.spans = [(t, p, a, min(z, ends.get((t, p), FAR if z == FAR else z))) for t, p, a, z in self.spans]

    def _check_windows(self) -> None:
        windows = sorted((b.first_plan.window, b.number, b) for b, _ in self.log)
        for window in self.world.windows_done - {tuple(map(self.world.units, w)) for w, _, _ in windows}:
            self._wrong(f"window {window} is done, says a run, and nothing remembers it")
        for (one, _, _), (other, _, _) in pairwise(windows):
            if one[1] > other[0]:
                self._wrong(f"windows {one} and {other} overlap")
        cuts: dict[TopicPartition, tuple[int, Any, int]] = {}  # offset, topic id, until when it is the cut
        lacking: set[TopicPartition] = set()  # a window did not ask for it, and its cuts may lack it
        for window, _, batch in windows:
            body = self.world.body_of(batch, batch.first_plan)
            ids = batch.first_plan.topic_ids
            for tp, planned in body.ranges.items():
                low = body.resume_from[tp]
                if planned.end < low.offset and low.topic_id == ids.get(tp.topic):
                    self._wrong(f"{batch} has a negative range of {tp}")
                offset, topic_id, until = cuts.get(tp, (0, None, -1))
                is_new = topic_id != low.topic_id or (offset == 0 and tp in lacking)
                if is_new:  # a new partition is read from its log start
                    self._give(low.topic_id, tp.partition, 0, low.offset, "new")
                elif (low.offset != offset if until == window[0] else low.offset < offset) and not (
                    low.offset > offset and self._explains(topic_id, tp.partition, offset, low.offset)
                ):
                    self._wrong(f"{batch} starts {tp} at {low.offset}, and the window before ended at {offset}")
                is_former = planned.start == planned.end and low.topic_id != ids.get(tp.topic)
                cuts[tp] = planned.end, low.topic_id if is_former else ids.get(tp.topic), window[1]
                lacking.discard(tp)
            for tp in cuts.keys() - body.ranges.keys():
                offset, topic_id, until = cuts[tp]
                lacking.add(tp)
                cuts[tp] = offset, topic_id, window[1] if until == window[0] else -1
            self._check_hidden(batch, body, window)
        if self.log:
            newest = self.log[-1][0]
            for stretch in self.world.body_of(newest, newest.first_plan).covered:
                for tp, z in stretch.end_cut.items():
                    a = stretch.start_cut.get(tp)
                    low = a.offset if a is not None and a.topic_id == z.topic_id else 0
                    self.spans.append((z.topic_id, tp.partition, low, z.offset))

    def _give(self, topic_id: Any, partition: int, start: int, end: int, kind: str) -> None:
        for offset in range(start, end):
            self.given[topic_id, partition, offset][kind] += 1

    def _check_hidden(self, batch: Batch, body: PlanBody, window: tuple[int, int]) -> None:
        """Records that were gone before their window was planned: unless they cannot be known, a decision says so."""
        world, n = self.world, batch.number
        before = world.body_of(self.log[n - 2][0], self.log[n - 2][0].first_plan).covered if n > 1 else ()
        covered = Covered(before, batch.first_plan.topic_ids)
        if covered.cut_ending_at(window[0]) is not None:
            return
        seen = world.planned[f"{world.log.folder(n)}/1.json"]
        times = {r[:3]: time for r, time in world.records.items() if r not in world.destroyed}
        for tp, low in body.resume_from.items():
            if tp not in seen:
                continue
            log_start, first_ms = seen[tp]
            t0, t1 = (world.units(t) for t in window)
            for offset in range(covered.before(window[0], tp), min(log_start, low.offset)):
                place = batch.first_plan.topic_ids.get(tp.topic), tp.partition, offset
                if t0 <= times.get(place, -1) < t1 and not self.given[place]:
                    world.counts["gone unnoticed"] += 1  # a record that is left, out of order, is older
                    if first_ms is None or first_ms >= window[0]:
                        self._wrong(f"{batch}: {place} was gone before it was planned, and nothing says so")

    # ── each record ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_records(self) -> None:
        world = self.world
        found: dict[Any, Counter[str]] = defaultdict(Counter)
        for (output, key), rows in world.sink.rows.items():
            if (output, key) not in self.settled:
                for row in rows:
                    found[row][output] += 1
        wanted: dict[tuple[Any, int], list[tuple[int, int]]] = defaultdict(list)
        for topic_id, p, start, end in self.spans:
            wanted[topic_id, p].append((start, end))
        places = {record[:3] for record in found}
        for record in world.records:
            place = record[:3]
            is_wanted = record in world.kept or any(a <= record[2] < z for a, z in wanted[record[:2]])
            # The log was cut after the batch was read, and retention took what followed before anybody looked.
            is_unknown = place in places and world.is_gone(record)
            excused = is_unknown or place in self.spoilt or place in world.compacted or record in world.destroyed
            if is_wanted and not found[record] and not self.given[place] and not excused:
                self._wrong(f"record {place} is in no output, and no decision says why")
            for output, times in found[record].items():
                if times > 1 + self.given[place]["again"] + world.twice[record]:
                    self._wrong(f"record {place} is {times} times in {output}")


def _by_people(batch: Batch) -> int:
    """The highest attempt that there was when a person acknowledged."""
    return max((e.acknowledged for e in batch.entries if hasattr(e, "acknowledged") and e.by.person), default=0)
