"""What the world sees the engine do, object by object: what begins where, what is given up, who writes the group."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.engine.marks import mark_of
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.log.entries import Plan, entry_from_dict
from airflow_kafka_offsets.log.identity import Identity, identity_body_from_dict, identity_from_dict
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.offsets import GroupOffsets
from airflow_kafka_offsets.plan.body import Offsets
from airflow_kafka_offsets.store.objects import decode
from tests.model.stepping import Program, program

if TYPE_CHECKING:
    from tests.model.world import World

_IDENTITY = re.compile(r"[^/]+/pipeline/([0-9]+)\.json")
_ENTRY = re.compile(r"(.*)/batches/[0-9]{8}/[0-9]{10}/([0-9]+)\.json")


def created(world: World, name: str, data: bytes) -> None:
    """The store has a new object."""
    if match := _IDENTITY.fullmatch(name):
        _identity_created(world, int(match[1]), identity_from_dict(decode(data)))
    elif _ENTRY.fullmatch(name):
        entry = entry_from_dict(decode(data))
        if isinstance(entry, Plan):
            _plan_created(world, entry, is_first=name.endswith("/1.json"))
        else:
            plans = [e for e in map(partial(_entry, world), _entries(world, name)) if isinstance(e, Plan)]
            world.committed_keys.add(plans[-1].key)


def _entries(world: World, name: str) -> list[str]:
    folder, _, last = name.rpartition("/")
    return [f"{folder}/{k}.json" for k in range(1, int(last.removesuffix(".json")))]


def _entry(world: World, name: str) -> Any:
    return entry_from_dict(decode(world.pipeline.store.objects[name]))


def _identity_created(world: World, number: int, identity: Identity) -> None:
    me = program()
    world.counts["acts" if identity.act else "identities without an act"] += number > 1
    folder = f"{identity.pipeline}/pipeline"
    body = identity_body_from_dict(decode(world.pipeline.store.bodies[f"{folder}/{identity.ranges.name}"]))
    world.named |= set(body.group.items())
    if number == 1:
        for tp, at in body.first.items():
            _begins(world, tp, world.origins[str(at.topic_id)], at.offset, me)
        return
    if world.kind == "window":
        return
    before, positions = world.identities()[-2], world.position()
    for tp, start in body.starts.items():
        origin = world.origins.get(str(start.topic_id), "")
        at = positions.get(tp)
        if start.identity == number and (at is None or world.origins.get(str(at.topic_id)) != origin):
            _excuse(world, origin, tp, start.offset)  # no batch has read it: the start is the record
    if (before.cluster_id, identity.cluster_id) == ("X", "Y"):
        world.known = {(world.origins.get(str(at.topic_id), ""), tp) for tp, at in positions.items()}
        # A topic that was re-created, or its log truncated, on the old cluster, and no run has seen it there: nobody
        # can tell (AKO-105: run once before the migration).
        for tp, at in positions.items():
            origin, now = world.origins.get(str(at.topic_id)), world.origin(tp)
            if origin != now and not before.is_ended(at):
                world.unfair |= {str(origin), str(now)}
            if at.leader_epoch is not None:
                newer = (row for row in world.records if row[:2] == (origin, tp) and row.epoch > at.leader_epoch)
                world.spoilt |= {row.place for row in newer if row.offset < at.offset}


def _begins(world: World, tp: TopicPartition, origin: str, offset: int, me: Program | None) -> None:
    """The first identity says where a partition begins: is that what was asked for?"""
    at, start = (origin, tp), world.pipeline.start
    if world.losses or world.pipeline is not world.pipelines[0]:
        held = world.kafka.groups.get("g", {}).get(tp)
        mark = None if held is None else mark_of(held.metadata)
        if mark is None or world.origins.get(str(mark.topic)) != origin:
            _excuse(world, origin, tp, offset)  # nothing says how far the lost log was
    elif me is not None and world.origin(tp) == origin and tp in me.began and tp not in world.truncated:
        low, stable, high, held = me.began[tp]
        now = world.kafka.log_of(tp)
        if isinstance(start, GroupOffsets) and held is not None:
            expected = {held.offset} | ({c.offset} if (c := world.kafka.groups.get("g", {}).get(tp)) else set())
            is_right = offset in expected or world.group_moves
        elif start == "latest":
            is_right = (stable if world.isolation_level == "read_committed" else high) <= offset <= now.high_watermark
        else:
            is_right = low <= offset <= now.log_start_offset
        if not is_right:
            world.bad.append(f"{tp} begins at {offset}, by start={start}, and was {me.began[tp]}")
        world.before_first[at] = offset
    world.started[at] = min(offset, world.started.get(at, offset))
    world.known.add(at)


def _plan_created(world: World, plan: Plan, *, is_first: bool) -> None:
    body, me = world.body_of(plan), program()
    neighbour = _cut_before(world, plan)
    for tp, at in body.resume_from.items():
        origin = world.origins.get(str(at.topic_id))
        if is_first and origin is not None and neighbour is not None and tp not in neighbour:
            _excuse(world, origin, tp, at.offset)  # what a cut lacks begins with its log
        if origin is None or (origin, tp) in world.known or world.kind == "window":
            continue
        world.known.add((origin, tp))
        is_late = at.offset > world.kafka.log_of(tp).log_start_offset and world.origin(tp) == origin
        if is_late and tp not in world.starts() and origin not in world.unfair:
            world.bad.append(f"{plan.key}: the new partition {tp} begins at {at.offset}")
        world.started[origin, tp] = at.offset
        _excuse(world, origin, tp, at.offset)  # a new partition begins with its log
    cuts = [cut for s in body.covered for cut in (s.start_cut, s.end_cut)]
    world.known |= {(world.origins.get(str(at.topic_id), ""), tp) for cut in cuts for tp, at in cut.items()}
    for d in body.decisions:
        at = body.resume_from.get(d.partition)
        origin = None if at is None else world.origins.get(str(at.topic_id))
        if (
            d.kind == "lost"
            and not d.by.startswith("the topic ended")
            and origin == world.origin(d.partition) is not None
        ):
            log = world.kafka.log_of(d.partition)
            if d.partition not in world.truncated and (d.end or 0) > log.log_start_offset:
                world.bad.append(f"{plan.key} gives up {d}, and the log starts at {log.log_start_offset}")
    if is_first and plan.window is not None and me is not None:
        start = world.units(plan.window[0])
        for row, time in world.records.items():
            log_start, first_ms = me.log_starts.get(row.partition, (0, None))
            is_older = first_ms is not None and first_ms < plan.window[0]
            if is_older and start <= time and row.offset < log_start and world.origin(row.partition) == row[0]:
                world.spoilt.add(row.place)  # behind an older record: nobody can tell
                world.counts["gone unnoticed"] += 1


def _excuse(world: World, origin: str, tp: TopicPartition, before: int) -> None:
    world.spoilt |= {row.place for row in world.records if row[:2] == (origin, tp) and row.offset < before}


def _cut_before(world: World, plan: Plan) -> Offsets | None:
    """The end of the stretch that the window joins."""
    if plan.window is None or plan.number == 1:
        return None
    store, log = world.pipeline.store, PipelineLog(world.pipeline.store.view, plan.pipeline)
    first = entry_from_dict(decode(store.objects[f"{log.folder(plan.number - 1)}/1.json"]))
    assert isinstance(first, Plan)
    ended = world.identities()[plan.identity - 1].ended
    cuts = [s.end_cut for s in world.body_of(first).covered if s.end_ms == plan.window[0]]
    return {tp: at for tp, at in cuts[0].items() if at.topic_id not in ended} if cuts else None


def group_written(world: World, tp: TopicPartition, new: CommittedOffset) -> None:
    mark, held, me = mark_of(new.metadata), world.kafka.groups.get("g", {}).get(tp), program()
    if mark is not None and mark.batch not in world.committed_keys:
        world.bad.append("the group is ahead of the log")
    if held is None or me is None or held.offset == new.offset or mark_of(held.metadata) is not None:
        return
    if me.group.get(tp) == held and (tp, held.offset) not in world.named:
        world.bad.append(f"the group's offset {held.offset} of {tp} was overwritten, and nobody named it")
