"""Fixed schedules for what no random world of a few hundred shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from airflow_kafka_offsets.errors import CheckpointLost
from airflow_kafka_offsets.kafka_values import CommittedOffset, OffsetRange, TopicPartition
from tests.model import happenings, people
from tests.model.check import check
from tests.model.run import end
from tests.model.stepping import Program
from tests.model.world import Kind, Run, World

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Scene:
    """A world where only the scene happens."""

    def __init__(self, kind: Kind, *, has_reports: bool = True, fences: bool = False) -> None:
        self.world = World(kind, 0, "anything")
        self.world.has_reports, self.world.sink.fences = has_reports, fences
        self.world.group = "g" if kind == "sequence" else None
        self.world.start_at, self.world.asks_needs_job, self.world.stretches = "earliest", False, 500
        happenings.produce(self.world, 0, 1, 2, 3, 4, 5)
        self.world.clock = 20
        self.one, self.other = (self._run(name) for name in ("r0", "r1"))

    def _run(self, name: str) -> Run:
        run = self.world.runs[name]
        if run.window is not None:
            run.window = (0, 10)
        return run

    def start(self, run: Run, task: str | None = None, *, half: bool = False) -> Program:
        run.task = task or run.task
        self.world.alive.clear()
        self.world.chance_of_half = float(half)
        return self.world.start(run, is_quiet=not half)

    def go(self, program: Program, verb: str = "") -> None:
        """To before a verb, or to its end."""
        while program in self.world.programs and not (verb and program.verb.startswith(verb)):
            self.world.step(program)

    def do(self, run: Run, *tasks: str, half: bool = False) -> None:
        for task in tasks or ("resolve", "spark", "commit"):
            self.go(self.start(run, task, half=half))

    def person(self, call: Callable[[], object]) -> None:
        self.world.person(call)
        self.go(self.world.programs[-1])

    def finish(self) -> list[str]:
        end(self.world)
        check(self.world)
        return self.world.bad


def mirror_is_overtaken(s: Scene) -> None:
    s.do(s.one, "resolve", "spark")
    slow = s.start(s.one)
    s.go(slow, "commit offsets")
    happenings.produce(s.world, 0, 6)
    s.do(s.other)
    s.go(slow)


def plan_is_replaced_under_a_job_without_report(s: Scene) -> None:
    s.do(s.one, "resolve", "spark")
    s.world.kafka.delete_records(FIRST, 3)
    s.do(s.other, "resolve")
    s.do(s.one, "commit")


def driver_of_an_earlier_job_is_late(s: Scene) -> None:
    s.do(s.one, "resolve")
    late = s.start(s.one)
    late.is_awaited = False
    s.go(late, "list")
    s.world.job = s.world.job._replace(number=1)
    s.do(s.one, "resolve", "spark")
    s.go(late)
    s.do(s.one, "commit")


def cleared_run_writes_again(s: Scene) -> None:
    if s.one.task != "done":
        s.do(s.one)
    s.do(s.one)
    if s.one.task != "done":
        s.world.bad.append("a cleared run cannot write its batch again")


def driver_begins_after_the_commit(s: Scene) -> None:
    s.do(s.one, "resolve")
    late = s.start(s.one, half=True)
    late.is_awaited = False
    s.go(late, "list")
    s.do(s.one, "spark", "commit")
    s.go(late)


def driver_begins_beside_the_commit(s: Scene) -> None:
    s.do(s.one, "resolve", "spark")
    slow = s.start(s.one)
    s.go(slow, f"create {s.world.log.folder(1)}/2.json")
    late = s.start(s.one, "spark", half=True)
    late.is_awaited = False
    s.go(late, "swap")
    s.one.task = "commit"
    s.go(slow)
    s.go(late)


def batch_that_does_not_verify_expires(s: Scene) -> None:
    driver_begins_beside_the_commit(s)
    s.world.kafka.delete_records(FIRST, 5)
    s.do(s.one, "resolve")


def driver_is_overtaken_by_a_shorter_plan(s: Scene) -> None:
    s.do(s.one, "resolve")
    late = s.start(s.one)
    late.is_awaited = False
    s.go(late, "swap")
    s.world.kafka.delete_records(FIRST, 3)
    s.do(s.one)
    s.go(late)


def log_is_lost_and_a_person_resets(s: Scene) -> None:
    s.do(s.one)
    happenings.lose_log(s.world)
    s.person(partial(people.reset, s.world, "earliest"))


def log_is_lost_behind_the_output(s: Scene) -> None:
    s.do(s.one)
    happenings.produce(s.world, 0, 6)
    s.do(s.other, "resolve", "spark")
    happenings.lose_log(s.world)
    people.obey(s.world, CheckpointLost("", "", "kafka-offsets reset orders --start group-offsets"), s.one)
    s.go(s.world.programs[-1])


def log_is_an_older_copy(s: Scene) -> None:
    s.do(s.one, "resolve")
    killed = s.start(s.one)
    s.go(killed, "swap")
    s.world.crash(killed)
    copy = dict(s.world.store.objects)
    s.do(s.one, "spark", "commit")
    happenings.lose_log(s.world, copy)
    s.person(partial(people.go_on_from_group, s.world))


def skipped_record_is_of_a_topic_that_is_no_more(s: Scene) -> None:
    s.do(s.one, "resolve")
    s.person(partial(people.skip_record, s.world, FIRST, OffsetRange(1, 2)))
    happenings.recreate_topic(s.world)
    happenings.produce(s.world, 0, 6, 7, 8)


def log_is_cut_behind_the_driver(s: Scene) -> None:
    s.do(s.one, "resolve", "spark")
    happenings.cut_log(s.world, FIRST, 3)
    happenings.produce(s.world, 0, 6, 7, 8)
    s.do(s.one, "commit")


def topic_is_recreated_before_a_person_acknowledges(s: Scene) -> None:
    s.do(s.one)
    happenings.recreate_topic(s.world)
    happenings.produce(s.world, 0, 6, 7, 8)
    s.person(partial(people.acknowledge, s.world, None))


def log_is_lost(s: Scene) -> None:
    s.do(s.one)
    happenings.lose_log(s.world)


def log_is_older_than_the_group(s: Scene) -> None:
    s.do(s.one)
    copy = dict(s.world.store.objects)
    happenings.produce(s.world, 0, 6)
    s.do(s.other)
    happenings.lose_log(s.world, copy)


def job_is_corrected_before_the_commit(s: Scene) -> None:
    s.do(s.one, "resolve", "spark")
    s.world.job = s.world.job._replace(number=1)
    s.do(s.one)


def output_moves_before_a_clear(s: Scene) -> None:
    s.do(s.one)
    s.world.job = s.world.job._replace(number=1, output="B")
    s.do(s.one)


def person_acknowledges_after_the_report(s: Scene) -> None:
    s.do(s.one, "resolve", "spark")
    s.person(partial(people.acknowledge, s.world, 1))
    s.do(s.one, "commit")


def report_is_of_an_older_copy(s: Scene) -> None:
    s.do(s.one, "resolve", "spark")
    copy = dict(s.world.store.objects)
    s.person(partial(people.skip_record, s.world, FIRST, OffsetRange(1, 2)))
    s.do(s.other)
    happenings.lose_log(s.world, copy)
    s.do(s.one, "commit")


def group_is_below_the_log_start(s: Scene) -> None:
    s.do(s.one)
    happenings.produce(s.world, 0, 6, 7)
    s.world.kafka.delete_records(FIRST, 7)
    happenings.lose_log(s.world)


def two_first_runs_at_once(s: Scene) -> None:
    s.other.window = (10, 20)
    slow = s.start(s.other)
    s.go(slow, "list")
    s.world.step(slow)  # it has seen that there is no batch
    s.do(s.one)
    s.go(slow)
    if "CheckpointLost" in s.world.counts:
        s.world.bad.append("a first run beside another one takes the log for lost")


def group_was_moved_and_acknowledged_before_a_clear(s: Scene) -> None:
    s.do(s.one)
    happenings.produce(s.world, 0, 6)
    s.do(s.other, "resolve")
    s.world.kafka.commit_as_somebody_else("g", {FIRST: CommittedOffset(2)})
    s.person(partial(people.acknowledge, s.world, None))
    cleared_run_writes_again(s)


def topic_is_recreated_between_windows(s: Scene) -> None:
    s.do(s.one)
    happenings.recreate_topic(s.world)
    happenings.produce(s.world, 0, 12, 13, 14)
    s.other.window = (10, 20)
    s.do(s.other, "resolve")
    s.person(partial(people.skip_record, s.world, FIRST, OffsetRange(1, 2)))
    if all(d.end is not None for d in s.world.body_of(s.world.batches()[-1]).decisions):
        s.world.bad.append("the records of the former topic are forgotten")


def output_moves(s: Scene) -> None:
    s.do(s.one)
    happenings.produce(s.world, 0, 6)
    s.world.job = s.world.job._replace(number=1, output="B")
    s.do(s.other, "resolve", "spark")
    s.person(partial(people.acknowledge, s.world, None))
    s.do(s.other)


_BOTH = (
    driver_of_an_earlier_job_is_late,
    cleared_run_writes_again,
    driver_begins_after_the_commit,
    driver_begins_beside_the_commit,
    batch_that_does_not_verify_expires,
    driver_is_overtaken_by_a_shorter_plan,
    plan_is_replaced_under_a_job_without_report,
    job_is_corrected_before_the_commit,
    output_moves_before_a_clear,
    person_acknowledges_after_the_report,
    skipped_record_is_of_a_topic_that_is_no_more,
    log_is_cut_behind_the_driver,
)
_IN_SEQUENCE = (
    mirror_is_overtaken,
    log_is_lost,
    log_is_lost_and_a_person_resets,
    log_is_lost_behind_the_output,
    log_is_an_older_copy,
    log_is_older_than_the_group,
    topic_is_recreated_before_a_person_acknowledges,
    report_is_of_an_older_copy,
    group_is_below_the_log_start,
    group_was_moved_and_acknowledged_before_a_clear,
)
SCENES = [(scene, kind) for scene in _BOTH for kind in ("sequence", "window")]
SCENES += [(scene, "sequence") for scene in _IN_SEQUENCE]
SCENES += [(scene, "window") for scene in (two_first_runs_at_once, topic_is_recreated_between_windows)]


def play(scene: Callable[[Scene], None], kind: Kind) -> list[str]:
    """What is wrong after it."""
    has_reports = scene is not plan_is_replaced_under_a_job_without_report
    stage = Scene(kind, has_reports=has_reports, fences=scene is driver_is_overtaken_by_a_shorter_plan)
    scene(stage)
    return stage.finish()
