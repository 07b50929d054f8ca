"""What must be true of a world at its end, as a reader of the tables sees it.

Each record is there once, or a recorded decision says why not, which a person or ``on_data_loss`` has taken. What the
plans say of themselves is believed only where it gives records up.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import pairwise

from airflow_kafka_offsets.log.entries import Batch, Commit, Plan
from airflow_kafka_offsets.log.identity import Identity, identity_body_from_dict
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.store.memory import MemoryStore
from airflow_kafka_offsets.store.objects import decode
from tests.model.deployment import Pipeline, batches_in, identities_in
from tests.model.driver import Row
from tests.model.stepping import T0, UNIT_MS
from tests.model.world import Place, World

_RESET = re.compile(r"reset, identity ([0-9]+)")


def check(world: World) -> None:
    Check(world).run()


class Check:
    """
    :ivar given: the kinds of decisions about each place.
    :ivar live: the batches of the logs that there are; ``identities``: of all logs, also of those that were lost.
    :ivar place_of: the output of each batch, by its key, as the newest log that has it says.
    :ivar of_lost_logs: rows of batches that no log has any more, in an output that a person has left.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.given: defaultdict[Place, Counter[str]] = defaultdict(Counter)
        self.spoilt = set(world.spoilt)
        logs = [(pipeline, pipeline.store.objects, True) for pipeline in world.pipelines]
        logs += [(pipeline, objects, False) for pipeline, objects in reversed(world.lost)]  # the newest first
        self.identities: list[Identity] = []
        self.ended: set[str | None] = set()
        self.live: list[tuple[Pipeline, PipelineLog, Batch]] = []
        self.place_of: dict[str, str] = {}
        self.of_lost_logs: set[Row] = set()
        for pipeline, objects, is_live in logs:
            store = MemoryStore()
            store.objects = dict(objects)
            identities = identities_in(store.objects, pipeline.name)
            self.identities += identities
            self.ended |= {world.origins.get(topic_id) for i in identities for topic_id in i.ended}
            for log in pipeline.logs(store):
                applied: defaultdict[tuple[object, ...], set[int]] = defaultdict(set)
                for batch in batches_in(log):
                    self._note_decisions(pipeline, batch, identities, applied)
                    self.place_of.setdefault(batch.plan.key, self._output(batch))
                    if is_live:
                        self.live.append((pipeline, log, batch))
                if is_live and (many := [numbers for numbers in applied.values() if len(numbers) > 1]):
                    self._wrong(f"a start was applied by batches {many[0]}")

    def run(self) -> None:
        world = self.world
        keys = [batch.plan.key for _, _, batch in self.live]
        if len(set(keys)) != len(keys):
            self._wrong("two batches have one key")
        for pipeline in world.pipelines:
            acts = [i.by for i in identities_in(pipeline.store.objects, pipeline.name) if "after" in (i.act or {})]
            if len({(by.dag_id, by.run_id) for by in acts}) != len(acts):
                self._wrong("a run's conf was carried out twice")
        for pipeline, log, batch in self.live:
            self._check_batch(pipeline, log, batch)
        if world.kind == "window":
            self._check_windows()
        self._check_records()

    def _wrong(self, sentence: str) -> None:
        self.world.bad.append(sentence)

    # ── decisions ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _note_decisions(
        self,
        pipeline: Pipeline,
        batch: Batch,
        identities: list[Identity],
        applied: defaultdict[tuple[object, ...], set[int]],
    ) -> None:
        world = self.world
        body = world.body_of(batch.plan, pipeline.store)
        for d in body.decisions:
            at = body.resume_from.get(d.partition)
            origin = None if at is None else world.origins.get(str(at.topic_id))
            if d.end is None or origin is None or d.by.startswith("the topic ended"):
                continue  # of a topic that has ended: nothing of it is missed
            for offset in range(d.start, d.end):
                self.given[origin, d.partition, offset][d.kind] += 1
            reset = _RESET.match(d.by)
            if reset is not None:
                applied[d.partition, reset[1]].add(batch.number)
                self._check_reset(pipeline, batch, identities, int(reset[1]), d.kind == "again")
            elif (
                d.kind == "again"
                # else a topic was re-created between two looks, and nothing of it is read, or not committed
                and (batch.is_committed and body.planned(d.partition))
                and d.partition not in world.truncated
                and origin not in self.ended | world.unfair
            ):
                self._wrong(f"{batch} reads {d.partition} again, and nobody has reset it")
            elif d.kind == "skipped" and d.by != "skip" and d.partition not in world.truncated:
                self._wrong(f"{batch} skips {d}, and nobody has said so")
            elif d.by == "skip" and not any(s.partition == d.partition for i in identities for s in i.skips):
                self._wrong(f"{batch} skips {d}, which no identity has")

    def _check_reset(
        self, pipeline: Pipeline, batch: Batch, identities: list[Identity], number: int, is_again: bool
    ) -> None:
        identity = identities[number - 1]
        name = f"{identity.pipeline}/pipeline/{identity.ranges.name}"
        starts = identity_body_from_dict(decode(pipeline.store.bodies[name])).starts
        if not (identity.act or {}).get("reset"):
            self._wrong(f"{batch} applies a reset of identity {number}, which has none")
        if is_again and not any(s.allow_duplicates for s in starts.values() if s.identity == number):
            self._wrong(f"{batch} reads records again, which reset {number} has not allowed")

    # ── each batch ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_batch(self, pipeline: Pipeline, log: PipelineLog, batch: Batch) -> None:
        world, name = self.world, str(batch)
        if not batch.is_committed:
            self._wrong(f"{name} cannot be finished")
            return
        plan_id = ""
        for entry in batch.entries:
            if isinstance(entry, Plan):
                plan_id = entry.plan_id
            elif isinstance(entry, Commit) and entry.plan_id != plan_id:
                self._wrong(f"{name}: a plan was committed that another one had replaced")
        plan, key = batch.plan, batch.plan.key
        is_red = not batch.is_closed or (
            not batch.is_cleaned
            and not self._is_done(batch)
            and not (world.has_reports and world.is_verified(PipelineLog(log.store, log.pipeline_id), batch))
        )
        places, table = world.places_of(plan), world.tables.rows[self._output(batch)]
        if is_red or key in world.torn:
            self.spoilt |= places
            return
        if key not in table and world.counts["rolled back"] and not self._is_looked_for(batch):
            self.spoilt |= places
            world.counts["unlooked"] += 1
        epochs = {tp: r.leader_epoch or 0 for tp, r in world.body_of(plan, pipeline.store).ranges.items()}
        records = world.records.keys() - world.hidden - world.compacted - world.destroyed
        readable = {r.place for r in records if r.epoch <= epochs.get(r.partition, 0)}  # as the log was when planned
        rows, known = table.get(key, []), {place[0] for place in places} | self._origins()
        if gone := {row.partition.topic for row in rows if row.origin not in known}:
            world.counts["read from a topic that was re-created and deleted again"] += 1
            self.spoilt |= places  # docs/exactly-once.md, *Its limits*: nobody sees that it was another one
            places = {place for place in places if place[1].topic not in gone}
            rows = [row for row in rows if row.partition.topic not in gone]
        found = {row.place for row in rows}
        missing = (places & readable) - found
        if found - places or (missing and (found or not missing <= self.spoilt)):
            self._wrong(f"{name}: readers find {len(found)} rows of {len(places)}; missing {sorted(missing)[:2]}")

    def _origins(self) -> set[str | None]:
        """Of the topics that there are."""
        return {self.world.origin(tp) for tp in self.world.partitions}

    def _is_done(self, batch: Batch) -> bool:
        """Whether the run that has committed it first is green."""
        by = batch.commits[0].by
        run = self.world.runs.get(f"{by.run_id}.{max(by.map_index, 0)}")
        return run is not None and run.task == "done"

    def _output(self, batch: Batch) -> str:
        if not self.world.has_reports:
            return "A"
        return str(batch.output if batch.commits and batch.commits[-1].attempt else batch.plan.output)

    def _is_looked_for(self, batch: Batch) -> bool:
        """Whether a driver had to find the key of the batch in the table, by STATE.md."""
        later = [b for _, log, b in self.live if b.plan.pipeline == batch.plan.pipeline and b.number > batch.number]
        later = [b for b in later if b.plan.key not in self.world.looked_before]
        if batch.plan.output is None or any(b.plan.output != batch.plan.output for b in later):
            return False
        if self.world.kind == "window":
            return any(b.plan.expects == batch.plan.key for b in later)
        return any(b.has_records for b in later)

    # ── windows ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_windows(self) -> None:
        world = self.world
        windows = sorted((batch.first_plan.window or (0, 0), batch.number, batch) for _, _, batch in self.live)
        planned = {tuple(map(world.units, window)) for window, _, _ in windows}
        for window in world.windows_done - planned:
            self._wrong(f"window {window} is done, says a run, and nothing remembers it")
        for (one, _, _), (other, _, _) in pairwise(windows):
            if one[1] > other[0]:
                self._wrong(f"windows {one} and {other} overlap")

    # ── each record ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _found(self) -> Counter[Row]:
        """How often a reader finds each record. Old rows of an output that a person has left do not count."""
        world, found = self.world, Counter[Row]()
        rewritten = {
            b.plan.key: (p, b)
            for p, _, b in self.live
            if b.is_committed and not (b.is_closed and (world.has_reports or self._is_done(b)))
        }
        left, live = {i.output for i in self.identities[:-1]}, {b.plan.key for _, _, b in self.live}
        now = {identities_in(p.store.objects, p.name)[-1].output for p, _, _ in self.live}
        for output, keys in world.tables.rows.items():
            for key, rows in keys.items():
                if output in left and key not in live and output not in now:
                    self.of_lost_logs |= set(rows)
                elif output not in left or self.place_of.get(key, output) == output:
                    found.update(self._of_planned_logs(*rewritten[key], rows) if key in rewritten else rows)
                    continue
                world.counts["old rows"] += 1
        return found

    def _of_planned_logs(self, pipeline: Pipeline, batch: Batch, rows: list[Row]) -> list[Row]:
        """The rows of a committed batch that its run has begun to write again, and could not commit.

        Spark reads by the topic's name. Where a topic was re-created between the run's look and the read, or its log
        truncated, other rows stay under the key (docs/exactly-once.md, *Its limits*), and the run has to stay red.
        """
        world = self.world
        ranges = world.body_of(batch.plan, pipeline.store).ranges
        origins = {name: world.origins.get(str(topic_id)) for name, topic_id in batch.plan.topic_ids.items()}
        planned = [
            row
            for row in rows
            if row.origin == origins.get(row.partition.topic) and row.epoch <= (ranges[row.partition].leader_epoch or 0)
        ]
        if len(planned) < len(rows):
            world.counts["rewrites of another log, red"] += 1
            if self._is_done(batch):
                self._wrong(f"{batch} has rows of another log, and its run is green")
        return planned

    def _check_records(self) -> None:
        world, found = self.world, self._found()
        staging = {world.origins[topic.topic_id] for topic in world.clusters["Z"].topics.values()}
        for row, times in found.items():
            if row.origin in world.unfair:
                continue
            if row.origin in staging:
                self._wrong(f"{row} is of a cluster that nobody named")
                return
            if row not in world.records or row in world.hidden:
                self._wrong(f"{row} is no record that a reader has")
                return
            if times > 1 + self.given[row.place]["again"] + world.twice[row] and not self._is_truncated_and_gone(row):
                self._wrong(f"{row} is there {times} times")
                return
            first = world.before_first.get(row[:2], 0)
            if row.offset < first and not self.given[row.place]["again"] and not world.losses:
                self._wrong(f"{row} is from before the start, {first}")
                return
        if world.copied is not None:
            keys = {b.plan.key for log in world.copied.logs() for b in batches_in(log)}
            if any(key in keys for rows in world.tables.rows.values() for key in rows):
                self._wrong("another environment has written into the table")
        first_ms = min((b.first_plan.window[0] for _, _, b in self.live if b.first_plan.window), default=0)
        first_time = (first_ms - T0) // UNIT_MS
        places = {row.place for row in found}
        for row in sorted(
            world.records.keys() - found.keys() - self.of_lost_logs - world.hidden - world.compacted - world.destroyed
        ):
            if (
                row.origin in staging
                or row.origin in self.ended
                or row.origin in world.unfair
                or row.place in self.spoilt
            ):
                continue
            if self.given[row.place]:
                continue
            if world.kind == "sequence":
                is_wanted = row[:2] in world.known and row.offset >= world.started.get(row[:2], 10**9)
            else:
                is_wanted = row[:2] in world.known and world.records[row] >= first_time
            was_read = row.place in places or self._is_below_an_older_cut(row)
            if is_wanted and not (was_read and self._is_truncated_and_gone(row)):
                self._wrong(f"{row} is in no table, and nobody gave it up")
                return

    def _is_truncated_and_gone(self, row: Row) -> bool:
        """The log was truncated, and then retention took the record (docs/exactly-once.md, *Its limits*): nobody sees
        that a batch was read before or after the truncation."""
        world = self.world
        if row.partition not in world.truncated or world.origin(row.partition) != row.origin:
            return False
        return row.offset < world.kafka.log_of(row.partition).log_start_offset

    def _is_below_an_older_cut(self, row: Row) -> bool:
        """By window: a cut was behind it, in the log as it was before it was truncated."""
        cuts = (
            cut.get(row.partition)
            for pipeline, _, batch in self.live
            for stretch in self.world.body_of(batch.first_plan, pipeline.store).covered
            for cut in (stretch.start_cut, stretch.end_cut)
        )
        return any(at is not None and at.offset > row.offset and (at.leader_epoch or 0) < row.epoch for at in cuts)
