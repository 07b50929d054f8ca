"""Fixed schedules of acts, starts and the group."""

from __future__ import annotations

from airflow_kafka_offsets.errors import PipelineDiffers
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from tests.model import happenings, people
from tests.model.scene import FIRST, REFUNDS, RETURNS, SECOND, Scene


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
    slow = s.go(s.start(s.one), f"create {s.folder()}/2.json")
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


def reset_beside_a_slow_look_at_the_log(s: Scene) -> None:
    """The slow run looks at the identity, and then at a batch that has applied the next one's start."""
    s.do(s.one)
    s.more()
    slow = s.go(s.start(s.other), "list orders/batches")
    s.do(s.act(reset={"start": "earliest", "allow_duplicates": True}))
    s.more()
    s.go(slow)
    s.do(s.other, "spark", "commit")
    s.more()


def reset_while_a_topic_was_recreated(s: Scene) -> None:
    s.do(s.one)
    s.more(RETURNS)
    happenings.delete_topic(s.world, "returns")
    s.create(RETURNS, 1, 2, 3, 4, 5, 6, 7)
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
    s.create(RETURNS, 1, 2, 3, 4, 5, 6)
    error = s.do(s.act(shard=1 - owner, reset={"start": "latest"}))
    s.expect(error is not None, "an act looks at its own shard only")


def reset_beside_a_plan_of_a_topic_that_ends(s: Scene) -> None:
    """A slow run plans a new topic that is re-created meanwhile, and a reset names the newer one first."""
    s.do(s.one)
    s.create(REFUNDS, 1, 2, 3)
    slow = s.go(s.start(s.other, is_zombie=True), "create orders/batches")
    happenings.delete_topic(s.world, "refunds")
    s.create(REFUNDS, 4)
    act = s.start(s.act(reset={"start": "earliest", "allow_duplicates": True}))
    while len(s.world.identities()) < 2:
        s.world.step(act)
    s.world.crash(act)
    s.go(slow)


def reset_skips_records_of_a_new_partition(s: Scene) -> None:
    """Of an unfinished batch, whose plan had it from its first record on; the plan after that one knows it, too."""
    s.do(s.one)
    s.create(REFUNDS, 1, 2, 3)
    s.do(s.other, "resolve")
    s.do(s.act(reset={"start": {"refunds-0": 2}}), "resolve")
    happenings.produce(s.world, REFUNDS, 4)
    s.world.kafka.delete_records(RETURNS, 5)
    s.world.kafka.delete_records(REFUNDS, 3)
    s.do(s.third)
    body = s.world.body_of(s.world.batches()[-1].plan)
    kinds = [(d.kind, d.start, d.end) for d in body.decisions if d.partition == REFUNDS]
    s.expect(kinds == [("skipped", 0, 2), ("lost", 2, 3)], f"decisions about refunds-0: {kinds}")


def re_created_topic_is_planned_again(s: Scene) -> None:
    """The position has the topic that has ended; only the unfinished batch has the new one."""
    s.do(s.one)
    happenings.delete_topic(s.world, "returns")
    s.create(RETURNS, 1, 2, 3, 4)
    s.do(s.other, "resolve")
    s.world.kafka.delete_records(RETURNS, 2)
    s.do(s.other)
    decisions = s.world.body_of(s.world.batches()[-1].plan).decisions
    lost = [(d.start, d.end) for d in decisions if d.partition == RETURNS and d.end is not None]
    s.expect(lost == [(0, 2)], f"records of the new topic are lost, unsaid: {decisions}")


def re_created_topic_of_a_new_cluster_is_planned_again(s: Scene) -> None:
    """The position is of the old cluster; the topic was re-created on the new one, where no batch is committed."""
    s.do(s.one)
    happenings.migrate(s.world)
    s.do(s.act(acknowledge={"cluster": "Y"}), "resolve")
    re_created_topic_is_planned_again(s)


def topic_is_re_created_between_two_looks(s: Scene) -> None:
    """A run that reads single partitions looks at them, and then at their topics."""
    s.do(s.one)
    s.world.asks = {"topics": {"returns": [0]}}
    program = s.go(s.start(s.other), "describe", times=2)
    happenings.delete_topic(s.world, "returns")
    s.create(RETURNS, *range(9))
    s.go(program)
    s.do(s.other)
    s.world.asks = {}
    s.expect(s.rows() == 24, f"{s.rows()} rows of 15 records, and of 9 of the topic that was re-created")


def new_partition_of_an_unfinished_batch_on_a_new_cluster(s: Scene) -> None:
    s.do(s.one)
    s.create(REFUNDS, 1, 2, 3)
    s.do(s.other, "resolve")
    happenings.migrate(s.world)
    s.world.kafka.delete_records(REFUNDS, 2)
    s.do(s.act(acknowledge={"cluster": "Y"}))
    decisions = s.world.body_of(s.world.batches()[-1].plan).decisions
    s.expect(any(d.partition == REFUNDS for d in decisions), "records of a new partition are lost, unsaid")


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
    s.create(RETURNS, *range(9))
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


def partition_is_excluded_from_the_first_batch(s: Scene) -> None:
    s.world.pipeline.start, s.world.asks = "latest", {"exclude": ["orders-0"]}
    s.do(s.one)
    s.world.asks = {}
    s.more(FIRST)
    s.do(s.other)
    s.expect(s.rows() == 1, f"{s.rows()} rows, and one record is behind the start")


def new_partition_is_planned_again(s: Scene) -> None:
    s.do(s.one)
    s.create(REFUNDS, 1, 2, 3, 4)
    s.do(s.other, "resolve")
    s.world.kafka.delete_records(REFUNDS, 2)
    s.do(s.other)
    decisions = s.world.body_of(s.world.batches()[-1].plan).decisions
    s.expect(any(d.partition == REFUNDS for d in decisions), "the records of a new partition are lost, unsaid")


def topic_is_created_between_two_looks(s: Scene) -> None:
    """The log knows a topic that a slow run's look at the cluster does not."""
    s.with_group()
    s.do(s.one)
    slow = s.start(s.other)
    s.go(slow, "list orders/pipeline")
    s.world.new_topic("refunds", 1)
    happenings.produce(s.world, TopicPartition("refunds", 0), 1, 2, 3)
    s.do(s.third)
    s.go(slow)


def mirror_is_overtaken(s: Scene) -> None:
    s.with_group()
    s.do(s.one, "resolve", "spark")
    slow = s.go(s.start(s.one), "commit_offsets")
    s.more()
    s.do(s.other)
    s.go(slow)
    held = s.world.kafka.groups["g"][FIRST].offset
    s.expect(held == 6, f"all mirrors have ended, and the group holds {held}, not 6")


def group_is_looked_at_before_the_log(s: Scene) -> None:
    """Another run commits and mirrors between a slow run's two looks."""
    s.with_group()
    s.do(s.one)
    s.more()
    slow = s.start(s.other)
    s.go(slow, "committed")
    s.do(s.third)
    s.go(slow)
    s.expect(not isinstance(slow.error, PipelineDiffers), f"refused: {slow.error}")


def group_that_was_there_is_kept(s: Scene) -> None:
    s.with_group()
    s.world.kafka.commit_as_somebody_else("g", {FIRST: CommittedOffset(2)})
    s.world.asks = {"exclude": ["orders-0"]}
    s.do(s.one)
    s.world.asks = {}
    s.expect(s.do(s.other) is None, "the group's offset that was there is refused")


def group_was_moved(s: Scene) -> None:
    s.with_group()
    s.do(s.one)
    s.world.group_moves = 1
    s.world.kafka.commit_as_somebody_else("g", {FIRST: CommittedOffset(2)})
    s.more()
    s.expect(s.do(s.other) is not None, "a group that was moved is overwritten")
