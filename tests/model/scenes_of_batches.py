"""Fixed schedules of drivers, reports, commits and windows."""

from __future__ import annotations

from tests.model import happenings
from tests.model.scene import FIRST, RETURNS, Scene
from tests.model.stepping import T0, UNIT_MS


def plan_is_replaced_under_a_job_without_report(s: Scene) -> None:
    s.do(s.one, "resolve", "spark")
    s.world.kafka.delete_records(FIRST, 3)
    s.do(s.other, "resolve")
    s.do(s.one, "commit")


def driver_begins_beside_the_commit(s: Scene) -> None:
    s.do(s.one, "resolve", "spark")
    slow = s.go(s.start(s.one), f"create {s.folder()}/2.json")
    late = s.go(s.start(s.one, "spark", half=True, is_zombie=True), "swap")
    s.one.task = "commit"
    s.go(slow)
    s.go(late)
    s.expect(slow.error is not None, "a commit beside a driver that has begun is green")


def remedy_of_a_driver_beside_the_commit_works(s: Scene) -> None:
    """The commit stands, and its task is red; cleared from resolve on, the run writes the batch again."""
    driver_begins_beside_the_commit(s)
    error = s.do(s.one)
    s.expect((error, s.rows()) == (None, 15), f"after the clear there are {s.rows()} rows: {error}")


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
    s.create(RETURNS, 1, 2, 3, 4, 5, 6)
    s.do(s.one, "spark", "commit")


def topic_is_recreated_before_a_rewrite_reads(s: Scene) -> None:
    s.do(s.one)
    s.do(s.one, "resolve")
    happenings.delete_topic(s.world, "returns")
    s.create(RETURNS, 1, 2, 3, 4, 5, 6)
    errors = s.do(s.one, "spark", "commit"), s.do(s.one)
    s.expect(None not in errors, f"a rewrite that has read another topic is green: {errors}")
    s.world.true_output = s.world.req_output = "B"
    s.do(s.act(acknowledge={"output": "B"}))
    s.expect(s.do(s.one, "resolve") is not None, "a rewrite that has read another topic is green: the output moved")


def spark_alone_is_cleared_of_a_job_without_report(s: Scene) -> None:
    s.do(s.one)
    happenings.delete_topic(s.world, "returns")
    s.create(RETURNS, 1, 2, 3, 4, 5, 6)
    s.expect(s.do(s.one, "spark", "commit") is not None, "a job that has read another topic is green")


def log_is_truncated_behind_the_driver(s: Scene) -> None:
    s.do(s.one, "resolve", "spark")
    happenings.truncate(s.world, FIRST, 3)
    happenings.produce(s.world, FIRST, 6, 7, 8)
    s.do(s.one, "commit")


def record_gets_the_offset_of_a_marker(s: Scene) -> None:
    """A batch has passed the marker of a transaction, and then the log is truncated below it."""
    transaction = s.world.kafka.begin_transaction()
    happenings._append(s.world, s.world.kafka, FIRST, T0 + 5 * UNIT_MS, transaction)
    transaction.commit()
    s.do(s.one)
    happenings.truncate(s.world, FIRST, 5)
    happenings.produce(s.world, FIRST, 11, 12)


def job_is_corrected_before_the_commit(s: Scene) -> None:
    s.do(s.one, "resolve", "spark")
    s.world.job_number = 1
    s.do(s.one)


def batch_that_does_not_verify_expires(s: Scene) -> None:
    driver_begins_beside_the_commit(s)
    s.world.kafka.delete_records(FIRST, 5)
    s.expect(s.do(s.one, "resolve") is not None, "a batch that does not verify is left, green")


def batch_that_does_not_verify_is_elsewhere(s: Scene) -> None:
    driver_begins_beside_the_commit(s)
    s.world.true_output = s.world.req_output = "B"
    s.do(s.act(acknowledge={"output": "B"}))
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


def log_is_lost_by_window(s: Scene) -> None:
    s.do(s.one)
    happenings.replace_log(s.world, None)
    s.world.deletes = True


def topic_is_recreated_between_windows(s: Scene) -> None:
    s.do(s.one)
    happenings.delete_topic(s.world, "returns")
    s.create(RETURNS, 12, 13, 14)


def topic_is_recreated_between_windows_of_which_a_later_one_is_faster(s: Scene) -> None:
    """The slower one looks at the identity, and then at a batch that the faster one has planned under the next."""
    s.world.clock = 50
    s.do(s.one)
    happenings.delete_topic(s.world, "returns")
    s.create(RETURNS, 12, 22)
    slow, fast = (s.world.new_run(name, window=window)[0] for name, window in (("w2", (10, 20)), ("w3", (20, 30))))
    program = s.go(s.start(slow), "list orders/batches")
    s.do(fast)
    s.go(program)
    s.do(slow, "spark", "commit")


def log_is_truncated_below_a_cut(s: Scene) -> None:
    """Records that no window has read get offsets that a window has read."""
    s.do(s.one)
    happenings.truncate(s.world, FIRST, 3)
    happenings.produce(s.world, FIRST, 11, 12, 13, 14)
