"""What happens to records, to the group, and to the checkpoint location."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.engine.group import Mark
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.log.clean import clean as clean_log
from airflow_kafka_offsets.log.entries import Plan
from tests.model import people
from tests.model.stepping import FAR, T0, UNIT_MS, epoch_of

if TYPE_CHECKING:
    from tests.model.world import World


def produce_some(world: World) -> None:
    tp, late = world.rnd.choice(world.partitions), world.rnd.choice((0, 0, 0, 3, 15, 40))
    for _ in range(world.rnd.randint(1, 3)):
        time = max(0, world.clock - world.rnd.randint(0, late))
        produce(world, tp.partition, world.clock + 9999 if world.rnd.random() < 0.004 else time)


def produce(world: World, partition: int, *times: int) -> None:
    for time in times:
        tp = TopicPartition("orders", partition)
        (offset,) = world.kafka.produce(tp, [T0 + time * UNIT_MS])
        world.records[identity(world, tp, offset)] = time


def identity(world: World, tp: TopicPartition, offset: int) -> tuple[Any, ...]:
    topic = world.kafka.topics["orders"]
    return topic.topic_id, tp.partition, offset, epoch_of(topic.logs[tp.partition], offset)


def expire(world: World) -> None:
    tp = world.rnd.choice(world.partitions)
    log = world.kafka.topics["orders"].logs[tp.partition]
    low = max(log.log_start_offset, log.high_watermark - 20)
    world.kafka.delete_records(tp, world.rnd.randint(low, log.high_watermark))


def change_topic(world: World) -> None:
    """Unclean elections, elections, and a topic that is re-created."""
    tp = world.rnd.choice(world.partitions)
    log = world.kafka.topics["orders"].logs[tp.partition]
    what = world.rnd.random()
    if what < 0.25:
        world.kafka.elect(tp)
    elif what < 0.8:
        cut_log(world, tp, world.rnd.randint(max(log.log_start_offset, log.high_watermark - 6), log.high_watermark))
    else:
        recreate_topic(world)


def cut_log(world: World, tp: TopicPartition, end: int) -> None:
    world.counts["cut log"] += 1
    world.destroyed |= {identity(world, tp, o) for o in range(end, world.high_watermark(tp))}
    world.kafka.truncate(tp, end)


def recreate_topic(world: World) -> None:
    world.counts["re-created topic"] += 1
    topic_id = world.kafka.topics["orders"].topic_id
    world.destroyed |= {r for r in world.records if r[0] == topic_id}
    world.kafka.recreate_topic("orders")
    group_changed(world)  # its offsets are gone


def compact(world: World) -> None:
    tp = world.rnd.choice(world.partitions)
    log = world.kafka.topics["orders"].logs[tp.partition]
    if len(log.entries) > 1:
        entry = world.rnd.choice(log.entries[:-1])
        log.entries.remove(entry)
        world.compacted.add(identity(world, tp, entry.offset)[:3])


def move_group(world: World) -> None:
    held = world.kafka.groups.get(world.group or "", {})
    some = {tp: CommittedOffset(max(0, c.offset - world.rnd.randint(0, 9))) for tp, c in held.items()}
    if some:
        world.counts["moved group"] += 1
        group_changed(world)
        world.kafka.commit_as_somebody_else(world.group or "", some)


def forget_group(world: World) -> None:
    world.kafka.expire(world.group or "")
    group_changed(world)


def group_changed(world: World) -> None:
    """A program that is writing to it cannot make it right any more."""
    world.is_behind = True
    for other in world.programs:
        other.is_late = other.has_mirrored


def clean(world: World) -> None:
    world.person(lambda: clean_log(world.log, FAR * FAR, execute=True))
    world.counts["clean"] += 1


def lose_log(world: World, copy: dict[str, bytes] | None = None) -> None:
    """The checkpoint location is empty, or an older copy. Spark jobs end first; what else runs ends there. Once."""
    if world.has_lost_log:
        return
    world.has_lost_log = True
    for other in [p for p in world.programs if p.task != "spark"]:
        world.crash(other)
    world.run_all()
    world.counts["lost log" if copy is None else "older log"] += 1
    batches = world.batches()
    for batch in batches:
        if not (batch.is_closed and (batch.is_cleaned or world.is_verified(batch))):
            world.torn.add(batch.plan.key)
            if batch.is_committed:  # a run writes it again; what it wrote so far is nobody's
                rows = (row for at, rows in world.sink.rows.items() for row in rows if at[1] == batch.plan.key)
                world.twice.update(rows)
            world.spoilt |= set(world.offsets_of(batch))
    if copy is None:
        plans = [(b, plan) for b in batches for plan in ([b.plan] if b.is_committed else b.entries)]
        world.old_logs.append([(b, world.body_of(b, plan)) for b, plan in plans if isinstance(plan, Plan)])
    world.store.objects.clear()
    world.store.objects.update(copy or {})
    world.view = world.log
    known = {batch.plan.key: batch for batch in world.batches()}
    if copy is not None:
        world.unknown = {batch.plan.key for batch in batches} - known.keys()
        for batch in batches:
            if batch.is_committed and batch.plan.key in known:
                planned = {*world.offsets_of(known[batch.plan.key])}
                rows = world.sink.rows.get((batch.output or "A", batch.plan.key), [])
                world.kept |= {row for row in rows if row[:3] in planned}
        held = world.kafka.groups.get(world.group or "", {}).values()
        committed = max((key for key, batch in known.items() if batch.is_committed), default="")
        if not any(mark and mark.batch > committed for mark in map(Mark.of, held)):
            people.forget_unknown_rows(world)  # nothing refuses that the pipeline goes on
            for batch in known.values():
                if not batch.is_committed:  # its reports may be of older rows
                    people.acknowledge(world, batch.number)
        world.left = dict(world.sink.attempts)
    world.copies, world.windows_done, world.is_behind = [], set(), True
    for run in world.runs.values():
        run.acknowledges = None  # on paper: an old one would accept the lost log, too
        if run.task != "done" or world.rnd.random() < 0.2:
            run.task = "resolve"


def change_members(world: World) -> None:
    world.kafka.members["g"] = [] if world.kafka.members.get("g") else ["a consumer"]


def correct(world: World, *, moves: bool = False) -> None:
    number, output = world.job
    world.job = world.job._replace(number=number + 1, output={"A": "B", "B": "A"}[output] if moves else output)
    world.counts["moved output" if moves else "corrected"] += 1


def add_partition(world: World) -> None:
    if len(world.partitions) < 4:
        world.kafka.add_partitions("orders", 1)


def copy_log(world: World) -> None:
    world.copies.append(dict(world.store.objects))


def restore_log(world: World) -> None:
    if world.copies:
        lose_log(world, world.rnd.choice(world.copies))
