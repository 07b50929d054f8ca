"""A world where only a fixed schedule happens."""

from __future__ import annotations

from typing import Any

from airflow_kafka_offsets.kafka_values import TopicPartition
from tests.model import happenings
from tests.model.check import check
from tests.model.deployment import Run
from tests.model.run import end
from tests.model.stepping import Program
from tests.model.world import Kind, World

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
RETURNS, REFUNDS = TopicPartition("returns", 0), TopicPartition("refunds", 0)


class Scene:
    """A world where only the scene happens. It has read nothing yet, and each partition has five records."""

    def __init__(self, kind: Kind, *, has_reports: bool = True, fences: bool = False, shards: int = 1) -> None:
        self.world = world = World(kind, 0)
        world.on, world.has_reports, world.tables.fences = set(), has_reports, fences
        world.isolation_level, world.asks_needs_job, world.stretches = "read_uncommitted", False, 500
        world.pipeline.shards = world.req_shards = shards
        world.pipeline.start, world.has_group, world.deletes = "earliest", False, True
        world.pipeline.group, world.group_moves = None, 0
        for kafka in world.clusters.values():
            kafka.groups.clear()
        world.true_output = world.req_output = "A" if has_reports else None
        world.runs.clear()
        for tp in world.partitions:
            happenings.produce(world, tp, 1, 2, 3, 4, 5)
        world.clock = 20
        self.one, self.other, self.third = (self.run(name) for name in ("r0", "r1", "r2"))

    def run(self, name: str, shard: int = 0) -> Run:
        window = (0, 10) if self.world.kind == "window" else None
        return self.world.new_run(name, window=window)[shard]

    def act(self, shard: int = 0, after: int | None = None, **acts: Any) -> Run:
        """A run with this conf."""
        after = len(self.world.identities()) if after is None else after
        conf = {"pipeline": self.world.pipeline.name, "after": after, "reason": "why", **acts}
        self.world.people += 1
        window = (0, 10) if self.world.kind == "window" else None
        return self.world.new_run(f"act{self.world.people}", conf, window)[shard]

    def more(self, *partitions: TopicPartition) -> None:
        for tp in partitions or self.world.partitions:
            happenings.produce(self.world, tp, 6)

    def create(self, tp: TopicPartition, *times: int) -> None:
        """A topic of one partition, with a record of each time."""
        self.world.new_topic(tp.topic, 1)
        happenings.produce(self.world, tp, *times)

    def start(self, run: Run, task: str | None = None, *, half: bool = False, is_zombie: bool = False) -> Program:
        run.task = task or run.task
        self.world.alive.clear()
        self.world.chance_of_half = float(half)
        program = self.world.start(run, is_quiet=not half)
        program.is_awaited = not is_zombie
        return program

    def go(self, program: Program, verb: str = "", times: int = 1) -> Program:
        """To before a verb, or to its end."""
        for _ in range(times):
            while program in self.world.programs:
                self.world.step(program)
                if verb and program.verb.startswith(verb):
                    break
        return program

    def do(self, run: Run, *tasks: str, half: bool = False) -> Exception | None:
        """The error of the last task that ran."""
        for task in tasks or ("resolve", "spark", "commit"):
            if tasks or run.task == task or task == "resolve":
                program = self.go(self.start(run, task, half=half))
                if program.error is not None:
                    return program.error
        return None

    def expect(self, is_so: bool, sentence: str) -> None:
        if not is_so:
            self.world.bad.append(sentence)

    def rows(self, output: str = "A") -> int:
        return sum(map(len, self.world.tables.rows[output].values()))

    def finish(self) -> list[str]:
        self.world.acted.clear()
        end(self.world)
        check(self.world)
        return self.world.bad

    def folder(self) -> str:
        """Of the first batch."""
        return self.world.pipeline.logs()[0].folder(1)

    def with_group(self) -> None:
        self.world.pipeline.group, self.world.has_group = "g", True
