"""The audit of a log: what lies between a batch and the one before it has a name, and somebody who decided it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.kafka_values import Actor
from airflow_kafka_offsets.log.audit import (
    KIND_NAMES,
    AuditedBatch,
    BatchRecord,
    Finding,
    audit_batches,
    audit_windows,
    days_of,
)
from airflow_kafka_offsets.log.entries import Committed, Entry, Planned, Taken
from airflow_kafka_offsets.log.verify_reads import Attempt, PartitionRead
from airflow_kafka_offsets.plan.plan import Plan, PlannedPartition
from airflow_kafka_offsets.plan.planned_anew import shortened, skipped
from airflow_kafka_offsets.plan.position import Position, position_after
from airflow_kafka_offsets.plan.window_claims import TimeClaim
from airflow_kafka_offsets.request.policies import Skip
from tests.builders import NOW, altered, planned, position, tp
from tests.stores.builders import DAY, actor, key_of, plan_of, report_of, window_plan

PERSON = Actor(None, "airflow.example.com")
AT_TEN = position({0: 10})


def committed(plan: Plan, before: Position | None, **fields: Any) -> Committed:
    after = None if plan.asked.window else position_after(plan, before)
    return replace(Committed(plan.by, plan.resolved_at_ms, plan.plan_id, position=after), **fields)


def reads_of(plan: Plan) -> dict[int, list[Attempt]]:
    return {split: [Attempt(1, report_of(plan, split, 1))] for split in sorted(plan.splits_with_rows())}


def done(plan: Plan, before: Position | None, *anew: Plan, later: tuple[Entry, ...] = (), **fields: Any) -> BatchRecord:
    """A batch that was committed; by the last of several plans."""
    plans = [Planned(one, before) for one in (plan, *anew)]
    last = plans[-1].plan
    return BatchRecord((*plans, committed(last, before, **fields), *later), reads_of(last))


def batch(number: int, *rows: PlannedPartition, before: Position | None = None, **fields: Any) -> BatchRecord:
    plan = plan_of(number, rows or None, **fields)
    return done(plan, position({0: 10 * number - 10}) if before is None and number > 1 else before)


def findings(*records: BatchRecord) -> list[Finding]:
    return [finding for audited in audit_batches(records) for finding in audited.findings]


def facts(*records: BatchRecord) -> list[tuple[Any, ...]]:
    return [(found.kind, found.count, found.decision) for found in findings(*records)]


# ── a chain without a fault ───────────────────────────────────────────────────────────────────────────────────────────


def test_batches_that_go_on_where_the_one_before_ended_are_contiguous_and_nothing_is_found():
    audited = list(audit_batches([batch(1), batch(2), batch(3)]))
    assert [(one.name, one.state, one.read, one.is_contiguous) for one in audited] == [
        ("batch 1", "committed", 10, True),
        ("batch 2", "committed", 10, True),
        ("batch 3", "committed", 10, True),
    ]
    assert [one.findings for one in audited] == [(), (), ()]
    assert audited[1] == AuditedBatch(key_of(2), "batch 2", "committed", actor(2), NOW, 10)


def test_a_log_whose_oldest_batches_were_cleaned_away_begins_where_it_begins():
    assert findings(batch(41), batch(42)) == []


def test_the_newest_batch_may_be_unfinished_and_has_read_nothing_yet():
    unfinished = BatchRecord((Planned(plan_of(2), AT_TEN), Taken(actor("b"), NOW + 5)), {})
    [_, last] = audit_batches([batch(1), unfinished])
    assert (last.state, last.by, last.at_ms, last.read, last.findings) == ("not committed", actor("b"), NOW + 5, 0, ())


# ── what lies between ─────────────────────────────────────────────────────────────────────────────────────────────────

LOST = planned(0, 13, 20, position=10, lost=3, continuity="gap", start_reason="out of range → log start, 3 lost")
JUMPED = planned(0, 16, 20, position=10, lost=3, skipped=3, continuity="gap", start_reason="→ latest, 3 lost")
ADOPTED = planned(0, 15, 20, skipped=5, continuity="gap", start_reason="group moved → adopted")
BACK = planned(0, 4, 20, continuity="overlap", start_reason="group moved → adopted")
RESET = planned(0, 15, 15, skipped=5, continuity="gap", start_reason="reset to offset 15: poison")
RESET_BACK = planned(0, 4, 4, continuity="overlap", start_reason="reset to offset 4: again")
CUT = planned(0, 7, 20, position=10, continuity="truncated", start_reason="the log is another one from 7 on → 7")
GROUP_MOVED = "policy group_moved=adopt-group"
SECOND = [
    pytest.param([LOST], {}, [("lost", 3, "policy data_loss")], id="retention, and the policy"),
    pytest.param(
        [JUMPED],
        {},
        [("lost", 3, "policy data_loss"), ("skipped", 3, "policy data_loss")],
        id="reset to latest by the policy",
    ),
    pytest.param([ADOPTED], {}, [("skipped", 5, GROUP_MOVED)], id="the group was moved on"),
    pytest.param([BACK], {}, [("rewind", 6, GROUP_MOVED)], id="the group was moved back"),
    pytest.param(
        [RESET],
        {"by": PERSON, "reason": "reset to offset 15: poison"},
        [("skipped", 5, "reset to offset 15: poison")],
        id="a person's reset",
    ),
    pytest.param(
        [RESET_BACK],
        {"by": PERSON, "reason": "reset to offset 4: again"},
        [("rewind", 6, "reset to offset 4: again")],
        id="a person's reset back",
    ),
    pytest.param(
        [planned(0, 0, 20, start_reason="earliest → log start", continuity="overlap")],
        {"restarts": ("monday",), "restarted": True},
        [("rewind", 10, "restart monday")],
        id="a restart",
    ),
    pytest.param([CUT], {}, [("truncated", 3, "policy data_loss")], id="the log was cut"),
    pytest.param(
        [planned(0, 0, 5, continuity="re-created", start_reason="topic re-created → log start")],
        {"topic_ids": {"orders": "another"}},
        [("re-created", None, "policy topic_recreated=earliest")],
        id="the topic was re-created",
    ),
    pytest.param(
        [planned(0, 0, 5, continuity="new", start_reason="new topic → log start")],
        {"cluster_id": "cluster-2"},
        [("re-created", None, "policy cluster_changed")],
        id="another cluster",
    ),
    pytest.param(
        [planned(0, 10, 20), planned(1, 4, 8, lost=4, continuity="new", start_reason="new partition → log start")],
        {},
        [("lost", 4, None)],
        id="a new partition whose first records were gone: nobody was asked",
    ),
    pytest.param([planned(0, 12, 20, position=10)], {}, [("gap", 2, None)], id="nobody has counted them"),
    pytest.param([planned(0, 8, 20, position=10)], {}, [("overlap", 2, None)], id="nobody has set it back"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "fields", "found"), SECOND)
def test_what_lies_between_the_position_and_the_start_has_a_name_and_a_decision(rows, fields, found):
    second = batch(2, *rows, **fields)
    assert facts(batch(1), second) == found
    [_, audited] = audit_batches([batch(1), second])
    assert not audited.is_contiguous
    undecided = [finding.kind for finding in audited.findings if finding.undecided]
    assert undecided == [kind for kind, _, decision in found if decision is None and kind in ("lost", "gap", "overlap")]


def test_who_and_when_is_of_the_plan_that_first_had_it():
    [found] = findings(batch(1), batch(2, LOST, resolved_at_ms=NOW + 7))
    assert (found.by, found.at_ms) == (actor(2), NOW + 7)
    assert found.what == "orders[0]: 3 (out of range → log start, 3 lost)"


def test_what_the_first_batch_jumps_over_is_its_startup_modes_decision():
    first = batch(1, planned(0, 9, 9, skipped=9, start_reason="latest → end"), startup="latest-offset")
    assert facts(first) == [("skipped", 9, "startup mode latest-offset")]


def test_a_batch_that_lost_records_and_then_was_skipped_names_both_who_decided():
    first = plan_of(2, [planned(0, 10, 20)])
    short = replace(shortened(first, actor("b"), {}, {tp(): 13}, "records are gone"), resolved_at_ms=NOW + 1)
    without = skipped(short, PERSON, Skip(key_of(2), ((tp(), 15),), "poison"), {})
    assert without is not None
    record = done(first, AT_TEN, short, short, replace(without, resolved_at_ms=NOW + 2))
    found = findings(batch(1), record)
    assert [(one.kind, one.count, one.decision, one.by, one.at_ms - NOW) for one in found] == [
        ("lost", 3, "policy data_loss", actor("b"), 1),
        ("skipped", 3, "skip past orders[0]:15: poison", PERSON, 2),
        ("planned anew", None, "records are gone", actor("b"), 1),
        ("planned anew", None, "skip past orders[0]:15: poison", PERSON, 2),
    ], "the same plan once more is no plan anew"


def test_a_batch_that_was_skipped_and_then_lost_records_names_both_too():
    first = plan_of(2, [planned(0, 10, 20)])
    without = skipped(first, PERSON, Skip(key_of(2), ((tp(), 12),), "poison"), {})
    assert without is not None
    short = shortened(without, actor("b"), {}, {tp(): 15}, "records are gone")
    assert facts(batch(1), done(first, AT_TEN, without, short))[:2] == [
        ("skipped", 3, "skip past orders[0]:12: poison"),
        ("lost", 2, "policy data_loss"),
    ]


# ── from one batch to the next ────────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_that_is_gone_from_the_middle_is_missed_with_what_it_had_read():
    assert facts(batch(1), batch(3)) == [("not in the log", None, None), ("gap", 10, None)]


def test_a_batch_that_goes_on_before_the_one_before_ended_overlaps_it():
    back = batch(2, planned(0, 8, 20), before=position({0: 8}))
    assert facts(batch(1), back) == [("overlap", 2, None)]


def test_a_partition_that_the_next_batch_does_not_know_any_more_is_a_gap_of_unknown_size():
    first = batch(1, planned(0, 0, 10), planned(1, 0, 10))
    assert facts(first, batch(2)) == [("gap", None, None)]


def test_a_batch_that_was_passed_by_when_the_group_was_adopted_is_a_policys_decision():
    passed = BatchRecord((Planned(plan_of(2), AT_TEN),), {})
    found = list(audit_batches([batch(1), passed, batch(3)]))
    assert [one.state for one in found] == ["committed", "passed by", "committed"]
    assert facts(batch(1), passed, batch(3)) == [("passed by", None, None), ("gap", 10, GROUP_MOVED)]


def test_a_commit_that_says_another_position_than_its_plan_is_found():
    further = done(plan_of(1), None, position=position({0: 12}))
    assert facts(further, batch(2, planned(0, 12, 20), before=position({0: 12}))) == [("gap", 2, None)]
    assert facts(done(plan_of(1), None, plan_id="another")) == [("short", None, None)]


# ── against its reads, and what was done more than once ───────────────────────────────────────────────────────────────


def test_a_report_that_speaks_against_the_commit_is_found_in_its_own_words():
    record, made = batch(1), plan_of(1)
    half = {tp(): PartitionRead(9, 9, 0, 8)}
    short = replace(record, attempts={0: [Attempt(1, report_of(made, 0, 1, partitions=half))]})
    [found] = findings(short)
    assert (found.kind, found.undecided) == ("short", True)
    assert "short: 9 of 10 offsets" in found.what
    [late] = findings(replace(record, attempts={0: [Attempt(2)]}))
    assert "attempt 2 began and has not reported" in late.what


def test_a_commit_without_a_report_is_unproved_and_not_said_to_be_missing():
    [found] = findings(replace(batch(1), attempts={}))
    assert (found.kind, found.decision, found.undecided) == ("unproved", "require_report=False", False)


def test_bad_records_and_left_out_ones_are_counted_with_who_committed_them():
    assert facts(done(plan_of(1), None, set_aside=2, left_out=3)) == [
        ("set aside", 2, "bad_records"),
        ("left out", 3, "where"),
    ]


def test_a_batch_that_was_done_once_more_says_by_whom():
    again = (Taken(actor("b"), NOW + 9, {0: 1}), Taken(actor("c"), NOW + 10))
    [found] = findings(done(plan_of(1), None, later=again))
    assert (found.kind, found.by, found.at_ms) == ("done twice", actor("b"), NOW + 9), "who left it did nothing"


# ── windows, and days ─────────────────────────────────────────────────────────────────────────────────────────────────


def window(day: int, start: int, end: int, *later: Entry, **row: Any) -> BatchRecord:
    claim = TimeClaim(NOW + day * DAY, NOW + (day + 1) * DAY)
    return done(altered(window_plan(claim), partitions=(planned(0, start, end, **row),)), None, later=later)


def test_windows_are_held_against_each_other_by_their_offsets():
    found = [list(one.findings) for one in audit_windows([window(0, 0, 10), window(1, 8, 20), window(2, 20, 30)])]
    assert [[(one.kind, one.count, one.undecided) for one in of_window] for of_window in found] == [
        [],
        [("overlap", 2, True)],
        [],
    ]


def test_a_window_that_lacks_what_its_times_give_says_so():
    lacking = window(0, 0, 10, Taken(actor("b"), NOW, {0: 1}, unread=4), late=2)
    [audited] = audit_windows([lacking])
    assert [(one.kind, one.count, one.undecided) for one in audited.findings] == [
        ("late", 2, False),
        ("gap", 4, True),
        ("done twice", None, False),
    ]


def test_each_day_has_its_totals_by_the_times_of_the_commits():
    records = [
        batch(1),
        batch(2, LOST, resolved_at_ms=NOW + DAY),
        batch(3, resolved_at_ms=NOW + DAY),
    ]
    one, two = days_of(audit_batches(records))
    none = dict.fromkeys(KIND_NAMES.values(), 0)
    assert one == {"day": "2026-11-20", "batches": 1, "contiguous": 1, "read": 10, "undecided": 0, **none}
    assert two == {"day": "2026-11-21", "batches": 2, "contiguous": 1, "read": 17, "undecided": 0, **none, "lost": 3}
