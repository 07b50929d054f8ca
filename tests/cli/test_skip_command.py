"""`kafka-offsets skip`: leave out records that cannot be processed."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Say, of
from tests.cli.pipeline import Pipeline, key_of
from tests.cli.test_store_commands import window


def test_skip_shows_what_is_given_up_and_does_it_when_told_to(says: Say, stored: Pipeline) -> None:
    stored.plan("two")
    words = ("skip", *of(stored), "--batch", stored.newest_key, "--past", "orders-0:6", "--reason", "poison")
    before = stored.objects()
    status, output, messages = says(*words, "--output", "json")
    assert status == 0
    assert "dry run" in messages
    shown = json.loads(output)
    assert (shown["version"], shown["dry_run"], shown["skipped"], shown["reason"]) == (1, True, 3, "poison")
    expected = {"partition": 0, "start": 4, "end": 10, "start_after": 7, "records_after": 3, "skipped": 3}
    assert {name: shown["partitions"][0][name] for name in expected} == expected
    assert stored.objects() == before

    status, output, messages = says(*words, "--execute", "--output", "json")
    assert (status, json.loads(output)["partitions"]) == (0, shown["partitions"])
    assert "The pipeline's next run does the batch as it is now" in messages
    newest = stored.log.newest()
    assert newest is not None
    plan = newest.log.plan
    assert [(p.start_offset, p.end_offset, p.skipped) for p in plan.partitions] == [(7, 10, 3), (0, 0, 0)]
    assert (plan.by.run, plan.reason) == (None, "skip past orders[0]:6: poison")
    assert plan.plan_id == shown["plan_id_after"] != shown["plan_id_before"]


def test_one_record_alone_is_left_out_and_whoever_orders_it_is_told_of_the_further_spark_job(
    says: Say, stored: Pipeline
) -> None:
    stored.plan("two")
    words = ("skip", *of(stored), "--batch", stored.newest_key, "--only", "orders-0:6", "--only", "orders-0:8-9")
    before = stored.objects()
    status, output, messages = says(*words, "--output", "json")
    assert (status, stored.objects()) == (0, before)
    assert "1 more Spark job will read what lies behind" in messages
    shown = json.loads(output)["partitions"][0]
    expected = {"start": 4, "end": 10, "start_after": 4, "records_after": 3, "skipped": 3}
    assert {name: shown[name] for name in expected} == expected
    assert says(*words, "--reason", "poison", "--execute")[0] == 0
    done = stored.run("three")
    assert done.plan is not None
    assert [[(p.start_offset, p.end_offset) for p in split] for split in done.plan.splits] == [[(4, 6)], [(7, 8)]]
    status, output, _ = says("audit", *of(stored), "--output", "json")
    found = [one for one in json.loads(output)["findings"] if one["finding"] == "skipped"]
    assert (status, [(one["offsets"], one["decision"]) for one in found]) == (
        0,
        [(3, "skip only orders[0]:6, orders[0]:8-9: poison")],
    )


def test_without_an_offset_the_whole_batch_is_left_out_and_the_next_run_commits_it(says: Say, stored: Pipeline) -> None:
    stored.plan("two")
    status, output, _ = says("skip", *of(stored), "--batch", stored.newest_key, "--execute")
    assert status == 0
    assert "up to 6 records of batch 2 are skipped: no reason was given" in output
    done = stored.run("three")
    assert done.plan is not None
    assert (done.plan.record_count_upper_bound, done.splits) == (0, (0,)), "started, so that nothing half written stays"
    assert says("verify", *of(stored), "--batch", "2")[0] == 0


def test_a_window_is_left_out_by_its_name_or_its_key_also_after_its_commit(says: Say, stored: Pipeline) -> None:
    key = window(stored, "w", 0)
    [name] = stored.log.windows()
    before = stored.objects()
    for named in (name, key):
        status, output, _ = says("skip", *of(stored), "--window", named)
        assert (status, stored.objects()) == (0, before)
        assert "window 2026-11-20T12:00Z to 2026-11-20T13:00Z" in output
    status, _, messages = says("skip", *of(stored), "--window", key, "--reason", "twice", "--execute")
    assert status == 0
    assert "Clear the window's run" in messages
    found = stored.log.window(name)
    assert found is not None
    assert (found.log.committed, found.log.plan.reason, key_of(found.log.plan)) == (None, "skip: twice", key)


def test_a_window_that_is_a_way_into_the_log_is_no_window(says: Say, stored: Pipeline) -> None:
    """A committed batch of the log is never planned anew."""
    window(stored, "w", 0)
    before = stored.objects()
    status, _, messages = says("skip", *of(stored), "--window", "../batches/00000000/0000000001", "--execute")
    assert status == 1
    assert "has no window" in messages
    assert stored.objects() == before


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        pytest.param([], 2, "Skip what? Give --batch KEY", id="nothing"),
        pytest.param(["--batch", "k", "--window", "w"], 2, "Skip what? Give --batch KEY", id="both"),
        pytest.param(["--batch", " "], 2, "--batch is empty", id="empty"),
        pytest.param(["--batch", "NEWEST", "--past", "orders"], 2, "--past 'orders'; expected", id="past"),
        pytest.param(["--batch", "NEWEST", "--past", "orders-0:4,orders-0:5"], 2, "names orders[0] twice", id="twice"),
        pytest.param(["--batch", "NEWEST", "--past", "orders-0:99"], 2, "the batch reads [4, 10) of it", id="beyond"),
        pytest.param(["--batch", "NEWEST", "--past", "orders-1:0"], 2, "the batch reads nothing of it", id="unread"),
        pytest.param(
            ["--batch", "NEWEST", "--only", "orders-0:9-4"], 2, "--only 'orders-0:9-4', which", id="backwards"
        ),
        pytest.param(["--batch", "NEWEST", "--only", "orders-0:3"], 2, "skip only orders[0]:3: the batch", id="before"),
        pytest.param(
            ["--batch", "NEWEST", "--only", "orders-0:4", "--past", "orders-0:4"], 2, "past and only", id="two ways"
        ),
        pytest.param(["--batch", "2"], 1, "the unfinished batch is 0000000002-", id="no key"),
        pytest.param(["--window", "w"], 1, "has no window 'w'", id="no window"),
    ],
)
def test_a_skip_that_is_wrong_writes_nothing_and_says_why(
    says: Say, stored: Pipeline, words: list[str], status: int, sentence: str
) -> None:
    stored.plan("two")
    before = stored.objects()
    given = [stored.newest_key if word == "NEWEST" else word for word in words]
    found, output, messages = says("skip", *of(stored), *given, "--execute")
    assert (found, output) == (status, "")
    assert sentence in messages
    assert stored.objects() == before


def test_a_committed_batch_of_the_log_cannot_be_skipped(says: Say, stored: Pipeline) -> None:
    status, _, messages = says("skip", *of(stored), "--batch", stored.newest_key, "--execute")
    assert status == 1
    assert "is committed" in messages
