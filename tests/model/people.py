"""What people do to a pipeline: as refusals say, and by themselves."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.engine import by_hand
from airflow_kafka_offsets.engine.group import Mark
from airflow_kafka_offsets.engine.look import Look
from airflow_kafka_offsets.errors import CheckpointBehindGroup, CheckpointLost, GroupMoved, ResetRefused
from airflow_kafka_offsets.kafka_values import Actor, CommittedOffset, OffsetRange, TopicPartition
from airflow_kafka_offsets.offsets import GroupStart, OffsetsStart
from tests.model.stepping import FAR

if TYPE_CHECKING:
    from tests.model.world import Run, World

_OFFSET = re.compile(r"orders-([0-9]+): rows with offset ([0-9]+) ")


def a_person(world: World) -> Actor:
    world.people += 1
    return Actor(person=f"person {world.people}")


def obey(world: World, error: Exception | None, run: Run) -> None:
    """A person does what a refusal says."""
    match error:
        case CheckpointLost() if "group-offsets" in error.remedy:
            world.person(partial(go_on_from_group, world))
        case CheckpointLost() if "acknowledge" in error.remedy:
            accept_unknown_rows(world)
            run.acknowledges = f"lost {world.people}"
        case CheckpointBehindGroup() | GroupMoved():
            acknowledge_somehow(world, run)


def acknowledge_somehow(world: World, run: Run) -> None:
    if world.rnd.random() < 0.4:
        world.people += 1
        run.acknowledges = f"why {world.people}"
        if run.task == "spark":
            run.task = "resolve"
    elif world.kind == "sequence":
        world.person(partial(acknowledge, world, None))
    elif run.given is not None:
        world.person(partial(acknowledge, world, run.given.batch))


def acknowledge(world: World, number: int | None) -> None:
    """``reset --start current``, by window with ``--window``."""
    who, log = a_person(world), world.log
    while True:
        look = Look(world.request(), world.kafka)
        _ = look.group
        batch = log.newest() if number is None else log.batch(number)
        if batch is None or by_hand.acknowledge(look, log, batch, who):
            world.counts["acknowledged"] += batch is not None
            return


def reset(world: World, start: Any) -> None:
    some = frozenset(tp for tp in world.partitions[1:] if world.rnd.random() < 0.15)
    want = world.request(start=start, exclude=some)
    held = world.kafka.groups.get(world.group or "", {}).values()
    if world.old_logs and world.view.newest() is None and not any(map(Mark.of, held)):
        accept_unknown_rows(world)  # nothing but Airflow knows that there was a log
    moved = by_hand.reset(want, a_person(world), world.log, world.kafka, allow_duplicates=True)
    world.counts["reset"] += 1
    batch = world.view.batch(moved.batch)
    if batch is not None and batch.plan.kind != "reset":  # it was planned again, whatever an older log knew of it
        world.kept.clear()


def go_on_from_group(world: World) -> None:
    """After a lost log: delete the rows that the refusal names, or allow that they are there twice."""
    assert world.group is not None
    want, who = world.request(start=GroupStart(world.group, "earliest"), otherwise="earliest"), a_person(world)
    try:
        by_hand.reset(want, who, world.log, world.kafka)
    except ResetRefused as refusal:
        named = {int(m[1]): int(m[2]) for line in refusal.partitions if (m := _OFFSET.match(line))}
        if not named:
            raise
        topic_id = world.kafka.topics["orders"].topic_id
        held = world.kafka.groups.get(world.group, {})
        unknown = {p for p in named if Mark.of(held.get(TopicPartition("orders", p), CommittedOffset(0))) is None}
        world.spoilt |= {r[:3] for r in world.records if r[0] != topic_id or r[1] in unknown}
        forget_rows(world, lambda _, row: row[0] == topic_id and row[2] >= named.get(row[1], FAR))
        by_hand.reset(want, who, world.log, world.kafka, allow_duplicates=True)
        world.counts["went on from the group"] += 1


def accept_unknown_rows(world: World) -> None:
    """A log is lost, and nothing says where it was: all rows are deleted, or may be there twice."""
    world.counts["started anew"] += 1
    world.spoilt |= {r[:3] for r in world.records}
    forget_rows(world, lambda _, row: True)


def forget_rows(world: World, are: Callable[[str, Any], bool]) -> None:
    """Rows that the log does not know: half of the people delete them, the others allow them."""
    deletes = world.rnd.random() < 0.5
    for at, rows in world.sink.rows.items():
        forgotten = [row for row in rows if are(at[1], row)]
        if deletes:
            world.sink.rows[at] = [row for row in rows if row not in forgotten]
            world.kept -= {*forgotten}
        else:
            world.twice.update(forgotten)


def forget_unknown_rows(world: World) -> None:
    """Those that an older log does not know; a person does that who acknowledges the log."""
    unknown, world.unknown = world.unknown, set()
    forget_rows(world, lambda key, _: key in unknown)


def skip(world: World) -> None:
    batches = [b for b in world.batches() if not b.is_committed and not b.is_cleaned]
    ranges = [(tp, r) for b in batches[-3:] for tp, r in world.log.body(b).ranges.items() if r.end > r.start]
    if ranges:
        tp, planned = world.rnd.choice(ranges)
        offset = world.rnd.randrange(planned.start, planned.end)
        world.person(partial(skip_record, world, tp, OffsetRange(offset, offset + 1)))


def skip_record(world: World, tp: TopicPartition, skipped: OffsetRange) -> None:
    by_hand.skip(world.request(), a_person(world), world.log, world.kafka, tp, skipped)
    world.counts["skip"] += 1


def acknowledge_some(world: World) -> None:
    numbers = [batch.number for batch in world.batches() if not batch.is_cleaned]
    if numbers:
        world.person(partial(acknowledge, world, world.rnd.choice(numbers)))


def reset_somehow(world: World) -> None:
    where = world.rnd.choice(("current", "current", "latest", "earliest", "back"))
    if where == "current":
        world.person(partial(acknowledge, world, None))
    elif where == "back":
        back = {tp: max(0, world.high_watermark(tp) - world.rnd.randint(0, 6)) for tp in world.partitions}
        world.person(partial(reset, world, OffsetsStart(back, None, "earliest")))
    else:
        world.person(partial(reset, world, where))
