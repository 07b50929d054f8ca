"""``reset``: set a pipeline's position, by the scenarios of ``kafka-consumer-groups --reset-offsets``; and
``write-checkpoint``, which hands it to a query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from airflow_kafka_offsets.batch.engine import ResetOutcome, set_position
from airflow_kafka_offsets.batch.look_ups import World
from airflow_kafka_offsets.batch.orders import OfBatch, OfGroup, Reset
from airflow_kafka_offsets.batch.preview import rehearsed
from airflow_kafka_offsets.batch.situation import Cuts
from airflow_kafka_offsets.cli.commands import TARGETS, Options
from airflow_kafka_offsets.cli.option_values import (
    find_batch,
    me,
    pipeline_asked_for,
    saved_text,
    store_at,
    world_of,
)
from airflow_kafka_offsets.cli.printing import Answer, Column, Table, columns
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import DataLoss, InvalidRequest, names
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.position import (
    SavedOffset,
    ShiftBy,
    Target,
    ToOffset,
    ToOffsets,
)
from airflow_kafka_offsets.request.modes import AtTimestamp
from airflow_kafka_offsets.request.offset_maps import parse_partition_offsets, to_initial_offsets
from airflow_kafka_offsets.request.parameters import ScopeParameters
from airflow_kafka_offsets.request.policies import NO_REASON
from airflow_kafka_offsets.request.problems import parsed
from airflow_kafka_offsets.request.subscription import PartitionSet, TopicList, parse_scope
from airflow_kafka_offsets.request.times import parse_duration_ms, parse_timestamp_ms


def reset(options: Options) -> Answer:
    """Each partition's position before and after, and what the move leaves out or reads again."""
    clock_ms = now_ms()
    pipeline = pipeline_asked_for(options)
    asked = _asked(options, pipeline, clock_ms)
    dry_run = not options.get("execute")
    with world_of(options, pipeline) as world:  # that records are read again, a dry run only says
        done = set_position(replace(asked, allow_duplicates=True) if dry_run else asked, world)
    rows = [
        {
            "topic": one.topic_partition.topic,
            "partition": one.topic_partition.partition,
            "before": one.before.offset if one.before else None,
            "after": one.after.offset,
            "log_start": one.log.log_start_offset,
            "end": one.log.end_offset,
            "skipped": one.skipped,
            "lost": one.lost,
            "read_again": one.reads_again,
            "brought_to": one.brought or None,
        }
        for one in done.moves
    ]
    shown = [
        *columns("topic", "partition"),
        Column("before", absent="none"),
        *columns("after", "log_start", "end", "skipped", "lost", "read_again"),
        Column("brought_to", absent=""),
    ]
    plan = done.batch.log.plan if done.batch else None
    name = plan.batch if plan else None
    totals = {
        "skipped": sum(one.skipped for one in done.moves),
        "lost": sum(one.lost for one in done.moves),
        "read_again": sum(one.reads_again for one in done.moves),
    }
    facts = {
        "pipeline_id": pipeline.pipeline_id,
        "key": name.key if name and not dry_run else None,
        "number": name.number if name else None,
        "group_id": plan.asked.group_id if plan else None,
        "group_left_alone": done.group.left_alone,
        "reason": asked.reason,
        **totals,
        "stays": [str(tp) for tp in done.stays],
        "dry_run": dry_run,
    }
    return Answer(
        [Table(shown, rows)],
        facts,
        _summary(done, dry_run),
        messages=[f"warning: {warning}" for warning in _warnings(done, asked, totals, dry_run)],
        dry_run="sets the position" if dry_run and done.batch else "",
    )


def _asked(options: Options, pipeline: PipelineLog, clock_ms: int) -> Reset:
    """:raises InvalidRequest: it is not clear where to, or a value is not what it should be."""
    given = [target for target in TARGETS if options.get(target.name) is not None]
    if len(given) != 1:
        flags = ", ".join(target.flag for target in TARGETS)
        raise InvalidRequest((f"Where to? Give exactly one of {flags}.",))
    named = {name: options[name] for name in ("topics", "partitions") if options.get(name) is not None}
    if len(named) == 2:
        raise InvalidRequest(("Give --topics or --partitions, not both.",))
    value = options[given[0].name]
    kinds: Mapping[str, Callable[[], Target | OfGroup | OfBatch]] = {
        "to_earliest": lambda: "earliest-offset",
        "to_latest": lambda: "latest-offset",
        "to_current": ShiftBy,
        "to_datetime": lambda: AtTimestamp(parse_timestamp_ms(value, now_ms=clock_ms)),
        "by_duration": lambda: AtTimestamp(max(0, clock_ms - parse_duration_ms(value))),
        "shift_by": lambda: ShiftBy(value),
        "to_offset": lambda: _to_offset(value),
        "to_group": lambda: _of_group(value),
        "from_file": lambda: _of_file(value, pipeline),
        "to_batch": lambda: _of_batch(value, pipeline),
    }
    target = parsed(given[0].flag, kinds[given[0].name])
    subscription = parse_scope(ScopeParameters(**named)).subscription if named else None
    return Reset(
        target,
        options.get("reason") or NO_REASON,
        me(options),
        clock_ms,
        subscription.topics if isinstance(subscription, TopicList) else (),
        subscription.partitions if isinstance(subscription, PartitionSet) else (),
        bool(options.get("allow_duplicates")),
    )


def _to_offset(offset: int) -> ToOffset:
    if offset < 0:
        raise ValueError(f"is {offset}; an offset is not negative: use --to-earliest, --to-latest or --shift-by")
    return ToOffset(offset)


def _of_group(name: str) -> OfGroup:
    if not name.strip():
        raise ValueError("is empty; name a consumer group")
    return OfGroup(name)


def _of_batch(named: str, pipeline: PipelineLog) -> OfBatch:
    """:raises NoPosition: there is no such batch."""
    batch = find_batch(pipeline, named)
    committed = batch.log.committed
    if committed is None or committed.position is None:
        what = "is a window, which moves no position" if committed else "is not committed"
        raise ValueError(f"{named} {what}: name a committed batch of the log")
    return OfBatch(str(batch.log.plan.batch), committed.position)


def _of_file(file: str, pipeline: PipelineLog) -> ToOffsets:
    newest = pipeline.newest()
    group_id = newest.log.plan.asked.group_id if newest else None  # whose lines are taken of a file of several groups
    offsets = parse_partition_offsets(saved_text("--from-file", file), group_id=group_id)
    if not offsets:
        raise ValueError(f"{file} has no offset")
    return ToOffsets({tp: SavedOffset(offset) for tp, offset in offsets.items()}, f"file {file.rpartition('/')[2]}")


def _summary(done: ResetOutcome, dry_run: bool) -> str:
    if done.batch is None:
        return "The position is there already: no batch is made."
    moved = sum(one.changes for one in done.moves)
    follows = f"the group {'would follow' if dry_run else 'follows'} in {len(done.group.written)} partitions"
    left_alone = done.group.left_alone and f"the group is left alone: {done.group.left_alone}"
    return (
        f"{done.batch.log.plan.batch} {'would set' if dry_run else 'sets'} the position of {moved} of "
        f"{len(done.moves)} partitions; {left_alone or follows}"
    )


def _warnings(done: ResetOutcome, asked: Reset, totals: Mapping[str, int], dry_run: bool) -> list[str]:
    """What it costs."""
    will = "would be" if dry_run else "will be"
    found = []
    if totals["read_again"]:
        further = " --execute needs --allow-duplicates too." if dry_run and not asked.allow_duplicates else ""
        found.append(
            f"up to {totals['read_again']} records {will} read again, under new keys. They are in the output twice "
            f"then, unless it is another output by now.{further}"
        )
    if totals["skipped"]:
        found.append(f"up to {totals['skipped']} records {will} left out: {asked.reason}.")
    if totals["lost"]:
        found.append(f"{totals['lost']} offsets that were not read are gone from Kafka.")
    brought = [one for one in done.moves if one.brought]
    if brought:
        first = brought[0]
        found.append(
            f"{len(brought)} offsets that the log does not have were brought to its ends "
            f"({first.topic_partition}: {first.asked} to the {first.brought}, {first.after.offset})."
        )
    if done.stays:
        found.append(f"no offset is given for {', '.join(map(str, done.stays))}: they stay where they are.")
    return found


# ── write-checkpoint: a Structured Streaming query goes on where the pipeline is ──────────────────────────────────────
# One file is all that Spark needs of one: ``sources/0/0``, which it writes itself before a query's first batch. What
# it has wins over ``startingOffsets``. A checkpoint that pretends to have done a batch is worse: Spark then writes an
# output folder that it cannot read itself, since the sink's own log lacks that batch.


_FIRST_SOURCE = "sources/0/0"


def offsets_of_query(order: Reset, world: World) -> dict[TopicPartition, int]:
    """Where the query begins: a checkpoint has no leader epochs, so Spark itself does not see that a log was cut.

    :raises DataLoss: the log of a partition is not the one any more that its position is of.
    """
    moves = set_position(replace(order, allow_duplicates=True), rehearsed(world)).moves
    cuts = world.answer(Cuts({one.topic_partition: one.after for one in moves}))
    gone = [f"{one.topic_partition}: {one.goes_on_at} is not in its log any more" for one in moves if one.changes]
    if gone:
        remedy = "kafka-offsets reset --to-current goes on at what is there, and says what is lost. Then write it."
        raise DataLoss(gone, remedy)
    if cuts:
        raise DataLoss(
            [f"{tp}: from offset {cuts[tp]} on, the log is another one (an unclean election)" for tp in sorted(cuts)],
            'Let one run with the conf {"kafka_offsets": {"policies": {"data_loss": "advance"}}} go on at the first '
            "offset that differs. Then write it.",
        )
    return {one.topic_partition: one.after.offset for one in moves}


def write_checkpoint(options: Options) -> Answer:
    """Each partition's position, as the query begins there.

    :raises DataLoss: records of a partition are gone, so that no query can begin at its position.
    :raises InvalidRequest: no place is given, or something is there.
    """
    place = options.get("checkpoint")
    if not place:
        raise InvalidRequest(("Where to? Give --checkpoint and a folder that is empty or not there yet.",))
    pipeline, topics = pipeline_asked_for(options), options.get("topics")
    subscription = parse_scope(ScopeParameters(topics=topics)).subscription if topics else None
    chosen = subscription.topics if isinstance(subscription, TopicList) else ()
    with world_of(options, pipeline) as world:
        order = Reset(ShiftBy(), NO_REASON, me(options), now_ms(), chosen)
        offsets = offsets_of_query(order, world)
    with names({"work_store": "--checkpoint"}):
        store = store_at(place)
        dry_run, data = not options.get("execute"), to_initial_offsets(offsets).encode()
        if store.list("") or not (dry_run or store.create(_FIRST_SOURCE, data)):
            raise InvalidRequest((f"--checkpoint {place} is not empty: a query's checkpoint is never changed.",))
    rows = [{"topic": tp.topic, "partition": tp.partition, "offset": offset} for tp, offset in offsets.items()]
    return Answer(
        [Table(columns("topic", "partition", "offset"), rows)],
        {"pipeline_id": pipeline.pipeline_id, "checkpoint": place, "dry_run": dry_run},
        f"A query with the checkpoint {place} {'would begin' if dry_run else 'begins'} at these offsets.",
        messages=[
            "Leave the DAG paused: its next run reads the same records.",
            "Give the query a new output folder. In one that has _spark_metadata, Spark leaves out each batch whose "
            "number stands there, without a word.",
        ],
        dry_run="writes the checkpoint",
    )
