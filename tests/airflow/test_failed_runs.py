"""A run that fails after Spark has written: the next one does that batch again, and a reader finds each record once."""

from collections.abc import Callable

from tests.airflow.conftest import Orders


def test_a_batch_that_a_check_rejects_is_done_again_by_the_next_run(orders: Orders) -> None:
    orders.produce(5)
    first = orders.run(reject=True)
    assert (first.states("orders.read"), first.states("check"), first.states("orders.commit")) == (
        ["success"],
        ["failed"],
        ["upstream_failed"],
    )
    rejected = orders.key
    assert (list(orders.rows), orders.committed) == ([rejected], {})
    orders.produce(3)

    second = orders.run()

    assert second.state == "success"
    assert (list(orders.rows), orders.key) == ([rejected], rejected)
    assert (len(orders.rows[rejected]), orders.committed) == (5, {0: 5})  # what has come since is the next run's
    assert orders.run().state == "success"
    assert orders.is_exact()
    assert orders.committed == {0: 8}


def test_two_runs_that_fail_in_a_row_leave_one_batch_and_no_record_twice(orders: Orders) -> None:
    orders.produce(4)
    assert orders.run(reject=True).state == "failed"
    orders.produce(2)
    assert orders.run(reject=True).state == "failed"
    assert ([len(values) for values in orders.rows.values()], orders.committed) == ([4], {})

    assert (orders.run().state, orders.run().state) == ("success", "success")

    assert [len(values) for values in orders.rows.values()] == [4, 2]
    assert orders.is_exact()
    assert orders.committed == {0: 6}


def test_a_run_that_fails_before_spark_has_written_leaves_nothing_to_its_follower_but_the_batch(
    orders: Orders, said: Callable[[], str]
) -> None:
    """Its reader cannot write: a file is where the batch's folder should be."""
    orders.produce(3)
    orders.output.touch()
    first = orders.run()
    assert (first.states("orders.read"), first.states("orders.commit")) == (["failed"], ["upstream_failed"])
    orders.output.unlink()
    orders.produce(1)
    said()

    assert orders.run().state == "success"

    text = said()
    assert f"This run does batch 1 again: run batch/{first.run_id}/orders.resolve, which took it at 2" in text
    assert "Z, failed in orders.read_0; 1 record has come since, for the next run." in text
    assert orders.run().state == "success"
    assert orders.is_exact()


def test_a_batch_that_is_written_and_verified_is_committed_although_kafka_has_deleted_its_records(
    orders: Orders, said: Callable[[], str]
) -> None:
    orders.produce(5)
    assert orders.run(reject=True).state == "failed"
    orders.broker.delete_records({(orders.topic, 0): 5})
    said()

    second = orders.run()

    assert (second.state, second.states("orders.commit")) == ("success", ["success"])
    assert "This run finishes batch 1: all of it is written, and verified" in said()
    assert ([len(values) for values in orders.rows.values()], orders.committed, orders.attempts()) == ([5], {0: 5}, 1)
    orders.produce(3)
    assert orders.run().state == "success"
    assert orders.is_exact()
