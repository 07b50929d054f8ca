"""A plan counts as read when the newest attempt at each split reported exactly its ranges, and not otherwise."""

import json

import pytest

from airflow_kafka_offsets.errors import ReadNotVerified
from airflow_kafka_offsets.offsets.verify import PartitionRead, ReadReport, SplitAttempt, verify_reads
from tests.offsets.builders import plan, planned, tp

# Split 0 reads orders[0], split 1 reads orders[1] and [3]; orders[2] has nothing to read.
ROWS = [planned(0, 10, 110), planned(1, 5, 45), planned(2, 7, 7), planned(3, 0, 40)]
PLAN = plan(ROWS, splits=2)


def whole(row):
    return PartitionRead(row.range.size, row.start_offset, row.end_offset - 1)


def reads(*numbers):
    return {tp(number): whole(ROWS[number]) for number in numbers}


def report(split, partitions, *, attempt=1, proof="counts", plan_id=PLAN.plan_id, reported_attempt=None):
    reported = ReadReport(plan_id, split, reported_attempt or attempt, proof, partitions, "s3://out")
    return SplitAttempt(attempt, reported)


GOOD = {0: report(0, reads(0)), 1: report(1, reads(1, 3))}


def problems(attempts, of=PLAN):
    with pytest.raises(ReadNotVerified) as refused:
        verify_reads(of, attempts)
    assert of.plan_id in refused.value.remedy
    return list(refused.value.partitions)


def test_what_was_reported_in_full_is_verified():
    assert verify_reads(PLAN, GOOD) is None


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        pytest.param({}, ["split 0: no Spark job has begun", "split 1: no Spark job has begun"], id="nothing began"),
        pytest.param({0: GOOD[0]}, ["split 1: no Spark job has begun"], id="one split never began"),
        pytest.param(
            {**GOOD, 1: SplitAttempt(2, None)}, ["split 1: attempt 2 began and has not reported"],
            id="a second attempt began: its output may be half overwritten",
        ),
        pytest.param(
            {**GOOD, 0: report(0, reads(0), attempt=2, reported_attempt=1)},
            ["split 0: the report is of split 0, attempt 1"], id="an older attempt's report does not count",
        ),
        pytest.param(
            {**GOOD, 0: report(1, reads(0))}, ["split 0: the report is of split 1, attempt 1"], id="another split's"
        ),
        pytest.param(
            {**GOOD, 0: report(0, reads(0), plan_id="other")}, ["split 0: the report is of plan other"],
            id="another plan's, though its ranges are the same",
        ),
        pytest.param(
            {**GOOD, 1: report(1, reads(1))}, ["split 1, orders[3] [0, 40): short: 0 of 40 records"],
            id="a partition is not reported",
        ),
        pytest.param(
            {**GOOD, 1: report(1, {**reads(1), tp(3): PartitionRead(39, 0, 38)})},
            ["split 1, orders[3] [0, 40): short: 39 of 40 records"], id="the last record is missing",
        ),
        pytest.param(
            {**GOOD, 1: report(1, {**reads(1), tp(3): PartitionRead(41, 0, 39)})},
            ["split 1, orders[3] [0, 40): twice: 41 records"], id="a record was written twice",
        ),
        pytest.param(
            {**GOOD, 0: report(0, {tp(0): PartitionRead(100, 9, 108)})},
            ["split 0, orders[0] [10, 110): beyond: offsets 9 to 108"], id="the count fits, the start does not",
        ),
        pytest.param(
            {**GOOD, 0: report(0, {tp(0): PartitionRead(100, 11, 110)})},
            ["split 0, orders[0] [10, 110): beyond: offsets 11 to 110"], id="the end offset itself was read",
        ),
        pytest.param(
            {**GOOD, 0: report(0, {**reads(0), tp(1): PartitionRead(1, 5, 5)})},
            ["split 0, orders[1]: 1 records are reported, and it is not in this split"], id="another split's partition",
        ),
        pytest.param(
            {0: report(0, {}), 1: report(1, {**reads(3), tp(1): PartitionRead(50, 5, 44)})},
            ["split 0, orders[0] [10, 110): short", "split 1, orders[1] [5, 45): twice"], id="all at once",
        ),
    ],
)  # fmt: skip
def test_what_was_not_read_exactly_is_refused_line_by_line(attempts, expected):
    lines = problems(attempts)
    assert len(lines) == len(expected), lines
    assert all(line.startswith(words) for line, words in zip(lines, expected, strict=True)), lines


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        pytest.param(PartitionRead(60, 12, 99), None, id="gaps of compaction or of markers"),
        pytest.param(PartitionRead(0, 0, 0), None, id="nothing but markers"),
        pytest.param(None, None, id="nothing but markers, so that no row names it"),
        pytest.param(PartitionRead(60, 9, 99), "beyond", id="below the range"),
        pytest.param(PartitionRead(60, 12, 110), "beyond", id="past the range"),
        pytest.param(PartitionRead(101, 10, 109), "twice", id="more than there are offsets"),
    ],
)
def test_a_scan_proves_completeness_where_counts_cannot_but_must_still_fit(read, problem):
    attempts = {**GOOD, 0: report(0, {tp(0): read} if read else {}, proof="scan")}
    if problem is None:
        assert verify_reads(PLAN, attempts) is None
    else:
        [line] = problems(attempts)
        assert problem in line


def test_a_short_count_names_the_way_out_on_a_compacted_topic():
    [line] = problems({**GOOD, 0: report(0, {tp(0): PartitionRead(60, 12, 99)})})
    assert "compacted or transactional" in line


def test_a_split_without_records_that_was_not_started_needs_no_report():
    of = plan(ROWS[:3], splits=4)
    attempts = {number: report(number, reads(number), plan_id=of.plan_id) for number in (0, 1)}
    assert verify_reads(of, attempts) is None


def test_a_split_without_records_that_began_and_did_not_report_is_refused():
    """A re-plan starts splits without records too, so that old outputs are overwritten: this one may be half so."""
    of = plan(ROWS[:1], splits=2)
    attempts = {0: report(0, reads(0), plan_id=of.plan_id), 1: SplitAttempt(1, None)}
    [line] = problems(attempts, of)
    assert line.startswith("split 1: attempt 1 began and has not reported")


def test_a_split_without_records_that_reports_some_is_refused():
    of = plan(ROWS[:1], splits=2)
    attempts = {0: report(0, reads(0), plan_id=of.plan_id), 1: report(1, reads(0), plan_id=of.plan_id)}
    [line] = problems(attempts, of)
    assert line.startswith("split 1, orders[0]: 100 records are reported, and it is not in this split")


def test_a_split_without_records_that_reports_none_is_verified():
    of = plan(ROWS[:1], splits=2)
    attempts = {0: report(0, reads(0), plan_id=of.plan_id), 1: report(1, {}, plan_id=of.plan_id)}
    assert verify_reads(of, attempts) is None


def test_a_plan_without_records_needs_no_report():
    assert verify_reads(plan([planned(0, 5, 5)]), {}) is None


def test_a_report_is_read_back_as_it_was_written():
    written = ReadReport("p1", 1, 3, "scan", {**reads(3, 1), tp(0, "clicks"): PartitionRead(1, 0, 0)}, None)
    assert ReadReport.from_dict(json.loads(json.dumps(written.to_dict()))) == written


def test_a_report_of_an_unknown_version_is_refused():
    with pytest.raises(ValueError, match="version 2"):
        ReadReport.from_dict({**GOOD[0].report.to_dict(), "version": 2})
