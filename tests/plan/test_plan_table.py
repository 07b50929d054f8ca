"""What a log shows of a plan and of a group's move: text, of a size that does not grow with the partitions."""

from __future__ import annotations

from airflow_kafka_offsets.plan.plan_table import MOST_ROWS, moves_table, plan_in_words, plan_table
from tests.builders import plan, planned, tp


def test_a_plan_is_a_table_with_the_largest_partitions_first() -> None:
    rows = [
        planned(0, 0, 0, start_reason="latest → end", skipped=48_000),
        planned(1, 120, 12_120),
        planned(2, 480, 500, start_reason="out of range → log start, 360 lost", lost=360),
    ]
    assert plan_table(plan(rows)).splitlines() == [
        "partition  from  why                                     to  records  lost  skipped",
        "orders[1]   120  committed                           12,120   12,000     0        0",
        "orders[2]   480  out of range → log start, 360 lost     500       20   360        0",
        "orders[0]     0  latest → end                             0        0     0   48,000",
    ]


def test_10_000_partitions_are_ten_rows_and_a_summary() -> None:
    rows = [planned(n, 0, n % 7, lost=n % 2, skipped=int(n == 9_998)) for n in range(9_999)]
    rows.append(planned(9_999, 0, 1_000_000))
    header, first, *_, summary = lines = plan_table(plan(rows)).splitlines()
    assert len(lines) == 1 + MOST_ROWS + 1
    assert header.split() == ["partition", "from", "why", "to", "records", "lost", "skipped"]
    assert first.split()[0] == "orders[9999]"
    shown = sum(int(line.split()[-3].replace(",", "")) for line in lines[1:-1])
    rest = sum(p.range.size for p in rows) - shown
    lost = sum(p.lost for p in rows) - sum(int(line.split()[-2]) for line in lines[1:-1])
    assert summary == f"… and 9,990 more partitions with {rest:,} records, {lost:,} lost, 1 skipped"


def test_ten_partitions_need_no_summary() -> None:
    assert len(plan_table(plan([planned(n, 0, n) for n in range(MOST_ROWS)])).splitlines()) == 1 + MOST_ROWS
    eleven = plan_table(plan([planned(n, 0, n) for n in range(MOST_ROWS + 1)]))
    assert eleven.splitlines()[-1] == "… and 1 more partition with 0 records, 0 lost, 0 skipped"


def test_the_groups_move_is_a_table_with_the_furthest_first() -> None:
    moves: dict = {tp(0): (5, 5), tp(1): (None, 12_000), tp(2): (9_000, 8_000)}
    assert moves_table(moves).splitlines() == [
        "partition  before   after",
        "orders[1]    none  12,000",
        "orders[2]   9,000   8,000",
        "orders[0]       5       5",
    ]
    many = moves_table({tp(n): (n, n + 1) for n in range(10_000)}).splitlines()
    assert len(many) == 1 + MOST_ROWS + 1
    assert many[-1] == "… and 9,990 more partitions, together +9,990"


def test_one_sentence_has_all_that_is_read_lost_and_skipped_and_why() -> None:
    rows = [
        planned(0, 0, 10),
        planned(1, 480, 490, start_reason="out of range → log start, 360 lost", lost=360),
        planned(2, 900, 900, start_reason="no commit → latest", skipped=900),
        planned(3, 7, 7, start_reason="no commit → latest", skipped=7),
    ]
    assert plan_in_words(plan(rows)) == (
        "up to 20 records of 2 partitions; up to 360 records are lost (out of range → log start, 360 lost); up to 907 "
        "records are skipped although still in Kafka (no commit → latest)"
    )
    assert plan_in_words(plan([planned(0, 0, 1)])) == "up to 1 record of 1 partition; nothing is lost or skipped"


def test_a_sentence_names_three_reasons_at_most_the_weightiest_first() -> None:
    rows = [planned(n, n, n, start_reason=f"reason {n}", skipped=n) for n in range(1, 6)]
    assert plan_in_words(plan(rows)).endswith("(reason 5, reason 4, reason 3 and 2 more reasons)")
    assert "up to 1 record is skipped" in plan_in_words(plan([planned(0, 1, 1, skipped=1)]))
