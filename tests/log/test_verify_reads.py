"""A split is verified by its single highest attempt that wrote, if that reported exactly its ranges; not otherwise."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import ReadNotVerified
from airflow_kafka_offsets.log.verify_reads import Attempt, PartitionRead, ReadReport, require_verified, unverified
from tests.builders import altered, plan, planned, tp

# Split 0 reads orders[0], split 1 reads orders[1] and [3]; orders[2] has nothing to read.
ROWS = [planned(0, 10, 110), planned(1, 5, 45), planned(2, 7, 7), planned(3, 0, 40)]
OUT = "s3://lake/orders"
PLAN = plan(ROWS, splits=2, output=OUT)


def whole(row):
    return PartitionRead(row.range.size, row.range.size, row.start_offset, row.end_offset - 1)


def reads(*numbers):
    return {tp(number): whole(ROWS[number]) for number in numbers}


def report(split, partitions, number=1, *, proof="rows", plan_id=PLAN.plan_id, output=OUT, wrote=True):
    return Attempt(number, ReadReport(plan_id, split, number, proof, partitions, output, wrote))


def begun(number):
    return Attempt(number, None)


def nothing_written(split, number):
    return report(split, {}, number, wrote=False)


FIRST, SECOND = report(0, reads(0)), report(1, reads(1, 3))
GOOD = {0: [FIRST], 1: [SECOND]}


def problems(attempts, of=PLAN, newer_than=None):
    return unverified(of, attempts, newer_than)


def test_what_was_reported_in_full_is_verified():
    assert problems(GOOD) == []
    assert require_verified(PLAN, GOOD) == "rows"


# ── which attempt counts ──────────────────────────────────────────────────────────────────────────────────────────────

HALF = report(0, {tp(0): PartitionRead(50, 50, 10, 59)}, 1)


@pytest.mark.parametrize(
    ("attempts", "problem"),
    [
        pytest.param([], "split 0: no Spark job has begun", id="nobody began"),
        pytest.param([begun(1)], "split 0: attempt 1 began and has not reported", id="began and did not report"),
        pytest.param([HALF, report(0, reads(0), 2)], None, id="a second attempt made good what the first left"),
        pytest.param([report(0, reads(0), 2), HALF], None, id="in whichever order they are listed"),
        pytest.param([FIRST, begun(2)], "split 0: attempt 2 began", id="a later attempt may have written half"),
        pytest.param([begun(1), report(0, reads(0), 2)], None, id="an earlier one that died is written over"),
        pytest.param([FIRST, nothing_written(0, 2)], None, id="nothing written takes nothing from a finished split"),
        pytest.param([FIRST, nothing_written(0, 2), nothing_written(0, 3)], None, id="nor do two that wrote nothing"),
        pytest.param(
            [begun(1), nothing_written(0, 2)], "split 0: attempt 1 began", id="nor does it make good what is half done"
        ),
        pytest.param([nothing_written(0, 1)], "split 0: no Spark job has begun", id="nothing written is not a read"),
        pytest.param(
            [report(0, reads(0), 2), report(0, reads(0), 2)],
            "split 0: 2 Spark jobs wrote to it",
            id="two of one number",
        ),
        pytest.param(
            [report(0, reads(0), 2), begun(2)], "split 0: 2 Spark jobs wrote to it", id="of which one has not reported"
        ),
        pytest.param([FIRST, begun(2), begun(2)], "split 0: 2 Spark jobs wrote to it", id="two that have not"),
        pytest.param([report(0, reads(0), 2), nothing_written(0, 2)], None, id="two, of which one wrote nothing"),
        pytest.param([begun(1), begun(1), report(0, reads(0), 2)], None, id="two before, and one after them"),
        pytest.param(
            [FIRST, report(0, reads(0), 2, plan_id="other")],
            "split 0: attempt 2 read plan other, not",
            id="of another plan, whose rows are there now",
        ),
        pytest.param(
            [report(0, {}, 1, plan_id="other"), report(0, reads(0), 2)], None, id="another plan's was written over"
        ),
        pytest.param(
            [report(0, reads(0), 1, output="s3://else")],
            f"it was written to s3://else, and the batch's output is {OUT}",
            id="another output",
        ),
        pytest.param([report(0, reads(0), 1, output=None)], "it was written to None", id="an output that nobody named"),
    ],
)
def test_the_single_highest_attempt_that_wrote_decides(attempts, problem):
    found = problems({**GOOD, 0: attempts})
    if problem is None:
        assert found == []
    else:
        [line] = found
        assert line.startswith("split 0: ")
        assert problem in line


def test_where_the_plan_names_no_output_any_is_taken():
    of = altered(PLAN, output=None)
    assert problems({0: [report(0, reads(0), output=OUT)], 1: [report(1, reads(1, 3), output=None)]}, of) == []


@pytest.mark.parametrize(
    ("attempts", "newer_than", "problem"),
    [
        pytest.param([FIRST], {0: 1}, "split 0: it was not done again; attempt 1 is of before", id="only the old one"),
        pytest.param([FIRST, report(0, reads(0), 2)], {0: 1}, None, id="a new one"),
        pytest.param([FIRST, begun(2)], {0: 1}, "attempt 2 began and has not reported", id="a new one that died"),
        pytest.param(
            [FIRST, nothing_written(0, 2)], {0: 1}, "it was not done again", id="a new one that wrote nothing"
        ),
        pytest.param([FIRST], {}, None, id="a split that had no attempt when the batch was taken again"),
        pytest.param([report(0, reads(0), 7)], {0: 8}, "it was not done again", id="above means above"),
    ],
)
def test_a_batch_that_is_done_again_is_verified_by_attempts_from_after_it_was_taken(attempts, newer_than, problem):
    """Rule 4: a redo that wrote half is no verified output, though an older report says whole."""
    found = problems({**GOOD, 0: attempts}, newer_than=newer_than)
    assert (found == []) if problem is None else (len(found) == 1 and problem in found[0]), found


# ── what a report proves ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        pytest.param(PartitionRead(100, 100, 10, 109), None, id="each offset once"),
        pytest.param(None, "short: 0 of 100 records", id="not reported"),
        pytest.param(PartitionRead(0, 0, 0, 0), "short: 0 of 100 records", id="no row"),
        pytest.param(PartitionRead(99, 99, 10, 109), "short: 99 of 100 offsets", id="one is missing"),
        pytest.param(PartitionRead(101, 100, 10, 109), "twice: 101 rows for 100 different offsets", id="one is double"),
        pytest.param(
            PartitionRead(100, 99, 10, 109), "twice: 100 rows for 99", id="a join doubles one and drops another"
        ),
        pytest.param(
            PartitionRead(100, 50, 10, 109), "twice: 100 rows for 50", id="a join doubles half and drops half"
        ),
        pytest.param(
            PartitionRead(100, 100, 9, 108), "beyond: offsets 9 to 108", id="the count fits, the start does not"
        ),
        pytest.param(
            PartitionRead(100, 100, 11, 110), "beyond: offsets 11 to 110", id="the end offset itself was read"
        ),
        pytest.param(PartitionRead(50, 50, 10, 59), "short: 50 of 100", id="half of it"),
    ],
)
def test_rows_prove_a_range_by_each_offset_once(read, problem):
    found = problems({**GOOD, 0: [report(0, {tp(0): read} if read else {})]})
    if problem is None:
        assert found == []
    else:
        [line] = found
        assert line.startswith(f"split 0: orders[0] [10, 110): {problem}")


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        pytest.param(PartitionRead(100, 100, 10, 109), None, id="no gap"),
        pytest.param(PartitionRead(60, 60, 12, 99), None, id="gaps of compaction or of markers"),
        pytest.param(PartitionRead(0, 0, 0, 0), None, id="nothing but markers"),
        pytest.param(None, None, id="nothing but markers, so that no row names it"),
        pytest.param(PartitionRead(60, 60, 9, 99), "beyond", id="below the range"),
        pytest.param(PartitionRead(60, 60, 12, 110), "beyond", id="past the range"),
        pytest.param(PartitionRead(61, 60, 12, 99), "twice", id="one is double"),
    ],
)
@pytest.mark.parametrize("proof", ["scan", "compared"])
def test_a_finished_scan_proves_that_nothing_is_missing_and_the_rows_must_fit_all_the_same(read, problem, proof):
    found = problems({**GOOD, 0: [report(0, {tp(0): read} if read else {}, proof=proof)]})
    assert (found == []) if problem is None else (len(found) == 1 and problem in found[0]), found


def test_a_short_count_names_the_way_out_on_a_compacted_topic():
    [line] = problems({**GOOD, 0: [report(0, {tp(0): PartitionRead(60, 60, 12, 99)})]})
    assert "compacted or transactional" in line


def test_a_partition_of_another_split_is_too_much():
    [line] = problems({**GOOD, 0: [report(0, {**reads(0), tp(1): PartitionRead(1, 1, 5, 5)})]})
    assert line == "split 0: orders[1]: 1 rows are reported, and it is not in this split"


def test_all_that_is_wrong_is_said_at_once():
    found = problems({0: [report(0, {})], 1: [report(1, {**reads(3), tp(1): PartitionRead(50, 40, 5, 44)})]})
    assert [":".join(line.split(":")[:3]) for line in found] == [
        "split 0: orders[0] [10, 110): short",
        "split 1: orders[1] [5, 45): twice",
    ]


OFFSETS = st.lists(st.integers(0, 12), max_size=16)


@settings(max_examples=300)
@given(st.integers(0, 5), st.integers(1, 8), OFFSETS)
def test_only_each_offset_of_the_range_exactly_once_is_verified_by_rows(start, size, written):
    """Whatever a job makes of the records: the four numbers that a report has tell it."""
    of = plan([planned(0, start, start + size)])
    counted = Counter(written)
    found = PartitionRead(len(written), len(counted), min(written, default=0), max(written, default=0))
    attempts = {0: [report(0, {tp(0): found}, plan_id=of.plan_id, output=None)]}
    assert (unverified(of, attempts) == []) == (sorted(written) == list(range(start, start + size)))


# ── splits without records ────────────────────────────────────────────────────────────────────────────────────────────

EMPTY_SECOND = plan(ROWS[:1], splits=2, overwrites=(1,))


def with_empty(*attempts):
    return {0: [report(0, reads(0), plan_id=EMPTY_SECOND.plan_id)], 1: attempts}


def of_empty(partitions=(), number=1, **more):
    return report(1, dict(partitions), number, plan_id=EMPTY_SECOND.plan_id, **more)


@pytest.mark.parametrize(
    ("attempts", "problem"),
    [
        pytest.param([of_empty()], None, id="read back, and there is no row"),
        pytest.param([], "split 1: no Spark job has begun", id="never started: an earlier plan's rows are still there"),
        pytest.param([begun(1)], "split 1: attempt 1 began and has not reported", id="began"),
        pytest.param(
            [of_empty(reads(0))], "split 1: orders[0]: 100 rows are reported, and it is not in", id="some rows"
        ),
        pytest.param([of_empty(proof="scan")], None, id="a scan, and nobody wrote before"),
        pytest.param(
            [of_empty(number=2, proof="scan")], "split 1: it must be empty, which only the output itself", id="a scan"
        ),
    ],
)
def test_a_split_that_must_be_empty_is_verified_by_reading_its_output_back(attempts, problem):
    """A scan of no records shows nothing about what an earlier plan's job has left there."""
    found = problems(with_empty(*attempts), EMPTY_SECOND)
    assert (found == []) if problem is None else (len(found) == 1 and problem in found[0]), found


def test_a_split_that_has_nothing_and_was_not_started_needs_no_report():
    of = plan(ROWS[:3], splits=4)
    attempts = {number: [report(number, reads(number), plan_id=of.plan_id, output=None)] for number in (0, 1)}
    assert problems(attempts, of) == []


def test_a_plan_without_records_needs_no_report():
    assert problems({}, plan([planned(0, 5, 5)])) == []


# ── the refusal ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_refusal_names_the_batch_the_output_its_key_and_what_to_clear():
    with pytest.raises(ReadNotVerified) as refused:
        require_verified(PLAN, {**GOOD, 1: [begun(2)]})
    assert list(refused.value.partitions) == problems({**GOOD, 1: [begun(2)]})
    for words in ("batch 7", "this task commits nothing", OUT, PLAN.batch.key, "Clear the run from its Spark task on"):
        assert words in refused.value.remedy


# ── as an object ──────────────────────────────────────────────────────────────────────────────────────────────────────

COUNT = st.integers(0, 2**63 - 1)
READS = st.tuples(COUNT, COUNT, COUNT, COUNT).map(lambda counts: PartitionRead(*sorted(counts, reverse=True)))
REPORTS = st.builds(
    ReadReport,
    st.text(max_size=8),
    COUNT,
    COUNT,
    st.sampled_from(["rows", "compared", "scan"]),
    st.dictionaries(st.sampled_from([tp(0), tp(3), tp(0, "clicks")]), READS),
    st.none() | st.text(max_size=8),
    st.booleans(),
)


@given(REPORTS)
def test_a_report_is_read_back_as_it_was_written(written):
    assert ReadReport.from_dict(json.loads(json.dumps(written.to_dict()))) == written


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        pytest.param(lambda d: d.update(version=2), "version 2 is not known", id="a later version"),
        pytest.param(lambda d: d.update(proof="counts"), "counts", id="a proof that is not known"),
        pytest.param(lambda d: d.update(split="0"), "'0' is not a whole number", id="a split that is text"),
        pytest.param(lambda d: d.update(attempt=None), "None is not a whole number", id="no attempt"),
        pytest.param(lambda d: d.update(plan_id=5), "5 is not text", id="a plan that is a number"),
        pytest.param(lambda d: d.update(output=5), "5 is not text", id="an output that is a number"),
        pytest.param(lambda d: d.pop("topics"), "not a read report.*topics", id="no topics"),
        pytest.param(lambda d: d.update(topics=[]), "no object of topics", id="topics that are a list"),
        pytest.param(lambda d: d["topics"]["orders"]["offset_count"].pop(), "offset_count", id="a shorter column"),
        pytest.param(lambda d: d["topics"]["orders"]["row_count"].__setitem__(0, "1"), "whole number", id="digits"),
        pytest.param(lambda d: d["topics"]["orders"]["row_count"].__setitem__(0, -100), "-100 rows", id="below zero"),
        pytest.param(lambda d: d.update(attempt=2**63), "more than 64 bits", id="a number that Spark does not have"),
        pytest.param(lambda d: d.update(wrote="false"), "neither true nor false", id="a word for a truth"),
        pytest.param(lambda d: d.update(output="\ud800"), "surrogates not allowed", id="half a character"),
        pytest.param(lambda d: d.pop("wrote"), "not a read report.*wrote", id="not said whether it wrote"),
    ],
)
def test_what_is_no_report_is_refused(edit, words):
    data = json.loads(json.dumps(FIRST.report.to_dict()))
    assert ReadReport.from_dict(data) == FIRST.report
    edit(data)
    with pytest.raises(ValueError, match=words):
        ReadReport.from_dict(data)
