"""``reset``: set a pipeline's position, by the scenarios of ``kafka-consumer-groups --reset-offsets``."""

from __future__ import annotations

from pathlib import Path

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.inputs import Options, client_config, me, pipeline_asked_for, text_of
from airflow_kafka_offsets.cli.render import Page, Table, say, say_dry_run, show
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.plan.position import KeptOffset
from airflow_kafka_offsets.offsets.plan.reset import (
    Move,
    ShiftBy,
    Target,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToOffsets,
    ToTime,
)
from airflow_kafka_offsets.offsets.request.offset_maps import parse_partition_offsets
from airflow_kafka_offsets.offsets.request.policies import NO_REASON
from airflow_kafka_offsets.offsets.request.scope import PartitionSet, Scope, ScopeParameters, TopicList, parse_scope
from airflow_kafka_offsets.offsets.request.times import parse_duration_ms, parse_timestamp_ms
from airflow_kafka_offsets.pipeline.clock import now_ms
from airflow_kafka_offsets.pipeline.moves import OfGroup, Reset
from airflow_kafka_offsets.pipeline.reset import ResetOutcome, reset_position
from airflow_kafka_offsets.stores.pipeline_log import PipelineLog

_TARGETS = (
    *("to_earliest", "to_latest", "to_current", "to_datetime", "by_duration", "shift_by", "to_offset"),
    *("from_file", "to_group"),
)


def reset(options: Options) -> int:
    """Each partition's position before and after, and what the move leaves out or reads again."""
    clock_ms = now_ms()
    config = client_config(options)
    pipeline = pipeline_asked_for(options)
    asked = _asked(options, pipeline, clock_ms)
    dry_run = not options.get("execute")
    with KafkaCluster(config) as cluster:
        done = reset_position(pipeline, cluster, me(options), asked, now_ms=clock_ms, dry_run=dry_run)
    show(_page(pipeline, done, asked, dry_run), options.get("output"))
    _say_what_it_costs(done, asked, dry_run)
    if dry_run and done.batch is not None:
        say_dry_run("sets the position")
    return 0


def _asked(options: Options, pipeline: PipelineLog, clock_ms: int) -> Reset:
    """:raises InvalidRequest: it is not clear where to, or a value is not what it should be."""
    given = [name for name in _TARGETS if options.get(name) is not None]
    if len(given) != 1:
        flags = ", ".join("--" + name.replace("_", "-") for name in _TARGETS)
        raise InvalidRequest((f"Where to? Give exactly one of {flags}.",))
    if options.get("topics") is not None and options.get("partitions") is not None:
        raise InvalidRequest(("Give --topics or --partitions, not both.",))
    flag = "--" + given[0].replace("_", "-")
    try:
        target = _target(given[0], options, pipeline, clock_ms)
    except ValueError as error:
        raise InvalidRequest((f"{flag} {error}.",)) from None
    scope = _scope(options)
    subscription = scope.subscription if scope else None
    return Reset(
        target,
        options.get("reason") or NO_REASON,
        subscription.topics if isinstance(subscription, TopicList) else (),
        subscription.partitions if isinstance(subscription, PartitionSet) else (),
        bool(options.get("allow_duplicates")),
    )


def _scope(options: Options) -> Scope | None:
    named = {name: options[name] for name in ("topics", "partitions") if options.get(name) is not None}
    return parse_scope(ScopeParameters(**named)) if named else None


def _target(name: str, options: Options, pipeline: PipelineLog, clock_ms: int) -> Target | OfGroup:
    """:raises ValueError: what is wrong, in a sentence that can follow the option's name."""
    value = options[name]
    match name:
        case "to_earliest":
            return ToEarliest()
        case "to_latest":
            return ToLatest()
        case "to_current":
            return ToCurrent()
        case "to_datetime":
            return ToTime(parse_timestamp_ms(value, now_ms=clock_ms))
        case "by_duration":
            return ToTime(max(0, clock_ms - parse_duration_ms(value)))
        case "shift_by":
            return ShiftBy(value)
        case "to_offset":
            if value < 0:
                raise ValueError(f"is {value}; an offset is not negative: use --to-earliest, --to-latest or --shift-by")
            return ToOffset(value)
        case "to_group":
            if not value.strip():
                raise ValueError("is empty; name a consumer group")
            return OfGroup(value)
    newest = pipeline.newest()
    group_id = newest.log.plan.asked.group_id if newest else None  # whose lines are taken of a file of several groups
    offsets = parse_partition_offsets(text_of(Path(value), option="--from-file"), group_id=group_id)
    if not offsets:
        raise ValueError(f"{value} has no offset")
    return ToOffsets({tp: KeptOffset(offset) for tp, offset in offsets.items()}, f"file {Path(value).name}")


def _page(pipeline: PipelineLog, done: ResetOutcome, asked: Reset, dry_run: bool) -> Page:
    rows = [
        (
            one.topic_partition.topic,
            one.topic_partition.partition,
            one.before.offset if one.before else None,
            one.after.offset,
            one.log.log_start_offset,
            one.log.end_offset,
            one.skipped,
            one.lost,
            one.reads_again,
            one.brought or None,
        )
        for one in done.moves
    ]
    columns = (
        "topic",
        "partition",
        "before",
        "after",
        "log start",
        "end",
        "skipped",
        "lost",
        "read again",
        "brought to",
    )
    plan = done.batch.log.plan if done.batch else None
    name = plan.batch if plan else None
    left_alone = done.group.left_alone
    facts = {
        "pipeline_id": pipeline.pipeline_id,
        "key": name.key if name and not dry_run else None,
        "number": name.number if name else None,
        "group_id": plan.asked.group_id if plan else None,
        "group_left_alone": left_alone,
        "reason": asked.reason,
        **_totals(done.moves),
        "stays": [str(tp) for tp in done.decided.stays],
        "dry_run": dry_run,
    }
    table = Table(columns, rows, absent={"before": "none", "brought to": ""})
    return Page([table], facts, _summary(done, left_alone, dry_run))


def _totals(moves: tuple[Move, ...]) -> dict[str, int]:
    return {
        "skipped": sum(one.skipped for one in moves),
        "lost": sum(one.lost for one in moves),
        "read_again": sum(one.reads_again for one in moves),
    }


def _summary(done: ResetOutcome, left_alone: str | None, dry_run: bool) -> str:
    if done.batch is None:
        return "The position is there already: no batch is made."
    name = done.batch.log.plan.batch
    moved = sum(one.changes for one in done.moves)
    follows = f"the group {'would follow' if dry_run else 'follows'} in {len(done.group.written)} partitions"
    return (
        f"{name} {'would set' if dry_run else 'sets'} the position of {moved} of {len(done.moves)} partitions; "
        f"{f'the group is left alone: {left_alone}' if left_alone else follows}"
    )


def _say_what_it_costs(done: ResetOutcome, asked: Reset, dry_run: bool) -> None:
    totals, will = _totals(done.moves), "would be" if dry_run else "will be"
    if totals["read_again"]:
        further = " --execute needs --allow-duplicates too." if dry_run and not asked.allow_duplicates else ""
        say(
            f"warning: up to {totals['read_again']} records {will} read again, under new keys. They are in the output "
            f"twice then, unless it is another output by now.{further}"
        )
    if totals["skipped"]:
        say(f"warning: up to {totals['skipped']} records {will} left out: {asked.reason}.")
    if totals["lost"]:
        say(f"warning: {totals['lost']} offsets that were not read are gone from Kafka.")
    brought = [one for one in done.moves if one.brought]
    if brought:
        first = brought[0]
        say(
            f"warning: {len(brought)} offsets that the log does not have were brought to its ends "
            f"({first.topic_partition}: {first.asked} to the {first.brought}, {first.after.offset})."
        )
    if done.decided.stays:
        say(f"warning: no offset is given for {', '.join(map(str, done.decided.stays))}: they stay where they are.")
