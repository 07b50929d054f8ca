"""``plan``: what the next run would read, and why: its own turn, over a store and a cluster that keep their writes."""

from __future__ import annotations

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.cli.call import (
    BOUND,
    CHECKPOINT,
    CLUSTER,
    OTHERWISE,
    PIPELINE,
    SUBSCRIPTION,
    Call,
    command,
    option,
)
from airflow_kafka_offsets.cli.printing import Answer, Row, Table
from airflow_kafka_offsets.engine.history import batch_row
from airflow_kafka_offsets.engine.lag import position_of
from airflow_kafka_offsets.engine.resolve import resolve
from airflow_kafka_offsets.engine.surroundings import NoAirflow
from airflow_kafka_offsets.engine.work import Nothing, Work
from airflow_kafka_offsets.errors import InvalidRequest, counted
from airflow_kafka_offsets.kafka_values import RunKey, TopicList, grouped
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import Position
from airflow_kafka_offsets.plan.body import Decision
from airflow_kafka_offsets.request import Request

_ME = RunKey("kafka-offsets", "plan", "plan")
_OF_RUN = ("end", "max_records", "on_data_loss", "exclude")


def plan(call: Call) -> Answer:
    """What the next run would read, and why. Nothing is written.

    With two times as --start and --end, it is the run of that window. A pipeline without a batch needs --topics.
    """
    start, end = call["start"], call["end"]
    with call.cluster() as kafka:
        newest = call.log.newest()
        if newest is not None and newest.plan.kind == "window" and not (start and end.startswith("timestamp:")):
            problem = f"Pipeline {call.pipeline_id!r} reads by window: give --start timestamp:… and --end timestamp:…"
            raise InvalidRequest((problem,))
        if start is None:  # it decides the first batch only
            has_group = newest is None or call["group_id"] or newest.plan.group_id
            start = "group-offsets" if has_group else "earliest"
        of_run = {name: call[name] for name in _OF_RUN} | {"end": call.bound("--end", end)}
        want = call.request(newest, start=call.bound("--start", start, call["otherwise"]), **of_run)
        position = position_of(call.log, newest) if newest is not None and want.window is None else {}
        work = resolve(want, _ME, *call.turn(kafka, execute=False), NoAirflow())
        facts = {"pipeline": want.pipeline_id, "asked": want.asked, "summary": work.summary}
        notes = [*want.warnings, *_without_a_topic(want, kafka)]
        if isinstance(work, Nothing):
            return Answer(f"The next run: {work.summary}", {**facts, "batch": None, "offsets": 0}, notes=notes)
        was = call.log.batch(work.batch.number)
    text, about = (
        _in_words(work, was),
        {"batch": work.batch.number, "is_new": was is None, "offsets": work.body.offsets},
    )
    table = Table("partitions", _rows(work, was, position), "partition start end offsets why")
    return Answer(text, {**facts, **about, "given_up": work.body.given_up}, [table], notes)


def _without_a_topic(want: Request, kafka: Cluster) -> list[str]:
    """Topics that earlier runs have read: a run that subscribes to a pattern goes on without them."""
    if not isinstance(want.subscription, TopicList):
        return []
    found = {tp.topic for tp in kafka.describe(want.subscription).partitions}
    gone = [topic for topic in want.subscription.topics if topic not in found]
    return [f"Topic {topic} does not exist: a run that subscribes to it by its name fails." for topic in gone]


def _in_words(work: Work, was: Batch | None) -> str:
    partitions = sum(r.end > r.start for r in work.body.ranges.values())
    read = f"{counted(work.body.offsets, 'offset')} of {counted(partitions, 'partition')}"
    job = "" if work.starts_job else " Spark has nothing to do: the commit follows."
    if was is None:
        return f"The next run plans batch {work.batch.number}: {read}.{job}"
    row = batch_row(was)
    how = "with the offsets it has" if was.plan_entry == work.batch.plan_entry else "planned again"
    return f"Batch {was.number} is {row['state']}, by {row['owner']}. The next run does it, {how}: {read}.{job}"


def _rows(work: Work, was: Batch | None, position: Position) -> list[Row]:
    decisions = grouped((d.partition, _decided(d)) for d in work.body.decisions)
    rows: list[Row] = []
    for tp, planned in sorted(work.body.ranges.items()):
        first = "new partition: log start" if position else "cut" if work.batch.plan.window else "startup mode"
        why = "as planned" if was is not None else "position" if tp in position else first
        rows.append(
            {
                "partition": str(tp),
                "resumes_from": work.body.resume_from[tp].offset,
                "start": planned.start,
                "end": planned.end,
                "offsets": work.body.planned(tp),
                "why": "; ".join([why, *decisions.get(tp, [])]),
            }
        )
    return rows


def _decided(decision: Decision) -> str:
    kind = "read again" if decision.kind == "again" else decision.kind
    end = "" if decision.end is None else f" to {decision.end}"
    return f"offsets from {decision.start}{end} {kind} ({decision.by})"


plan_command = command(
    plan,
    "plan orders --topics orders --start earliest --bootstrap-servers broker:9092",
    PIPELINE,
    *SUBSCRIPTION,
    option("--start", f"Where the first batch starts: {BOUND}.", metavar="BOUND"),
    option("--end", "Where the batch ends, exclusive.", metavar="BOUND", default="latest"),
    OTHERWISE,
    option("--max-records", "Limit of a batch, in offsets.", metavar="N"),
    option("--on-data-loss", "fail, advance or reset.", metavar="WORD", default="fail"),
    option("--exclude", "Partitions that keep their position: orders-3,orders-5.", metavar="LIST", default=""),
    *CLUSTER,
    CHECKPOINT,
)
