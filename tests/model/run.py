"""A world's life: what happens at each step, and its quiet end."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.plan import window
from tests.model import happenings, people
from tests.model.check import check
from tests.model.world import Kind, Run, World

STEPS = 3000
THEMES: dict[str, tuple[str, ...]] = {
    "anything": (),
    "lost logs": ("lose", "copy", "restore"),
    "outputs": ("move the output", "correct the job", "clear", "acknowledge"),
    "topics": ("change a topic", "skip"),
    "old records": ("expire", "clean", "clear", "add a partition"),
    "people": ("reset", "skip", "acknowledge", "move the group", "members"),
    "zombies": ("crash", "zombie", "clear"),
}
"""In each world, some events come more often than in others."""


def run_world(kind: Kind, seed: int, theme: str | None = None) -> World:
    """One world from its beginning to its check."""
    with _the_same_names(seed):
        world = World(kind, seed, theme or list(THEMES)[seed % len(THEMES)])
        most, window.MOST_STRETCHES = window.MOST_STRETCHES, world.stretches
        try:
            live(world)
            end(world)
            check(world)
        except KafkaOffsetsError as error:
            world.bad.append(f"the log cannot be read: {error}"[:300])
        finally:
            window.MOST_STRETCHES = most
            for program in world.programs:
                program.crash()
    return world


@contextmanager
def _the_same_names(seed: int) -> Iterator[None]:
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
    names = list(events)
    weights = [weight * (4 if name in THEMES[world.theme] else 1) for name, (weight, _) in events.items()]
    for _ in range(STEPS):
        world.clock += rnd.random() < 0.04
        if rnd.random() < 0.15 or not world.programs:
            events[rnd.choices(names, weights)[0]][1](world)
        elif rnd.random() < (program := rnd.choice(world.programs)).speed:
            world.step(program)


def _events(world: World) -> dict[str, tuple[float, Callable[..., object]]]:
    """By name: how often it happens, and what it does."""
    here, by = happenings, people
    events: dict[str, tuple[float, Callable[..., object]]] = {
        "produce": (40, here.produce_some),
        "start": (60, _start),
        "crash": (6, _crash),
        "zombie": (7, _zombie),
        "clear": (9, _clear),
        "skip": (1, by.skip),
        "clean": (2, here.clean),
        "correct the job": (1, here.correct),
        "expire": (1.5, here.expire),
        "add a partition": (0.3, here.add_partition),
        "copy": (0.5, here.copy_log),
        "restore": (0.2, here.restore_log),
        "move the output": (0.5 * world.has_reports, partial(here.correct, moves=True)),
        "change a topic": (1.5 * world.changes_topics, here.change_topic),
        "compact": (3 * world.compacts, here.compact),
    }
    if world.kind == "window":
        return events | {"acknowledge": (0.6, by.acknowledge_some), "lose": (0.08, here.lose_log)}
    if world.group is not None:
        events |= {"members": (1, here.change_members), "move the group": (0.4, here.move_group)}
        events |= {"expire the group": (0.08, here.forget_group)}
    return events | {"reset": (0.9, by.reset_somehow), "lose": (0.2, here.lose_log)}


def _start(world: World) -> None:
    waiting = [run for run in world.runs.values() if run.task != "done"]
    if world.kind == "sequence":
        waiting = waiting[:4]
    if waiting:
        run = world.rnd.choice(waiting)
        if run.tries < 30 and not _is_awaited(world, run):
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
    if not runs:
        return
    run = rnd.choice(runs)
    if _is_awaited(world, run):
        return
    if task == "mark":
        run.task = "commit" if world.has_reports else "spark"
    elif run.tries < 30 and (task == "resolve" or run.given is not None):
        run.task = task
        world.alive.add(run.name)


# ── the quiet end ─────────────────────────────────────────────────────────────────────────────────────────────────────


def end(world: World) -> None:
    world.kafka.members.clear()
    world.is_ending = True
    world.run_all()
    world.clock += 5
    (_end_in_sequence if world.kind == "sequence" else _end_by_window)(world)


def _finish(world: World, run: Run) -> bool:
    world.runs[run.name] = run
    for _ in range(15):
        world.alive = {run.name}
        world.start(run, is_quiet=True)
        world.run_all()
        if run.task == "done":
            return True
    world.bad.append(f"stuck: run {run.name} cannot end; the last errors: {world.errors[-2:]}"[:900])
    return False


def _end_in_sequence(world: World) -> None:
    finished, i = True, 0
    while i < 40 and (finished or i < 3):
        finished, i = _finish(world, Run(f"f{i}", None)), i + 1
        batches = world.batches()
        position = world.view.position_after(batches[-1]) if batches and batches[-1].is_committed else {}
        topic_id = world.kafka.topics["orders"].topic_id
        if all((at := position.get(tp)) and at[::2] == (world.high_watermark(tp), topic_id) for tp in world.partitions):
            return
    world.bad.append(f"stuck: not all is read; the last errors: {world.errors[-2:]}"[:900])


def _end_by_window(world: World) -> None:
    for batch in world.batches():
        if not batch.is_committed:
            start_ms, end_ms = batch.plan.window
            _finish(world, Run(f"f{batch.number}", (world.units(start_ms), world.units(end_ms))))
    batches = world.batches()
    covered = world.body_of(batches[-1], batches[-1].first_plan).covered if batches else ()
    start = world.units(covered[-1].end_ms) if covered else 0
    if start >= world.clock:
        return
    _finish(world, Run("z", (start, world.clock)))
    batches = world.batches()
    if not batches or world.units(batches[-1].first_plan.window[1]) != world.clock:
        world.bad.append(f"stuck: the last window was not planned; the last errors: {world.errors[-2:]}"[:900])
        return
    ranges = world.body_of(batches[-1], batches[-1].first_plan).ranges
    if any(tp not in ranges or ranges[tp].end < world.high_watermark(tp) for tp in world.partitions):
        world.bad.append("records wait behind one of the future")
