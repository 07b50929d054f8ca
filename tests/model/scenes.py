"""Fixed schedules for rules that random worlds seldom need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_kafka_offsets.errors import PipelineDiffers
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from tests.model import happenings, people
from tests.model.check import check
from tests.model.run import end, the_same_names
from tests.model.stepping import Program
from tests.model.world import Kind, Pipeline, Run, World

FIRST, SECOND, RETURNS = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("returns", 0)


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


# ── drivers, reports and commits ──────────────────────────────────────────────────────────────────────────────────────


def plan_is_replaced_under_a_job_without_report(s: Scene) -> None:
    s.do(s.one, "resolve", "spark")
    s.world.kafka.delete_records(FIRST, 3)
    s.do(s.other, "resolve")
    s.do(s.one, "commit")


def driver_begins_beside_the_commit(s: Scene) -> None:
    s.do(s.one, "resolve", "spark")
    slow = s.go(s.start(s.one), f"create {_folder(s)}/2.json")
    late = s.go(s.start(s.one, "spark", half=True, is_zombie=True), "swap")
    s.one.task = "commit"
    s.go(slow)
    s.go(late)
    s.expect(slow.error is not None, "a commit beside a driver that has begun is green")


def _folder(s: Scene) -> str:
    return s.world.pipeline.logs()[0].folder(1)


def rewrite_that_writes_nothing(s: Scene) -> None:
    s.do(s.one)
    s.expect(s.do(s.one, "resolve", "commit") is not None, "a run that was to write again and did not is green")


def driver_of_an_earlier_job_is_late(s: Scene) -> None:
    s.do(s.one, "resolve")
    late = s.go(s.start(s.one, is_zombie=True), "list")
    s.world.job_number = 1
    s.do(s.one, "resolve", "spark")
    s.go(late)
    s.do(s.one, "commit")


def driver_begins_after_the_commit(s: Scene) -> None:
    s.do(s.one, "resolve")
    late = s.go(s.start(s.one, half=True, is_zombie=True), "list")
    s.do(s.one, "spark", "commit")
    s.go(late)


def driver_is_overtaken_by_another_plan(s: Scene) -> None:
    s.do(s.one, "resolve")
    late = s.go(s.start(s.one, is_zombie=True), "swap")
    s.world.kafka.delete_records(FIRST, 3)
    s.do(s.other)
    s.go(late)


def topic_is_recreated_before_the_read(s: Scene) -> None:
    s.do(s.one, "resolve")
    happenings.delete_topic(s.world, "returns")
    s.world.new_topic("returns", 1)
    happenings.produce(s.world, RETURNS, 1, 2, 3, 4, 5, 6)
    s.do(s.one, "spark", "commit")


def topic_is_recreated_before_a_rewrite_reads(s: Scene) -> None:
    s.do(s.one)
    s.do(s.one, "resolve")
    happenings.delete_topic(s.world, "returns")
    s.world.new_topic("returns", 1)
    happenings.produce(s.world, RETURNS, 1, 2, 3, 4, 5, 6)
    errors = s.do(s.one, "spark", "commit"), s.do(s.one)
    s.expect(None not in errors, f"a rewrite that has read another topic is green: {errors}")


def log_is_truncated_behind_the_driver(s: Scene) -> None:
    s.do(s.one, "resolve", "spark")
    happenings.truncate(s.world, FIRST, 3)
    happenings.produce(s.world, FIRST, 6, 7, 8)
    s.do(s.one, "commit")


def job_is_corrected_before_the_commit(s: Scene) -> None:
    s.do(s.one, "resolve", "spark")
    s.world.job_number = 1
    s.do(s.one)


def batch_that_does_not_verify_expires(s: Scene) -> None:
    driver_begins_beside_the_commit(s)
    s.world.kafka.delete_records(FIRST, 5)
    s.expect(s.do(s.one, "resolve") is not None, "a batch that does not verify is left, green")


def verified_batch_expires(s: Scene) -> None:
    s.do(s.one, "resolve", "spark")
    s.world.kafka.delete_records(FIRST, 5)
    s.do(s.other)
    s.expect(s.rows() == 15, "records that were in the table are given up")


def cleaned_planner_wakes_up(s: Scene) -> None:
    s.do(s.one)
    s.more()
    late = s.go(s.start(s.third, is_zombie=True), "create")
    late.is_awaited = True
    for i in range(5):
        s.more()
        s.do(s.run(f"a{i}"))
        happenings.clean(s.world)
        s.go(s.world.programs[-1])
    s.go(late)
    if s.third.task == "spark":
        s.do(s.third, "spark", "commit")


def two_first_runs(s: Scene) -> None:
    """One has seen that there is no identity, when another one creates it and a batch."""
    slow = s.go(s.start(s.other), "list orders/pipeline")
    s.world.step(slow)
    s.do(s.one)
    s.go(slow)


def act_names_all_that_differs(s: Scene) -> None:
    """Cluster and output have moved; each refusal's conf is carried out as printed."""
    s.do(s.one)
    happenings.migrate(s.world)
    s.world.true_output = s.world.req_output = "B"
    error = s.do(s.other)
    for _ in range(3):
        confs = people.printed(error)
        if not confs:
            break
        run = s.act()
        run.conf = confs[0]
        error = s.do(run)
    s.expect(error is None, f"the printed confs lead nowhere: {error}")


# ── acts ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def act_is_clicked_twice_and_cleared(s: Scene) -> None:
    s.do(s.one)
    reset = {"start": "earliest", "allow_duplicates": True}
    first, second = s.act(reset=reset), s.act(reset=reset)
    s.do(first)
    s.expect(s.do(second) is not None, "the second click is green")
    s.do(first)
    s.expect(s.rows() == 30, f"{s.rows()} rows after one reset of 15 records")


def act_names_the_output_in_staging(s: Scene) -> None:
    s.do(s.one)
    happenings.produce(s.world, FIRST, 6)
    staging = s.world.clusters["Z"]
    for tp in (FIRST, SECOND, RETURNS):
        for time in range(9):
            happenings._append(s.world, staging, tp, time, None)
    s.world.req_output, s.world.conn = "B", "Z"
    s.do(s.act(acknowledge={"output": "B"}))
    s.world.true_output = "B"


def output_is_acknowledged_before_the_commit(s: Scene) -> None:
    s.do(s.one, "resolve", "spark")
    s.world.true_output = s.world.req_output = "B"
    act = s.act(acknowledge={"output": "B"})
    program = s.start(act)
    while len(s.world.identities()) < 2:
        s.world.step(program)
    s.world.crash(program)
    s.do(s.one, "commit")
    s.expect(not any(b.is_committed for b in s.world.batches()), "a batch is committed into an output that is left")


def output_is_acknowledged_beside_the_commit(s: Scene) -> None:
    s.do(s.one, "resolve", "spark")
    slow = s.go(s.start(s.one), f"create {_folder(s)}/2.json")
    s.world.true_output = s.world.req_output = "B"
    program = s.start(s.act(acknowledge={"output": "B"}))
    while len(s.world.identities()) < 2:
        s.world.step(program)
    s.world.crash(program)
    s.one.task = "commit"
    s.go(slow)
    s.expect(slow.error is not None, "a commit into an output that was left meanwhile is green")


def batch_is_committed_beside_a_reset(s: Scene) -> None:
    """A start does not move back what was read since it was set."""
    s.do(s.one)
    s.more(FIRST)
    s.do(s.other, "resolve", "spark")
    program = s.start(s.act(reset={"start": {"orders-0": 5}}))
    while len(s.world.identities()) < 2:
        s.world.step(program)
    s.world.crash(program)
    s.do(s.other, "commit")


def reset_makes_a_large_batch_smaller(s: Scene) -> None:
    s.world.tables.limit = 13
    s.do(s.one, "resolve", "spark")
    s.world.cap = 3
    s.expect(s.do(s.act(reset={"start": "current"})) is None, "the batch is as large as it was")
    s.world.tables.limit = s.world.cap = None


def reset_while_a_topic_was_recreated(s: Scene) -> None:
    s.do(s.one)
    s.more(RETURNS)
    happenings.delete_topic(s.world, "returns")
    s.world.new_topic("returns", 1)
    happenings.produce(s.world, RETURNS, 1, 2, 3, 4, 5, 6, 7)
    s.world.asks = {"on_data_loss": "fail"}
    s.do(s.act(reset={"start": "latest"}))
    s.world.asks = {}
    ended = {i.act is None for i in s.world.identities()[1:]}
    s.expect(not s.world.identities()[-1].act, f"an act left what differs: {ended}")


def reset_of_one_shard_while_another_ones_topic_was_recreated(s: Scene) -> None:
    for shard in (0, 1):
        s.do(s.run("a", shard))
    owner = next(i for i, log in enumerate(s.world.pipeline.logs()) if RETURNS in log.position_after(log.existing(1)))
    happenings.delete_topic(s.world, "returns")
    s.world.new_topic("returns", 1)
    happenings.produce(s.world, RETURNS, 1, 2, 3, 4, 5, 6)
    error = s.do(s.act(shard=1 - owner, reset={"start": "latest"}))
    s.expect(error is not None, "an act looks at its own shard only")


def cleared_run_of_an_output_that_is_left(s: Scene) -> None:
    s.do(s.one)
    s.world.true_output = s.world.req_output = "B"
    s.world.job_number = 1
    s.more()
    s.do(s.act(acknowledge={"output": "B"}))
    s.do(s.one)
    s.expect(not any(key.startswith("0000000001") for key in s.world.tables.rows["B"]), "batch 1 was written into B")


def skipped_record_is_left_out(s: Scene) -> None:
    s.do(s.one, "resolve")
    s.do(s.act(skip=["orders-0:2"]))
    s.expect(s.rows() == 14, f"{s.rows()} rows, and one of 15 records is skipped")


def topic_of_the_new_cluster_is_recreated(s: Scene) -> None:
    s.do(s.one)
    happenings.migrate(s.world)
    s.more()
    program = s.start(s.act(acknowledge={"cluster": "Y"}))
    while len(s.world.identities()) < 2:
        s.world.step(program)
    s.world.crash(program)
    happenings.delete_topic(s.world, "returns")
    s.world.new_topic("returns", 1)
    happenings.produce(s.world, RETURNS, *range(9))
    s.world.asks = {"on_data_loss": "fail"}
    s.expect(s.do(s.other) is not None, "a topic that was re-created on the new cluster is read on, unsaid")
    s.world.asks = {}


def cluster_is_named_by_a_run_that_subscribes_to_less(s: Scene) -> None:
    s.do(s.one)
    happenings.migrate(s.world)
    s.world.asks = {"topics": ["returns"]}
    s.do(s.act(acknowledge={"cluster": "Y"}))
    s.world.asks = {}
    s.more()
    s.do(s.other)
    s.expect(s.rows() == 18, f"{s.rows()} rows of 18 records")


def topic_had_ended_before_the_cluster_was_replaced(s: Scene) -> None:
    s.more(RETURNS)
    s.do(s.one)
    happenings.delete_topic(s.world, "returns")
    s.world.new_topic("returns", 1)
    happenings.produce(s.world, RETURNS, *range(9))  # more than it had: nothing shows a position of the old topic
    s.do(s.other, "resolve")
    happenings.migrate(s.world)
    s.do(s.act(acknowledge={"cluster": "Y"}))
    s.do(s.other)


# ── starts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def partition_is_excluded_from_the_first_batch(s: Scene) -> None:
    s.world.pipeline.start, s.world.asks = "latest", {"exclude": ["orders-0"]}
    s.do(s.one)
    s.world.asks = {}
    s.more(FIRST)
    s.do(s.other)
    s.expect(s.rows() == 1, f"{s.rows()} rows, and one record is behind the start")


def new_partition_is_planned_again(s: Scene) -> None:
    s.do(s.one)
    s.world.new_topic("refunds", 1)
    refunds = TopicPartition("refunds", 0)
    happenings.produce(s.world, refunds, 1, 2, 3, 4)
    s.do(s.other, "resolve")
    s.world.kafka.delete_records(refunds, 2)
    s.do(s.other)
    decisions = s.world.body_of(s.world.batches()[-1].plan).decisions
    s.expect(any(d.partition == refunds for d in decisions), "the records of a new partition are lost, unsaid")


def topic_is_created_between_two_looks(s: Scene) -> None:
    """The log knows a topic that a slow run's look at the cluster does not."""
    _with_group(s)
    s.do(s.one)
    slow = s.start(s.other)
    s.go(slow, "list orders/pipeline")
    s.world.new_topic("refunds", 1)
    happenings.produce(s.world, TopicPartition("refunds", 0), 1, 2, 3)
    s.do(s.third)
    s.go(slow)


# ── the group ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _with_group(s: Scene) -> None:
    s.world.pipeline.group, s.world.has_group = "g", True


def mirror_is_overtaken(s: Scene) -> None:
    _with_group(s)
    s.do(s.one, "resolve", "spark")
    slow = s.go(s.start(s.one), "commit_offsets")
    s.more()
    s.do(s.other)
    s.go(slow)
    held = s.world.kafka.groups["g"][FIRST].offset
    s.expect(held == 6, f"all mirrors have ended, and the group holds {held}, not 6")


def group_is_looked_at_before_the_log(s: Scene) -> None:
    """Another run commits and mirrors between a slow run's two looks."""
    _with_group(s)
    s.do(s.one)
    s.more()
    slow = s.start(s.other)
    s.go(slow, "committed")
    s.do(s.third)
    s.go(slow)
    s.expect(not isinstance(slow.error, PipelineDiffers), f"refused: {slow.error}")


def group_that_was_there_is_kept(s: Scene) -> None:
    _with_group(s)
    s.world.kafka.commit_as_somebody_else("g", {FIRST: CommittedOffset(2)})
    s.world.asks = {"exclude": ["orders-0"]}
    s.do(s.one)
    s.world.asks = {}
    s.expect(s.do(s.other) is None, "the group's offset that was there is refused")


def group_was_moved(s: Scene) -> None:
    _with_group(s)
    s.do(s.one)
    s.world.group_moves = 1
    s.world.kafka.commit_as_somebody_else("g", {FIRST: CommittedOffset(2)})
    s.more()
    s.expect(s.do(s.other) is not None, "a group that was moved is overwritten")


# ── the log, the table, and another environment ───────────────────────────────────────────────────────────────────────


def log_is_an_older_copy(s: Scene) -> None:
    s.do(s.one)
    copy = dict(s.world.pipeline.store.objects)
    s.more()
    s.do(s.other)
    happenings.replace_log(s.world, copy)
    s.world.deletes = False
    s.expect(s.do(s.third, "resolve") is not None, "an older log is not noticed")


def log_is_an_older_copy_by_two_batches(s: Scene) -> None:
    """The refusal says whose rows are to be deleted, also of batches that nobody remembers."""
    s.do(s.one)
    copy = dict(s.world.pipeline.store.objects)
    for run in (s.other, s.third):
        s.more()
        s.do(run)
    happenings.replace_log(s.world, copy)
    s.world.deletes = True


def log_is_an_older_copy_that_only_the_table_knows(s: Scene) -> None:
    s.do(s.one)
    copy = dict(s.world.pipeline.store.objects)
    s.more()
    s.do(s.other)
    happenings.replace_log(s.world, copy)
    s.world.pipeline.memory.clear()
    s.expect(s.do(s.third) is not None, "a driver of an older log writes")


def log_is_lost(s: Scene) -> None:
    s.do(s.one)
    happenings.replace_log(s.world, None)
    s.more()


def log_is_lost_behind_a_group(s: Scene) -> None:
    _with_group(s)
    s.do(s.one)
    s.more()
    happenings.replace_log(s.world, None)
    s.world.deletes = True


def log_is_lost_and_nothing_remembers_it(s: Scene) -> None:
    s.do(s.one)
    happenings.replace_log(s.world, None)
    s.world.pipeline.memory.clear()
    s.world.deletes = False
    s.expect(s.do(s.other) is not None, "a table of another log is written")


def another_run_plans_between_the_looks_at_memory_and_log(s: Scene) -> None:
    s.do(s.one)
    s.more()
    slow = s.go(s.start(s.other), "list orders/batches", 3)
    s.do(s.third, "resolve")
    s.go(slow)
    s.expect(not isinstance(slow.error, PipelineDiffers), f"refused: {slow.error}")


def older_log_with_an_unfinished_batch_expires(s: Scene) -> None:
    s.do(s.one, "resolve")
    copy = dict(s.world.pipeline.store.objects)
    s.do(s.one, "spark", "commit")
    happenings.replace_log(s.world, copy)
    s.world.spoilt.clear()
    s.world.torn.clear()
    for tp in s.world.partitions:
        s.world.kafka.delete_records(tp, 5)
    s.do(s.other)
    batch = s.world.batches()[0]
    s.expect(not batch.is_committed or bool(batch.attempts), "a batch with rows is committed without a look at them")


def another_environment(s: Scene) -> None:
    s.do(s.one)
    s.world.tables.owners.setdefault("A", ("orders", ""))
    happenings.deploy_copy(s.world)
    copied = s.world.runs["e1.0"]
    copied.window = s.one.window
    s.world.run_all()
    if copied.task == "spark":
        s.do(copied, "spark", "commit")
    s.expect(s.rows() == 15, "another environment has written the records once more")


def table_is_rolled_back_before_the_next_batch(s: Scene) -> None:
    s.do(s.one)
    s.more(FIRST)
    _roll_back(s)
    s.expect(s.do(s.other) is not None, "a table that has lost rows is written on")


def _roll_back(s: Scene) -> None:
    s.world.counts["rolled back"] += 1
    s.world.tables.rows["A"] = {}


def table_is_rolled_back_below_the_driver(s: Scene) -> None:
    s.do(s.one)
    s.more(FIRST)
    s.do(s.other, "resolve")
    program = s.go(s.start(s.other), "swap")
    _roll_back(s)
    s.go(program)
    s.expect(program.error is not None, "a driver does not look for the rows once more")


def table_is_rolled_back_before_a_clear(s: Scene) -> None:
    s.do(s.one)
    s.more(FIRST)
    s.do(s.other)
    _roll_back(s)
    s.expect(s.do(s.other) is not None, "a rewrite does not look for the rows of the batch before")


def next_batch_is_written_beside_a_rewrite(s: Scene) -> None:
    s.do(s.one)
    s.do(s.one, "resolve")
    s.more()
    s.do(s.other)
    s.expect(s.do(s.one, "spark", "commit") is None, "a rewrite is refused, because the next batch is written")


def pipeline_is_divided_otherwise(s: Scene) -> None:
    """Another pipeline_id, with the positions that the refusal prints, adopts the table."""
    from airflow_kafka_offsets.offsets import SpecificOffsets

    s.do(s.one)
    s.more()
    s.world.req_shards = 2
    error = s.do(s.other)
    found = people.POSITIONS.search(str(error))
    s.expect(found is not None, f"no positions: {error}")
    if found is None:
        return
    world = s.world
    world.pipeline = Pipeline("orders2", world.pipeline.store, 2, SpecificOffsets(found[1], "earliest"))
    world.pipelines.append(world.pipeline)


# ── by window ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def log_is_lost_by_window(s: Scene) -> None:
    s.do(s.one)
    happenings.replace_log(s.world, None)
    s.world.deletes = True


def topic_is_recreated_between_windows(s: Scene) -> None:
    s.do(s.one)
    happenings.delete_topic(s.world, "returns")
    s.world.new_topic("returns", 1)
    happenings.produce(s.world, RETURNS, 12, 13, 14)


def log_is_truncated_below_a_cut(s: Scene) -> None:
    """Records that no window has read get offsets that a window has read."""
    s.do(s.one)
    happenings.truncate(s.world, FIRST, 3)
    happenings.produce(s.world, FIRST, 11, 12, 13, 14)


_BOTH: tuple[Callable[[Scene], None], ...] = (
    plan_is_replaced_under_a_job_without_report,
    driver_begins_beside_the_commit,
    rewrite_that_writes_nothing,
    driver_of_an_earlier_job_is_late,
    driver_begins_after_the_commit,
    driver_is_overtaken_by_another_plan,
    topic_is_recreated_before_the_read,
    topic_is_recreated_before_a_rewrite_reads,
    log_is_truncated_behind_the_driver,
    job_is_corrected_before_the_commit,
    batch_that_does_not_verify_expires,
    verified_batch_expires,
    output_is_acknowledged_before_the_commit,
    output_is_acknowledged_beside_the_commit,
    skipped_record_is_left_out,
    two_first_runs,
    another_environment,
)
_IN_SEQUENCE = (
    cleaned_planner_wakes_up,
    act_names_all_that_differs,
    act_is_clicked_twice_and_cleared,
    act_names_the_output_in_staging,
    batch_is_committed_beside_a_reset,
    reset_makes_a_large_batch_smaller,
    reset_while_a_topic_was_recreated,
    reset_of_one_shard_while_another_ones_topic_was_recreated,
    cleared_run_of_an_output_that_is_left,
    topic_of_the_new_cluster_is_recreated,
    cluster_is_named_by_a_run_that_subscribes_to_less,
    topic_had_ended_before_the_cluster_was_replaced,
    partition_is_excluded_from_the_first_batch,
    new_partition_is_planned_again,
    topic_is_created_between_two_looks,
    mirror_is_overtaken,
    group_is_looked_at_before_the_log,
    group_that_was_there_is_kept,
    group_was_moved,
    log_is_an_older_copy,
    log_is_an_older_copy_by_two_batches,
    log_is_an_older_copy_that_only_the_table_knows,
    log_is_lost,
    log_is_lost_behind_a_group,
    log_is_lost_and_nothing_remembers_it,
    another_run_plans_between_the_looks_at_memory_and_log,
    older_log_with_an_unfinished_batch_expires,
    table_is_rolled_back_before_the_next_batch,
    table_is_rolled_back_below_the_driver,
    table_is_rolled_back_before_a_clear,
    next_batch_is_written_beside_a_rewrite,
    pipeline_is_divided_otherwise,
)
_BY_WINDOW = (log_is_lost_by_window, topic_is_recreated_between_windows, log_is_truncated_below_a_cut)
_WITHOUT_REPORTS = (plan_is_replaced_under_a_job_without_report, topic_is_recreated_before_a_rewrite_reads)
SCENES: list[tuple[Callable[[Scene], None], Kind]] = [
    *((scene, kind) for scene in _BOTH for kind in ("sequence", "window")),
    *((scene, "sequence") for scene in _IN_SEQUENCE),
    *((scene, "window") for scene in _BY_WINDOW),
]


def play(scene: Callable[[Scene], None], kind: Kind) -> list[str]:
    """What is wrong after it."""
    with the_same_names(0):
        stage = Scene(
            kind,
            has_reports=scene not in _WITHOUT_REPORTS,
            fences=scene is driver_is_overtaken_by_another_plan,
            shards=2 if scene is reset_of_one_shard_while_another_ones_topic_was_recreated else 1,
        )
        scene(stage)
        return stage.finish()
