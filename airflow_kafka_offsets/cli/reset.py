"""``reset``: the startup request once more, or ``current``, which only acknowledges. ``skip``: give up records."""

from __future__ import annotations

from shlex import quote

import click

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.cli.call import (
    BOUND,
    CHECKPOINT,
    CLUSTER,
    DRY_RUN,
    EXECUTE,
    OTHERWISE,
    PIPELINE,
    SUBSCRIPTION,
    Call,
    command,
    option,
)
from airflow_kafka_offsets.cli.printing import PROGRAM, Answer, Row, Table
from airflow_kafka_offsets.engine import by_hand
from airflow_kafka_offsets.engine.group import marks_of
from airflow_kafka_offsets.engine.history import decision_row
from airflow_kafka_offsets.engine.lag import position_of
from airflow_kafka_offsets.engine.look import Look
from airflow_kafka_offsets.errors import InvalidRequest, ResetRefused, counted
from airflow_kafka_offsets.kafka_values import OffsetRange, TopicPartition, grouped
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.names import partition_offset
from airflow_kafka_offsets.plan.body import Decision
from airflow_kafka_offsets.request import Request
from airflow_kafka_offsets.times import parse_timestamp_ms

_SPARK_FIRST = "Let Spark jobs of this pipeline end first: one that still runs may write what it was given before."


def reset(call: Call) -> Answer:
    """Set the position of a pipeline, or acknowledge a change.

    The position is what its startup request gives, applied once more. Prints for each partition the position before and
    after, and what is skipped, lost or read again. --start current keeps the position, and acknowledges what changed:
    the group, the cluster, the output.
    """
    is_current, newest = call["start"] == "current", call.log.newest()
    if newest is None and call["topics"] is None:
        problem = f"Pipeline {call.pipeline_id!r} has no batch in {call.store.uri}: give --topics, and --group-id."
        raise InvalidRequest((problem,))
    start = "earliest" if is_current else call.bound("--start", call["start"], call["otherwise"])
    want = call.request(newest, start=start)
    with call.cluster() as kafka:
        answer = _acknowledged(call, want, kafka) if is_current else _moved(call, want, kafka)
    return _of_write(call, answer)


def _of_write(call: Call, answer: Answer) -> Answer:
    is_dry = not call["execute"]
    notes = [_SPARK_FIRST, *answer.notes, *([DRY_RUN] if is_dry and not answer.exit_status else [])]
    facts = {"pipeline": call.pipeline_id, "dry_run": is_dry, **answer.facts}
    return Answer(answer.text, facts, answer.tables, notes, answer.exit_status)


def _moved(call: Call, want: Request, kafka: Cluster) -> Answer:
    notes, exit_status = [], 0
    try:
        moved = by_hand.reset(want, call.me, *call.turn(kafka), allow_duplicates=call["allow_duplicates"])
    except ResetRefused as refused:
        if call["execute"] or call["allow_duplicates"]:
            raise
        moved = by_hand.reset(want, call.me, *call.turn(kafka), allow_duplicates=True)  # to show what it is about
        notes, exit_status = [f"{PROGRAM}: {refused}"], refused.exit_status
    sizes = grouped(((d.partition, str(d.kind)), _size(d)) for d in moved.decisions)
    rows: list[Row] = [
        {
            "partition": str(tp),
            "before": moved.before[tp].offset if tp in moved.before else None,
            "after": after.offset,
            **{kind: sum(sizes[tp, kind]) if (tp, kind) in sizes else None for kind in ("skipped", "lost", "again")},
        }
        for tp, after in sorted(moved.after.items())
    ]
    tables = [
        Table("partitions", rows, "partition before after skipped lost again"),
        Table("decisions", list(map(decision_row, moved.decisions))),
    ]
    text = f"Batch {moved.batch} of pipeline {want.pipeline_id} sets the position: {want.start}."
    return Answer(text, {"batch": moved.batch}, tables, notes, exit_status)


def _size(decision: Decision) -> int:
    """1 where it is not known: a topic that was re-created."""
    return 1 if decision.end is None else decision.end - decision.start


# ── --start current ───────────────────────────────────────────────────────────────────────────────────────────────────


def _acknowledged(call: Call, want: Request, kafka: Cluster) -> Answer:
    """:raises ResetRefused: there is no batch, or the group knows more than the log."""
    log, cluster = call.turn(kafka)
    while True:
        look = Look(want, cluster)
        held = look.group  # before the log, so that a mark in it is never newer
        newest = log.newest()
        if newest is None or (marks_of(held) and not newest.is_committed and newest.number == 1):
            what = f"Pipeline {log.pipeline_id!r} has no {'' if newest is None else 'committed '}batch to go on from"
            line = f"{PROGRAM} reset {quote(log.pipeline_id)} --start group-offsets"
            raise ResetRefused([what], f"Say where it goes on, such as: {line}")
        batch = _of_window(log, newest, call["window"])
        if by_hand.acknowledge(look, log, batch, call.me):
            break
    position = {} if batch.plan.kind == "window" else position_of(log, newest)
    rows: list[Row] = [
        {"partition": str(tp), "position": at.offset, "group_holds": held[tp].offset if tp in held else None}
        for tp, at in sorted(position.items())
    ]
    written = {log.output_of(batch, attempt) for attempt in batch.attempts} | {batch.output}
    outputs = ", ".join(sorted(output for output in written if output is not None))
    stays = f"Rows in an output that is no more stay there. Written so far: {outputs}. Its key: {batch.plan.key}"
    recorded = batch.number + (batch.is_committed and batch.plan.kind != "window")  # then in an empty batch
    text = f"{batch}: what changed around it is acknowledged, in batch {recorded}; offsets stay as they are."
    text += f" Attempts up to {batch.highest_attempt} do not count any more." if batch.highest_attempt else ""
    table = Table("partitions", rows, "partition position group_holds")
    return Answer(text, {"batch": recorded}, [table], [stays] if outputs else [])


def _of_window(log: PipelineLog, newest: Batch, window: tuple[str, str] | None) -> Batch:
    """The batch of a window; in sequence, the newest one."""
    if (newest.plan.kind == "window") != (window is not None):
        how = "in sequence: leave --window out" if window else "by window: add --window START END"
        raise InvalidRequest((f"Pipeline {log.pipeline_id!r} reads {how}.",))
    if window is None:
        return newest
    try:
        bounds = parse_timestamp_ms(window[0]), parse_timestamp_ms(window[1])
    except ValueError as error:
        raise InvalidRequest((f"--window {error}.",)) from None
    if newest.first_plan.window is not None:
        log.name_window(newest.first_plan.window, newest.number)  # the newest batch alone can lack its name
    number = log.batch_of_window(bounds)
    if number is None:
        raise InvalidRequest((f"Pipeline {log.pipeline_id!r} has no batch of window {' '.join(window)}.",))
    return log.existing(number)


# ── skip ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def skip(call: Call) -> Answer:
    """Give up records of an unfinished batch.

    It is planned again without them. orders-3:4711 is one record, orders-3:4711-4720 are ten: both offsets are
    included. The decision is recorded with your name. Refused if records of the batch are gone from Kafka.
    """
    tp, skipped = _records(call["records"])
    # Records of the plan itself have to be there; what it lost before is decided, and stays lost.
    want = call.request(call.newest(), start="earliest", on_data_loss="advance")
    with call.cluster() as kafka:
        log, cluster = call.turn(kafka)
        batch = by_hand.skip(want, call.me, log, cluster, tp, skipped)
    left = counted(log.body(batch).offsets, "offset")
    text = f"{batch} skips {counted(skipped.size, 'offset')} of {tp}, and has {left} left to read."
    runs = [f": {entry.by}" for entry in batch.entries if entry.by.run is not None]
    notes = [f"Then clear its run from the resolve task on, with Downstream{runs[-1] if runs else ''}."]
    return _of_write(call, Answer(text, {"batch": batch.number, "offsets": batch.plan.offsets}, notes=notes))


def _records(text: str) -> tuple[TopicPartition, OffsetRange]:
    _, dash, last = text.rpartition(":")[2].partition("-")
    try:
        tp, start = partition_offset(text.removesuffix(f"-{last}") if dash else text)
        return tp, OffsetRange(start, 1 + (partition_offset(f"{tp}:{last}")[1] if dash else start))
    except ValueError as error:
        raise InvalidRequest((f"PARTITION:OFFSET[-OFFSET] {error}.",)) from None


reset_command = command(
    reset,
    "reset orders --start timestamp:2026-11-20T10:00Z --kafka-config-id kafka_default",
    PIPELINE,
    option("--start", f"Where to: current, {BOUND}.", metavar="BOUND", required=True),
    OTHERWISE,
    *SUBSCRIPTION,
    option("--allow-duplicates", "Read records again whose rows are in the output already.", is_flag=True),
    option("--window", "With --start current, by window: which one.", nargs=2, metavar="START END"),
    EXECUTE,
    *CLUSTER,
    CHECKPOINT,
)
skip_command = command(
    skip,
    "skip orders orders-3:4711-4720 --kafka-config-id kafka_default --execute",
    PIPELINE,
    click.Argument(["records"], metavar="PARTITION:OFFSET[-OFFSET]"),
    EXECUTE,
    *CLUSTER,
    CHECKPOINT,
)
