"""Small makers of what the log keeps, so that a test shows only what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from airflow_kafka_offsets.kafka_values import Actor, RunKey
from airflow_kafka_offsets.log.entries import Committed, Planned, Taken
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch, read_batch
from airflow_kafka_offsets.log.read_reports import begin_attempt, deciding_attempts, store_report
from airflow_kafka_offsets.log.verify_reads import PartitionRead, ReadReport, reads_of
from airflow_kafka_offsets.plan.plan import BatchName, Plan, PlannedPartition, new_key
from airflow_kafka_offsets.plan.position import position_after
from airflow_kafka_offsets.plan.window_claims import Claim, OffsetClaim, TimeClaim, batch_name_of
from tests.builders import NOW, PIPELINE, plan, planned

DAY = 86_400_000
OUTPUT = "s3://lake/orders"


def run(name: str | int, map_index: int = -1) -> RunKey:
    return RunKey("billing", f"run-{name}", "resolve", map_index)


def actor(name: str | int) -> Actor:
    return Actor(run(name), "airflow.example.com")


def key_of(number: int) -> str:
    return new_key(number, NOW, "k3f9")


def plan_of(number: int, rows: Sequence[PlannedPartition] | None = None, **fields: Any) -> Plan:
    """The plan of batch ``number``, by run ``number``: ten offsets of one partition, where the one before ended."""
    before = key_of(number - 1) if number > 1 else None
    rows = [planned(0, 10 * number - 10, 10 * number)] if rows is None else rows
    fields = {"batch": BatchName(key_of(number), number, before), "run": run(number), "output": OUTPUT, **fields}
    return plan(rows, **fields)


def begin(log: PipelineLog, number: int, at_ms: int = NOW, **fields: Any) -> StoredBatch:
    begun = log.begin(number, Planned(plan_of(number, resolved_at_ms=at_ms, **fields)))
    assert begun is not None
    return begun


def commit(batch: StoredBatch, at_ms: int = NOW, by: Actor | None = None) -> StoredBatch:
    made = batch.log.plan
    after = None if made.asked.window else position_after(made, batch.log.planned.position)
    reads = reads_of(made, deciding_attempts(batch))
    done = batch.append(Committed(by or made.by, at_ms, made.plan_id, reads=reads, position=after))
    assert done is not None
    return done


def as_it_is_now(batch: StoredBatch) -> StoredBatch:
    """The same batch, whatever was written to its log since."""
    found = read_batch(batch.store, batch.folder)
    assert found is not None
    return found


def take(batch: StoredBatch, by: Actor, at_ms: int = NOW, **attempts: int) -> StoredBatch:
    """``take(batch, actor("b"), s0=2)``: of split 0 the highest attempt was 2."""
    taken = batch.append(Taken(by, at_ms, {int(name[1:]): number for name, number in attempts.items()}))
    assert taken is not None
    return taken


def report_of(made: Plan, split: int, number: int, **fields: Any) -> ReadReport:
    """The report of an attempt that has read and written all of its split."""
    reads = {
        p.topic_partition: PartitionRead(p.size, p.size, p.start_offset, p.end_offset - 1) for p in made.splits[split]
    }
    return replace(ReadReport(made.plan_id, split, number, "rows", reads, made.asked.output), **fields)


def read(batch: StoredBatch, number: int = 1, random: str = "abcd") -> None:
    """Every split of the batch, by one attempt each."""
    made = batch.log.plan
    for split in range(made.split_count):
        begin_attempt(batch.store, batch.folder, split, number, random, {})
        store_report(batch.store, batch.folder, random, report_of(made, split, number))


def window_plan(claim: Claim, **fields: Any) -> Plan:
    rows = [planned(0, 0, 10)]
    match claim:
        case TimeClaim(start_ms, end_ms):
            fields = {"window_bounds": (start_ms, end_ms), **fields}
        case OffsetClaim(ranges):
            rows = [planned(number, start, end) for _, _, number, start, end in ranges]
            fields = {"startup_mode": "specific-offsets", "bounded_mode": "specific-offsets", **fields}
    fields = {
        "batch": batch_name_of(claim, PIPELINE),
        "window": True,
        "group_follows": False,
        "startup_mode": "timestamp",
        "bounded_mode": "timestamp",
        "output": f"{OUTPUT}-windows",
        **fields,
    }
    return plan(rows, **fields)


def begin_window(log: PipelineLog, claim: Claim, at_ms: int = NOW, **fields: Any) -> StoredBatch:
    begun = log.begin_window(claim.name, 1, Planned(window_plan(claim, resolved_at_ms=at_ms, **fields)))
    assert begun is not None
    log.claim(claim.name, claim.places, 1)
    return begun
