"""What a cap leaves: so many more runs, and what retention may take before they come. Pure numbers."""

import pytest

from airflow_kafka_offsets.plan.backlog import Backlog, expiring, more_runs
from tests.builders import tp


@pytest.mark.parametrize(
    ("carried", "most", "per_partition", "runs"),
    [
        pytest.param([10, 5], 5, None, 3, id="by the cap of a run"),
        pytest.param([10, 6], 5, None, 4, id="a part of a run is one"),
        pytest.param([10, 5], None, 4, 3, id="by the cap of a partition"),
        pytest.param([10, 5], 3, 4, 5, id="the tighter one: the run's"),
        pytest.param([10, 5], 8, 1, 10, id="the tighter one: the partition's"),
    ],
)
def test_the_tighter_cap_says_how_many_runs_are_left(carried, most, per_partition, runs):
    assert more_runs({tp(n): size for n, size in enumerate(carried)}, most, per_partition) == runs


@pytest.mark.parametrize(
    ("left", "runs", "gone"),
    [
        pytest.param((100, 40, 90, 4, 100), 4, 0, id="retention stays behind the plan"),
        pytest.param((100, 40, 107, 4, 110), 4, 7, id="it is ahead when the next run comes, and then falls back"),
        pytest.param((100, 40, 90, 4, 135), 4, 5, id="it overtakes the runs: the last one finds 30 read and 35 old"),
        pytest.param((100, 40, 90, 4, 130), 4, 0, id="it arrives with the last run"),
        pytest.param((100, 40, None, 1, None), 4, 40, id="all of it is old when the next run comes"),
        pytest.param((100, 40, 90, 4, None), 4, 10, id="all of it is old when the last run comes"),
        pytest.param((100, 40, 90, 3, None), 4, 20, id="it is through before the last run"),
        pytest.param((100, 40, 500, 1, 500), 1, 40, id="never more than is left"),
    ],
)
def test_what_retention_overtakes_may_be_gone_before_it_is_read(left, runs, gone):
    assert expiring(*left, runs) == gone


@pytest.mark.parametrize(
    ("backlog", "words"),
    [
        (
            Backlog(12_000, 3, 0, "by retention.ms, with 1 h between two runs"),
            "the cap left 12,000 records, which take about 3 more runs if nothing new arrives; retention deletes none "
            "of them before (by retention.ms, with 1 h between two runs)",
        ),
        (
            Backlog(1, 1, 1, "by retention.ms, with 1 h between two runs"),
            "the cap left 1 record, which takes about 1 more run if nothing new arrives; retention may delete about 1 "
            "record of them before (by retention.ms, with 1 h between two runs)",
        ),
        (
            Backlog(2, 1, None, "orders has retention.bytes, which deletes by size"),
            "the cap left 2 records, which take about 1 more run if nothing new arrives; whether retention deletes "
            "some of them before is not known: orders has retention.bytes, which deletes by size",
        ),
    ],
)
def test_a_backlog_in_words(backlog, words):
    assert str(backlog) == words
