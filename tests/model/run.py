"""A world's life: what happens at each step, and its quiet end."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from airflow_kafka_offsets.engine import windows
from airflow_kafka_offsets.engine.identity import Decided
from airflow_kafka_offsets.errors import KafkaOffsetsError
from tests.model import happenings, people
from tests.model.check import check
from tests.model.deployment import Run
from tests.model.world import Kind, World

STEPS = 3000


def run_world(kind: Kind, seed: int, *themes: str) -> World:
    """One world from its beginning to its check."""
    with the_same_names(seed):
        world = World(kind, seed, themes)
        most, windows.MOST_STRETCHES = windows.MOST_STRETCHES, world.stretches
        try:
            live(world)
            end(world)
            check(world)
        except KafkaOffsetsError as error:
            world.bad.append(f"the log cannot be read: {error}"[:300])
        finally:
            windows.MOST_STRETCHES = most
            for program in world.programs:
                program.crash()
    return world


@contextmanager
def the_same_names(seed: int) -> Iterator[None]:
    """A seed is one world: what the package draws at random, and orders by, is drawn from it too."""
    drawn = random.Random(seed)
    with (
        patch("secrets.token_hex", lambda size: drawn.randbytes(size).hex()),
        patch("secrets.choice", drawn.choice),
        patch("uuid.uuid4", lambda: uuid.UUID(bytes=drawn.randbytes(16), version=4)),
    ):
        yield


def live(world: World) -> None:
    rnd = world.rnd
    events = _events(world)
    weights = [weight for weight, _ in events]
    for _ in range(STEPS):
        world.clock += rnd.random() < 0.05
        if rnd.random() < 0.15 or not world.programs:
            rnd.choices(events, weights)[0][1](world)
        elif rnd.random() < (program := rnd.choice(world.programs)).speed:
            world.step(program)


def _events(world: World) -> list[tuple[float, Callable[[World], object]]]:
    """How often each happens, and what it does."""
    here, on, is_sequence = happenings, world.on, world.kind == "sequence"
    events: list[tuple[float, Callable[[World], object]]] = [
        (50, here.produce_some),
        (60, _start),
        (8, _crash),
        (8, _zombie),
        (9 if "clears" in on else 5, _clear),
        (1.2, here.clean),
        (0.8, here.correct),
        (2.5, here.expire),
        (0.5, here.add_topic),
        (0.3, here.add_partition),
        (8 * ("transactions" in on), here.end_transaction),
        (3 * ("compaction" in on), here.compact),
        (0.6 * ("topics" in on), here.end_topic),
        (1.2 * ("truncation" in on), here.change_leader),
        (0.6 * ("outputs" in on), here.move_output),
        (0.6 * ("typos" in on), here.mistype_output),
        (0.6 * ("rolled back" in on), here.roll_back),
        (0.6 * ("environments" in on), here.deploy_copy),
        (0.6 * ("staging" in on), here.take_staging),
    ]
    if is_sequence:
        events += [
            (1 * ("resets" in on), people.reset_somehow),
            (0.6 * ("group" in on), here.move_group),
            (0.15 * ("group" in on), here.forget_group),
            (0.5 * ("members" in on), here.change_members),
            (0.5 * ("migration" in on), here.migrate),
            (0.5 * ("shards" in on), here.mistake_shards),
            (0.4 * ("big" in on), here.make_big),
            (0.6 * ("losses" in on), here.copy_log),
            (0.4 * ("losses" in on), here.lose_log),
        ]
    return events


def _start(world: World) -> None:
    waiting = [run for run in world.runs.values() if run.task != "done" and run.pipeline is world.pipeline]
    if world.kind == "sequence":
        waiting = waiting[:4] + [run for run in waiting[4:] if run.conf]
    busy = [run for run in waiting if run.task != "resolve" or run.name in world.alive]
    if not waiting:
        return
    run = world.rnd.choice(busy if busy and world.rnd.random() < 0.6 else waiting)
    if run.tries >= 40 or world.rnd.random() < 0.03:
        world.alive.discard(run.name)
    if run.tries < 40 and not _is_awaited(world, run):
        world.start(run)


def _is_awaited(world: World, run: Run) -> bool:
    return any(p.run == run.name and p.is_awaited for p in world.programs)


def _crash(world: World) -> None:
    if not world.programs:
        return
    program = world.rnd.choice(world.programs)
    world.crash(program)
    if world.rnd.random() < 0.5:
        world.alive.discard(program.run or "")
    if program.run and program.is_awaited and world.rnd.random() < 0.3:
        world.runs[program.run].task = "resolve"


def _zombie(world: World) -> None:
    """Airflow gives a task up, and its program goes on, now slowly."""
    tasks = [p for p in world.programs if p.run]
    if tasks:
        program = world.rnd.choice(tasks)
        program.is_awaited, program.speed = False, world.rnd.choice((1, 0.2, 0.02))
        if world.rnd.random() < 0.7:
            world.alive.discard(program.run or "")


def _clear(world: World) -> None:
    """All of a run, only Spark, only the commit; or Spark is marked as successful."""
    rnd = world.rnd
    task = rnd.choice(("resolve", "resolve", "spark", "commit", "mark"))
    runs = [r for r in world.runs.values() if r.task == ("spark" if task == "mark" else "done")]
    runs = [r for r in runs if r.pipeline is world.pipeline]
    if not runs:
        return
    run = rnd.choice(runs)
    if _is_awaited(world, run):
        return
    if task == "mark":
        run.task = "commit" if world.has_reports else "spark"
    elif run.tries < 40 and (task == "resolve" or run.given is not None):
        run.task = task
        world.alive.add(run.name)


# ── the quiet end ─────────────────────────────────────────────────────────────────────────────────────────────────────


def end(world: World) -> None:
    for cluster in world.clusters.values():
        cluster.members.clear()
    world.is_ending = True
    while world.open:
        happenings.end_transaction(world)
    world.run_all()
    world.acted.clear()
    world.conn, world.req_output, world.req_shards = world.true_conn, world.true_output, world.pipeline.shards
    world.clock += 5
    (_end_in_sequence if world.kind == "sequence" else _end_by_window)(world)


def _finish(world: World, run: Run) -> bool:
    """A run, or a person's behind it, until it is done."""
    for _ in range(40):
        world.alive = {run.name}
        world.start(run, is_quiet=True)
        world.run_all()
        if world.acted:
            run = world.acted.pop()
            world.acted.clear()
        elif run.task == "done":
            return True
    world.bad.append(f"stuck: run {run.name} cannot end; the last errors: {world.errors[-2:]}"[:1500])
    return False


def _end_in_sequence(world: World) -> None:
    for i in range(60):
        if i == 10:
            world.cap, world.tables.limit = None, None
        if not all(_finish(world, run) for run in world.new_run(f"f{i}")):
            return
        if _all_is_read(world):
            break
    else:
        world.bad.append(f"stuck: not all is read; the last errors: {world.errors[-2:]}"[:1500])
    for tp in world.partitions:  # one more batch looks for the rows of the last one
        happenings.produce(world, tp, world.clock)
    for i in range(12):
        if not all(_finish(world, run) for run in world.new_run(f"g{i}")) or _all_is_read(world):
            return


def _all_is_read(world: World) -> bool:
    """A reset that leaves nothing to read is not recorded by a batch."""
    position = {}
    for log in world.pipeline.logs():
        head, identity = log.head(), log.identity()
        if identity is not None and head.committed is not None and head.unfinished is None:
            position |= Decided(identity).resumed(log, head.committed).position
    ends = {tp: world.kafka.log_of(tp).high_watermark for tp in world.partitions}
    return all(tp in position and position[tp].offset == end for tp, end in ends.items())


def _end_by_window(world: World) -> None:
    for batch in [b for b in world.batches() if not b.is_committed]:
        start_ms, end_ms = batch.plan.window or (0, 0)
        world.new_run(f"f{batch.number}", window=(world.units(start_ms), world.units(end_ms)))
        if not _finish(world, world.runs[f"f{batch.number}.0"]):
            return
    windows.MOST_STRETCHES = 500
    world.clock = max(world.clock, max((world.units(b.first_plan.window[1]) for b in world.batches()), default=0))
    for i in range(40):  # what is free, so that all is read
        batches = world.batches()
        covered = world.body_of(batches[-1].first_plan).covered if batches else ()
        bounds = [(world.units(s.start_ms), world.units(s.end_ms)) for s in covered] or [(0, 0)]
        if len(bounds) == 1 and bounds[0][1] == world.clock:
            break
        window = bounds[0][1], (bounds[1][0] if len(bounds) > 1 else world.clock)
        world.new_run(f"z{i}", window=window)
        if not _finish(world, world.runs[f"z{i}.0"]):
            return
    else:
        world.bad.append(f"stuck: not all windows are planned; the last errors: {world.errors[-2:]}"[:1500])
