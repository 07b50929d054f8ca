"""Fixed schedules of lost and older logs, of tables that lose rows, and of another environment."""

from __future__ import annotations

from airflow_kafka_offsets.errors import PipelineDiffers
from tests.model import happenings, people
from tests.model.deployment import Pipeline, Run
from tests.model.scene import FIRST, RETURNS, Scene


def older_copy(s: Scene, *later: Run) -> None:
    """The log becomes what it was before these runs."""
    s.do(s.one)
    copy = dict(s.world.pipeline.store.objects)
    for run in later:
        s.more()
        s.do(run)
    happenings.replace_log(s.world, copy)


def log_is_an_older_copy(s: Scene) -> None:
    older_copy(s, s.other)
    s.world.deletes = False
    s.expect(s.do(s.third, "resolve") is not None, "an older log is not noticed")


def log_is_an_older_copy_by_two_batches(s: Scene) -> None:
    """The refusal says whose rows are to be deleted, also of batches that nobody remembers."""
    older_copy(s, s.other, s.third)
    s.world.deletes = True


def log_is_an_older_copy_of_an_unfinished_batch(s: Scene) -> None:
    """It was committed since; planned again, it is written under the same key."""
    s.do(s.one)
    s.more()
    s.do(s.other, "resolve")
    copy = dict(s.world.pipeline.store.objects)
    s.do(s.other)
    s.more()
    s.do(s.third)
    happenings.replace_log(s.world, copy)
    s.world.deletes = True


def log_is_an_older_copy_and_another_shard_has_an_unfinished_batch(s: Scene) -> None:
    """Keys move for all shards. The log knows no attempt at the other one's batch, which was committed since."""
    one, other = s.one, s.world.runs["r0.1"]
    s.do(one)
    s.do(other, "resolve")
    copy = dict(s.world.pipeline.store.objects)
    s.do(other, "spark", "commit")
    s.more()
    s.do(s.other)
    happenings.replace_log(s.world, copy)
    error = s.do(s.third)
    confs = people.printed(error)
    s.expect(bool(confs), f"an older log is not noticed: {error}")
    people.forget_unknown_rows(s.world, error)
    act = s.act(shard=1)
    act.conf = confs[0]
    s.world.torn.clear()
    s.do(act)


def loss_that_one_shard_acknowledges_says_nothing_of_another(s: Scene) -> None:
    """Keys of the same number are lost in both. Those of the other one's batches are no less unknown by the act."""
    runs = s.world.runs
    s.do(s.one)
    s.do(runs["r0.1"])
    copy = dict(s.world.pipeline.store.objects)
    s.more()
    s.do(s.other)
    s.do(runs["r1.1"])
    memory = dict(s.world.pipeline.memory)
    happenings.replace_log(s.world, copy)
    s.world.pipeline.memory = memory
    error = s.do(runs["r2.1"], "resolve")
    people.forget_unknown_rows(s.world, error)
    act = s.act(shard=1)
    act.conf = people.printed(error)[0]
    s.do(act)
    s.expect(s.do(s.third, "resolve") is not None, "an older log is not noticed behind another shard's act")


def log_is_an_older_copy_of_an_unfinished_window(s: Scene) -> None:
    s.world.clock = 50
    for tp in s.world.partitions:
        happenings.produce(s.world, tp, 12, 13, 25, 26)
    s.do(s.one)
    second, third = (s.world.new_run(name, window=window)[0] for name, window in (("w2", (10, 20)), ("w3", (20, 30))))
    s.do(second, "resolve")
    copy = dict(s.world.pipeline.store.objects)
    s.do(second)
    s.do(third)
    happenings.replace_log(s.world, copy)
    s.world.deletes = True


def log_is_an_older_copy_that_only_the_table_knows(s: Scene) -> None:
    older_copy(s, s.other)
    s.world.pipeline.memory.clear()
    s.expect(s.do(s.third) is not None, "a driver of an older log writes")


def log_is_lost(s: Scene) -> None:
    s.do(s.one)
    happenings.replace_log(s.world, None)
    s.more()


def log_is_lost_behind_a_group(s: Scene) -> None:
    s.with_group()
    s.do(s.one)
    s.more()
    happenings.replace_log(s.world, None)
    s.world.deletes = True


def log_is_lost_behind_rows_that_were_not_committed(s: Scene) -> None:
    """The refusal says which rows are to be deleted: of batches behind the marks."""
    s.with_group()
    s.do(s.one)
    s.more()
    s.do(s.other, "resolve", "spark")
    happenings.replace_log(s.world, None)
    s.world.deletes = True
    people.forget_unknown_rows(s.world, s.do(s.third, "resolve"))
    s.expect(s.rows() == 15, f"{s.rows()} rows are left of 15 behind the mark")


def run_from_before_an_acknowledged_loss_reads_on(s: Scene) -> None:
    """Its XCom names a batch that no log has any more; the loss of a later one is acknowledged."""
    s.with_group()
    s.do(s.one)
    memory = dict(s.world.pipeline.memory)
    s.more()
    s.do(s.other)
    key = s.world.batches()[-1].plan.key
    happenings.replace_log(s.world, None)
    s.do(s.act(after=0, acknowledge={"batch": [key]}), "resolve")
    s.world.pipeline.memory = memory
    error = s.do(s.third, "resolve")
    s.expect(error is None, f"refused: {error}")


def log_is_lost_behind_a_mark_of_another_topic(s: Scene) -> None:
    """The topic was re-created while the group was written."""
    s.with_group()
    s.do(s.one, "resolve", "spark")
    program = s.go(s.start(s.one, "commit"), "commit_offsets")
    happenings.delete_topic(s.world, "returns")
    s.create(RETURNS, *range(9))
    s.go(program)
    key = s.world.batches()[0].plan.key
    happenings.replace_log(s.world, None)
    s.do(s.act(after=0, acknowledge={"batch": [key]}), "resolve")
    log = s.world.pipeline.logs()[0]
    first = log.identity_body(s.world.identities()[0]).first
    s.expect(first[RETURNS].offset == 0, f"the new topic begins at {first[RETURNS]}")
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


def batch_returns_to_the_table_of_its_first_attempt(s: Scene) -> None:
    """In between it has another key, behind those of a table that was adopted."""
    s.do(s.one, "resolve", "spark")
    highest = f"{41:010}-{0:012}"
    s.world.tables.owners["B"], s.world.tables.rows["B"][highest] = ("orders", "lost"), []
    for output, adopted in (("B", {}), ("B", {"log": {"lost": highest}}), ("A", {})):
        is_moved = output != s.world.req_output
        s.world.true_output = s.world.req_output = output
        s.do(s.act(acknowledge={"output": output} if is_moved else adopted), "resolve")
        key = s.world.batches()[0].plan.key
        s.expect((key > highest) == bool(adopted), f"in {output} the key is {key}")


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


def table_is_rolled_back_again_behind_rows_that_were_given_up(s: Scene) -> None:
    """The next batch looks for the newest rows that nobody has given up."""
    for run in (s.one, s.other, s.third):
        s.do(run)
        s.more(FIRST)
    lost = s.world.batches()[1:]
    for batch in lost:
        del s.world.tables.rows["A"][batch.plan.key]
        s.world.spoilt |= s.world.places_of(batch.plan)
    act = s.act(acknowledge={"rows": [batch.plan.key for batch in lost]})
    s.do(act, "resolve")
    _roll_back(s)
    s.expect(s.do(act, "spark") is not None, "a table that has lost rows once more is written on")


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
