"""The decisions as a table: an order, what is known, and what is to be done.

A row's facts are answers by the kind of their question. A decision is asked until it is made, or until it asks for what
the row does not have: then that question is its decision. Every batch here is in a store that fails at any look.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from airflow_kafka_offsets import errors
from airflow_kafka_offsets.batch import situation as asks
from airflow_kafka_offsets.batch.decide import decide_commit, decide_run
from airflow_kafka_offsets.batch.decide_by_hand import decide_leave_out, decide_redo, decide_reset, decide_take_over
from airflow_kafka_offsets.batch.engine import decided
from airflow_kafka_offsets.batch.look_ups import World
from airflow_kafka_offsets.batch.no_airflow import NoAirflow
from airflow_kafka_offsets.batch.orders import (
    Commit,
    Create,
    Decision,
    Do,
    Follow,
    Leave,
    LeaveOut,
    Nothing,
    OfGroup,
    PlanReference,
    Redo,
    Replace,
    RequireReport,
    Reset,
    RunsBatch,
    SetPosition,
    TakeOver,
    Wait,
)
from airflow_kafka_offsets.batch.situation import GroupNow, Lacking, LogNow, Situation
from airflow_kafka_offsets.broker.protocol import GroupDescription
from airflow_kafka_offsets.kafka_values import (
    Actor,
    ClusterDescription,
    CommittedOffset,
    RunKey,
    TopicDescription,
)
from airflow_kafka_offsets.log.entries import Committed, Planned, StoredEntry, Taken, log_of
from airflow_kafka_offsets.log.pipeline_log import BatchOfRun, StoredBatch
from airflow_kafka_offsets.log.verify_reads import Attempt
from airflow_kafka_offsets.plan.commit_metadata import CommitMetadata
from airflow_kafka_offsets.plan.plan import BatchName, Plan, VerifiedSplit
from airflow_kafka_offsets.plan.planned_anew import shortened
from airflow_kafka_offsets.plan.position import position_after
from airflow_kafka_offsets.plan.ranges import Logs
from airflow_kafka_offsets.plan.records_now import RecordsNow
from airflow_kafka_offsets.plan.window_claims import TimeClaim, batch_name_of
from airflow_kafka_offsets.request.modes import AtTimestamp
from airflow_kafka_offsets.request.policies import Skip
from tests.builders import KEY, NOW, PIPELINE, altered, plan, planned, position, request, snap, tp
from tests.stores.builders import report_of

Order = RunsBatch | Commit | Reset | LeaveOut | Redo | TakeOver
Decided = Decision | Follow | SetPosition | None

AIRFLOW = "airflow.example.com"
ME = Actor(RunKey("billing", "run-2", "resolve"), AIRFLOW)
OTHER = Actor(RunKey("billing", "run-1", "resolve"), AIRFLOW)
PERSON = Actor(None)
STAGING = "staging.example.com"


class NoLook:
    """A store that nobody may look at while a decision is made."""

    uri, driver_uri, is_remote = "s3://store", "s3://store", True

    def __getattr__(self, verb: str) -> Any:
        raise AssertionError(f"a decision calls the store: {verb}")


STORE: Any = NoLook()
FOLDER = "pipelines/g%2Fbilling%2Fresolve/batches/00000000/0000000007"
NAME = "batches/00000000/0000000007"
BEFORE = position({0: 10, 1: 5})

# Batch 7: split 0 reads orders[0] from 10 to 20, split 1 orders[1] from 5 to 9.
ROWS = [planned(0, 10, 20), planned(1, 5, 9)]
PLAN = plan(ROWS, splits=2, by=OTHER)


def stored(*later: StoredEntry, of: Plan = PLAN) -> StoredBatch:
    return StoredBatch(STORE, FOLDER, log_of([Planned(of, BEFORE), *later], 1))


def committed(by: Actor = OTHER, of: Plan = PLAN) -> Committed:
    return Committed(by, NOW, of.plan_id, position=position_after(of, BEFORE))


OPEN, DONE = stored(), stored(committed())
MINE, MINE_DONE = stored(Taken(ME, NOW)), stored(Taken(ME, NOW), committed(ME))

# ── what is known ─────────────────────────────────────────────────────────────────────────────────────────────────────

Facts = Mapping[str, Any]
ORDERS = ClusterDescription("cluster-1", {"orders": TopicDescription("id-of-orders", {0: 1, 1: 1})})
MADE_ANEW = ClusterDescription("cluster-1", {"orders": TopicDescription("another-id", {0: 1, 1: 1})})
ANOTHER_CLUSTER = ClusterDescription("cluster-2", ORDERS.topics)


def logs(first: tuple[int, int] = (0, 25), second: tuple[int, int] = (0, 9), **found: Any) -> Logs:
    found = {"newest": {}, "starts": {}, "ends": {}, "future": {}, **found}
    return Logs({tp(0): snap(*first), tp(1): snap(*second)}, **found)


def marked(offsets: Mapping[int, int], batch: str | None = KEY, pipeline: str = PIPELINE, by: str = AIRFLOW) -> Any:
    """What a group holds, with marks."""
    text = CommitMetadata.by(pipeline, by).after(batch).encode()
    return {tp(number): CommittedOffset(offset, None, text) for number, offset in offsets.items()}


def somebodys(offsets: Mapping[int, int]) -> Any:
    return {tp(number): CommittedOffset(offset) for number, offset in offsets.items()}


def there(first: int = 0, second: int = 0, ends: tuple[int, int] = (25, 9), **more: Any) -> RecordsNow:
    """The log starts, and what the logs are by now."""
    return RecordsNow((), {tp(0): first, tp(1): second}, {tp(0): ends[0], tp(1): ends[1]}, **more)


def read_by(*splits: int, of: Plan = PLAN, attempt: int = 1) -> dict[int, list[Attempt]]:
    """Reports of these splits; nobody has begun the others."""
    return {
        split: [Attempt(attempt, report_of(of, split, attempt))] if split in splits else []
        for split in range(of.split_count)
    }


def known(newest: StoredBatch | None, own: BatchOfRun | None = None, held: Any = None, **more: Any) -> Facts:
    """What a run knows of its topics, its group and its log; ``more`` are answers by the name of their question."""
    facts: dict[str, Any] = {
        "describe": ORDERS,
        "OffsetsOfGroup": GroupNow({} if held is None else held),
        "NewestBatch": LogNow(newest, own),
        "RangeLookUps": logs(),
    }
    return facts | named(**more)


def named(**answers: Any) -> Facts:
    return answers


def name_of(question: asks.Question[Any]) -> str:
    """The name of a method of log, cluster or Airflow, or of a question's class."""
    return question.method if isinstance(question, asks.Ask) else type(question).__name__


OWN = BatchOfRun(NAME, KEY, None)


DECIDE: Mapping[type, Any] = {
    RunsBatch: decide_run,
    Commit: decide_commit,
    Reset: decide_reset,
    LeaveOut: decide_leave_out,
    Redo: decide_redo,
    TakeOver: decide_take_over,
}


def decide_by(order: Order, facts: Facts) -> Decided | asks.Question[Any]:
    s = Situation(PIPELINE, STORE.uri)
    while True:
        try:
            decision: Decided = DECIDE[type(order)](order, s)
            return decision
        except Lacking as lacking:
            question = lacking.question
        if name_of(question) not in facts:
            return question
        s = s.with_answer(question, facts[name_of(question)])


# ── what is decided, in short ─────────────────────────────────────────────────────────────────────────────────────────


def ranges(made: Any) -> list[tuple[int, int]]:
    return [(p.start_offset, p.end_offset) for p in made.partitions]


def in_short(decision: Decided | asks.Question[Any]) -> tuple[Any, ...]:
    """What a row of the table says of a decision."""
    match decision:
        case Create(draft, number, _, after, claim):
            return "create", number, after if claim is None else claim, ranges(draft)
        case Replace(_, made):
            return "replace", made.reason, ranges(made), made.splits_to_start()
        case Do(batch, splits, taken) if taken and batch.log.committed:
            return "do again", splits, taken.attempts
        case Do(_, splits, taken):
            return "take", splits, taken is not None
        case Leave(_, taken):
            return "leave", taken is not None
        case Wait(batch):
            return "wait", batch.log.holder
        case Nothing():
            return ("nothing",)
        case Follow(_, Committed() as entry, proof):
            ends = None if entry.position is None else [kept.offset for kept in entry.position.offsets.values()]
            return "append", entry.by, ends, proof
        case Follow(batch, None, proof):
            return "follow", batch and batch.name, proof
        case SetPosition(moves, stays, create):
            return "set", create and create.number, [one.after.offset for one in moves], [str(one) for one in stays]
        case None:
            return ("look again",)
        case asks.Question():
            return "ask", name_of(decision)
    raise AssertionError(decision)


def asked(**fields: Any) -> Any:
    origin = fields.pop("output_origin", "fixed")
    fields = {"pipeline_id": PIPELINE, "auto_offset_reset": "earliest", **fields}
    return replace(request(**fields), output_origin=origin)


def run(**fields: Any) -> RunsBatch:
    return RunsBatch(asked(**fields), ME)


LATER_KEY = "0000000009-20261120T120000-aaaa"
SKIP = Skip(KEY, reason="bad")
OUT = "s3://lake/orders"
WITH_OUTPUT = stored(of=altered(PLAN, output=OUT, task=("billing", "resolve")))
BY_A_COPY = stored(of=altered(PLAN, output=OUT, task=("copied", "resolve")))
OF_STAGING = stored(of=altered(PLAN, instance=STAGING))
KEEPS_0 = altered(PLAN, verified={0: VerifiedSplit("an-earlier-plan", 4)})
LOST = "records are gone"
SHORTENED = stored(Taken(ME, NOW), of=shortened(PLAN, ME, {}, {tp(0): 12}, LOST))

TABLE = [
    # what is missing is asked for
    pytest.param(run(), {}, ("ask", "describe"), id="nothing is known"),
    pytest.param(run(), named(NewestBatch=LogNow(DONE, None)), ("ask", "describe"), id="the log alone is known"),
    pytest.param(run(), known(None), ("ask", "has_succeeded_before"), id="no log: has the task succeeded before?"),
    pytest.param(run(), known(OPEN), ("ask", "is_running"), id="another run's, unfinished: is it running?"),
    pytest.param(run(), known(MINE), ("ask", "RecordsOf"), id="own, unfinished: are its records there?"),
    pytest.param(run(), known(MINE, RecordsOf=there(12)), ("ask", "Reports"), id="some are gone: what is verified?"),
    pytest.param(run(), known(OPEN, is_running=False, RecordsOf=there()), ("ask", "failed_tasks"), id="how ended it?"),
    pytest.param(run(), known(DONE, OWN), ("ask", "read"), id="the run's own batch, by its name"),
    pytest.param(run(output=OUT), known(MINE), ("ask", "HasBegun"), id="an output: has a driver begun?"),
    # a new batch, or nothing
    pytest.param(
        run(), known(None, has_succeeded_before=False), ("create", 1, None, [(0, 25), (0, 9)]), id="the first batch"
    ),
    pytest.param(run(), known(DONE), ("create", 8, KEY, [(20, 25), (9, 9)]), id="the next one, from where 7 ended"),
    pytest.param(
        run(), known(DONE, RangeLookUps=logs((0, 20))), ("nothing",), id="nothing has come, nothing is to be recorded"
    ),
    pytest.param(run(), known(DONE, BatchOfRun(None)), ("nothing",), id="a run that had nothing to do at first"),
    pytest.param(
        run(restart="friday"), known(DONE, RangeLookUps=logs((0, 20))), ("create", 8, KEY, [(0, 20), (0, 9)]),
        id="restart: the startup mode decides once more",
    ),
    pytest.param(
        run(), known(None, held=marked({0: 20, 1: 9})), ("create", 8, KEY, [(20, 25), (9, 9)]),
        id="the log is lost: the group's marks are the position",
    ),
    pytest.param(
        run(group_moved="adopt-group"), known(DONE, held=marked({0: 22, 1: 9}, LATER_KEY)),
        ("create", 10, LATER_KEY, [(22, 25), (9, 9)]), id="an older log: the group's marks are adopted",
    ),
    pytest.param(
        run(group_moved="adopt-group"), known(DONE, held=somebodys({0: 15})), ("create", 8, KEY, [(15, 25), (9, 9)]),
        id="somebody's offset is adopted",
    ),
    pytest.param(
        run(group_moved="keep-checkpoint"), known(DONE, held=somebodys({0: 15})),
        ("create", 8, KEY, [(20, 25), (9, 9)]), id="somebody's offset is passed over",
    ),
    pytest.param(
        run(commit_mode="checkpoint-only"), known(DONE, held=somebodys({0: 15})),
        ("create", 8, KEY, [(20, 25), (9, 9)]), id="checkpoint-only does not look at the group",
    ),
    pytest.param(
        run(data_loss="advance"), known(DONE, RangeLookUps=logs((22, 25))), ("create", 8, KEY, [(22, 25), (9, 9)]),
        id="what was not read is gone: advance",
    ),
    pytest.param(
        run(topic_recreated="earliest"), known(DONE, describe=MADE_ANEW, RangeLookUps=logs((0, 3), (0, 2))),
        ("create", 8, KEY, [(0, 3), (0, 2)]), id="a topic made anew is read from its start",
    ),
    # an unfinished batch as it is
    pytest.param(run(), known(OPEN, is_running=True), ("wait", OTHER), id="its holder is running"),
    pytest.param(
        run(), known(OPEN, is_running=False, RecordsOf=there(), failed_tasks=[]), ("take", (0, 1), True),
        id="its holder is not: it is taken whole",
    ),
    pytest.param(run(), known(MINE, RecordsOf=there()), ("take", (0, 1), False), id="a retry appends nothing"),
    pytest.param(
        run(), known(MINE, RecordsOf=there(12), Reports=read_by(0)), ("take", (1,), False),
        id="records of a verified split are gone: only the other one is started",
    ),
    pytest.param(
        run(), known(MINE, RecordsOf=there(12), Reports=read_by(0, 1)), ("take", (), False),
        id="all is verified, and records are gone: no Spark is started",
    ),
    pytest.param(
        run(data_loss="advance"), known(MINE, RecordsOf=there(12), Reports=read_by(0)), ("take", (1,), False),
        id="advance gives up nothing that is verified",
    ),
    pytest.param(
        run(output=OUT, output_origin="templated sink"), known(stored(of=altered(PLAN, output="s3://lake/before")),
        is_running=False, HasBegun=True, RecordsOf=there(), failed_tasks=[]), ("take", (0, 1), True),
        id="a sink by a template takes the batch's output",
    ),
    # an unfinished batch planned anew in place
    pytest.param(
        run(data_loss="advance"), known(MINE, RecordsOf=there(12, 7), Reports=read_by(1)),
        ("replace", f"{LOST}: orders[0]: start offset 10 is below log start offset 12 (2 offsets are gone)",
         [(12, 20), (5, 9)], [0]), id="advance shortens it, and the verified split stays",
    ),
    pytest.param(
        run(data_loss="advance"), known(MINE, RecordsOf=there(ends=(18, 9)), Reports=read_by(0, 1),
                                         RangeLookUps=logs((0, 18))),
        ("replace", f"{LOST}: orders[0]: end offset 20 is beyond the end of the log, 18", [(10, 18), (5, 9)], [0, 1]),
        id="the log was cut, and all is verified: what it wrote is not in the log any more",
    ),
    pytest.param(
        run(data_loss="advance"), known(MINE, RecordsOf=there(ends=(18, 9)), Reports=read_by(1),
                                         RangeLookUps=logs((0, 18))),
        ("replace", f"{LOST}: orders[0]: end offset 20 is beyond the end of the log, 18", [(10, 18), (5, 9)], [0, 1]),
        id="the log was cut: it is planned anew, whatever is verified",
    ),
    pytest.param(
        run(topic_recreated="earliest"), known(MINE, describe=MADE_ANEW, RangeLookUps=logs((0, 3), (0, 2)),
                                               RecordsOf=RecordsNow(("orders: its id is another",)), Reports={}),
        ("replace", f"{LOST}: orders: its id is another", [(0, 3), (0, 2)], [0, 1]),
        id="the topic was made anew: so is the plan",
    ),
    pytest.param(
        run(re_plan=True), known(MINE, RecordsOf=there()), ("replace", "re_plan", [(10, 25), (5, 9)], [0, 1]),
        id="re_plan",
    ),
    pytest.param(
        run(re_plan=True, data_loss="advance"),
        known(MINE, RecordsOf=there(12), Reports=read_by(1), RangeLookUps=logs((12, 25))),
        ("replace", "re_plan", [(12, 25), (5, 9)], [0, 1]), id="re_plan, and what is gone was not verified",
    ),
    pytest.param(
        run(re_plan=True, data_loss="advance"),
        known(MINE, RecordsOf=there(12, ends=(18, 9)), RangeLookUps=logs((12, 18))),
        ("replace", "re_plan", [(12, 18), (5, 9)], [0, 1]), id="re_plan of a log that was cut: nothing of it stays",
    ),
    pytest.param(
        run(skip=Skip(KEY, ((tp(0), 11),), "bad")), known(SHORTENED, RecordsOf=there(12), Reports={}),
        ("take", (0, 1), False), id="a skip of what is lost meanwhile does nothing",
    ),
    pytest.param(
        run(restart="x"), known(MINE, RecordsOf=there()), ("replace", "restart x", [(0, 25), (0, 9)], [0, 1]),
        id="restart of it",
    ),
    pytest.param(
        run(group_moved="adopt-group"), known(MINE, held=somebodys({0: 15}), RecordsOf=there()),
        ("replace", "the group is adopted", [(15, 25), (5, 9)], [0, 1]), id="the group is adopted for it",
    ),
    pytest.param(
        run(skip=SKIP), known(MINE), ("replace", "skip: bad", [(20, 20), (9, 9)], [0, 1]), id="skip: all of it"
    ),
    pytest.param(
        run(skip=Skip(KEY, ((tp(0), 14),), "bad")), known(MINE, Reports=read_by(0, 1)),
        ("replace", "skip past orders[0]:14: bad", [(15, 20), (5, 9)], [0]),
        id="skip past an offset: the verified split stays",
    ),
    pytest.param(
        run(group_id="h"), known(MINE, RecordsOf=there()),
        ("replace", "its group is 'h'", [(10, 20), (5, 9)], [0, 1]), id="another group follows it",
    ),
    pytest.param(
        run(commit_mode="checkpoint-only"), known(MINE, RecordsOf=there()),
        ("replace", "no group follows it", [(10, 20), (5, 9)], [0, 1]), id="no group follows it any more",
    ),
    pytest.param(
        run(output=OUT), known(MINE, HasBegun=False),
        ("replace", f"its output is {OUT}", [(10, 20), (5, 9)], [0, 1]), id="another output, and nobody began",
    ),
    pytest.param(
        run(output="s3://new", output_changed="accept"), known(WITH_OUTPUT, is_running=False, HasBegun=True,
                                                                  RecordsOf=there()),
        ("replace", "its output is s3://new", [(10, 20), (5, 9)], [0, 1]), id="another output is accepted",
    ),
    # a committed batch
    pytest.param(
        run(), known(MINE_DONE, OWN, read=MINE_DONE, RecordsOf=there(), HighestAttempts={0: 2, 1: 1}),
        ("do again", (0, 1), {0: 2, 1: 1}), id="its own once more: it was cleared",
    ),
    pytest.param(run(), known(DONE, OWN, read=DONE), ("leave", False), id="another run has committed it"),
    pytest.param(
        run(redo=True), known(DONE, OWN, read=DONE, RecordsOf=there(), HighestAttempts={}),
        ("do again", (0, 1), {}), id="redo: whoever has committed it",
    ),
    pytest.param(
        run(), known(MINE_DONE, OWN, read=MINE_DONE, RecordsOf=there(12)), ("leave", False),
        id="its own, and its records are gone: what is written stays",
    ),
    pytest.param(
        run(), known(stored(committed(ME), Taken(ME, NOW, {0: 1})), OWN,
                     read=stored(committed(ME), Taken(ME, NOW, {0: 1})), RecordsOf=there(12)), ("leave", True),
        id="it was being done again, and its records went",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("order", "facts", "expected"), TABLE)
def test_what_a_run_does(order: Order, facts: Facts, expected: tuple[Any, ...]) -> None:
    assert in_short(decide_by(order, facts)) == expected


REFUSED = [
    (run(), known(OF_STAGING), errors.AnotherAirflow, "another Airflow's log"),
    (run(), known(DONE, held=marked({0: 20}, by=STAGING)), errors.AnotherAirflow, "another Airflow's marks"),
    (run(), known(None, held=marked({0: 20}, pipeline="another")), errors.AnotherPipeline, "another pipeline's group"),
    (run(), known(None, has_succeeded_before=True), errors.WorkStoreLost, "no log, and the task has succeeded before"),
    (run(), known(DONE, held=marked({0: 22}, LATER_KEY)), errors.StoreBehindGroup, "the group knows a later batch"),
    (run(), known(DONE, held=somebodys({0: 15})), errors.GroupMoved, "somebody wrote to the group"),
    (
        run(group_moved="adopt-group"),
        known(MINE_DONE, OWN, held=somebodys({0: 15}), read=MINE_DONE),
        errors.GroupMoved,
        "a committed batch cannot go on from an adopted group",
    ),
    (run(), known(DONE, OWN, read=None), errors.BatchGone, "its batch was cleaned away"),
    (run(), known(DONE, OWN, read=replace(OPEN, folder="elsewhere")), errors.BatchGone, "its batch was passed by"),
    (run(re_plan=True), known(DONE, OWN, read=DONE), errors.BatchClosed, "re_plan of a committed batch"),
    (run(skip=SKIP), known(DONE), errors.BatchClosed, "skip, and nothing is unfinished"),
    (run(skip=Skip(LATER_KEY)), known(MINE), errors.BatchClosed, "skip of another batch"),
    (run(skip=Skip(KEY, ((tp(0), 99),))), known(MINE, Reports={}), errors.InvalidRequest, "skip past its end"),
    (run(skip=Skip(KEY, ((tp(0), 9),))), known(SHORTENED, Reports={}), errors.InvalidRequest, "skip before its begin"),
    (
        run(re_plan=True, data_loss="advance"),
        known(MINE, RecordsOf=there(12), Reports=read_by(0)),
        errors.DataLoss,
        "re_plan of verified rows whose records are gone",
    ),
    (run(run_type="backfill"), known(DONE), errors.InvalidRequest, "a backfill run without a window"),
    (run(), known(DONE, RangeLookUps=logs((22, 25))), errors.DataLoss, "what comes next is gone"),
    (run(), known(DONE, describe=MADE_ANEW), errors.TopicRecreated, "the topic was made anew"),
    (run(), known(DONE, describe=ANOTHER_CLUSTER), errors.ClusterChanged, "another cluster answers"),
    (run(), known(MINE, RecordsOf=there(12), Reports=read_by(1)), errors.DataLoss, "an unread split lost records"),
    (
        run(),
        known(MINE, RecordsOf=there(ends=(18, 9)), Reports=read_by(1)),
        errors.DataLoss,
        "the log was cut below the end of an unread split",
    ),
    (
        run(redo=True),
        known(MINE_DONE, OWN, read=MINE_DONE, RecordsOf=there(12)),
        errors.DataLoss,
        "redo, and its records are gone",
    ),
    (
        run(output="s3://new"),
        known(WITH_OUTPUT, is_running=False, HasBegun=True),
        errors.InvalidRequest,
        "another output, and a driver has begun",
    ),
    (
        run(output="s3://new", output_origin="templated output"),
        known(WITH_OUTPUT, is_running=False, HasBegun=True),
        errors.InvalidRequest,
        "another path by a template, and a driver has begun",
    ),
    (
        run(output="s3://new"),
        known(BY_A_COPY, is_running=False, HasBegun=False),
        errors.InvalidRequest,
        "another task's output, also before a driver has begun",
    ),
    (
        run(output="s3://new", output_changed="accept"),
        known(WITH_OUTPUT, is_running=False, HasBegun=True, RecordsOf=there(12)),
        errors.DataLoss,
        "another output is accepted, and what is written in the old one is gone",
    ),
    (
        run(output="s3://new"),
        known(stored(committed(), of=BY_A_COPY.log.plan)),
        errors.InvalidRequest,
        "a new batch by another task into another output",
    ),
]


@pytest.mark.parametrize(("order", "facts", "error"), [pytest.param(*row[:3], id=row[3]) for row in REFUSED])
def test_what_a_run_is_refused(order: Order, facts: Facts, error: type[Exception]) -> None:
    with pytest.raises(error):
        decide_by(order, facts)


def test_a_split_that_an_earlier_plan_verified_stays_by_that_plan_and_its_attempt() -> None:
    facts = known(stored(Taken(ME, NOW), of=KEEPS_0), RecordsOf=there(12, 7), Reports={
        0: [Attempt(4, replace(report_of(KEEPS_0, 0, 4), plan_id="an-earlier-plan"))], 1: []
    })  # fmt: skip
    decision = decide_by(run(data_loss="advance"), facts)
    assert isinstance(decision, Replace)
    assert decision.plan.verified == KEEPS_0.verified
    assert decision.plan.splits[0] == KEEPS_0.splits[0]


@pytest.mark.parametrize(("log_starts", "splits"), [((), (0, 1)), ((0, 7), (0,))], ids=["all there", "some are gone"])
def test_a_split_that_a_plan_keeps_and_a_late_job_wrote_to_is_started_again(
    log_starts: tuple[int, ...], splits: tuple[int, ...]
) -> None:
    """Else nobody would ever verify it."""
    reports = {0: [Attempt(5)], 1: [Attempt(1, report_of(KEEPS_0, 1, 1))]}
    facts = known(stored(Taken(ME, NOW), of=KEEPS_0), RecordsOf=there(*log_starts), Reports=reports)
    decision = decide_by(run(), facts)
    assert isinstance(decision, Do)
    assert decision.splits == splits


# ── a window ──────────────────────────────────────────────────────────────────────────────────────────────────────────

HOUR = 3_600_000
CLAIM = TimeClaim(NOW - HOUR, NOW)
HOURLY = {
    "startup_mode": "timestamp",
    "bounded_mode": "timestamp",
    "window": True,
    "window_bounds": (NOW - HOUR, NOW),
    "group_follows": False,
    "batch": batch_name_of(CLAIM, PIPELINE),
    "task": ("billing", "resolve"),
}
HOUR_PLAN = plan(ROWS, splits=2, by=OTHER, **HOURLY)
WITHDRAWN = plan([planned(0, 20, 20), planned(1, 9, 9)], by=OTHER, withdrawn=True, reason="withdrawn", **HOURLY)
OF_HOUR = logs(starts={tp(0): 10, tp(1): 5}, ends={tp(0): 20, tp(1): 9}, newest={tp(0): NOW + 1, tp(1): NOW + 1})


def hour(*later: StoredEntry, of: Plan = HOUR_PLAN) -> StoredBatch:
    return StoredBatch(STORE, f"pipelines/g/windows/{CLAIM.name}", log_of([Planned(of), *later], 1))


def window(**fields: Any) -> RunsBatch:
    return RunsBatch(asked(startup=AtTimestamp(NOW - HOUR), bounded=AtTimestamp(NOW), **fields), ME)


def seen(found: StoredBatch | None, **more: Any) -> Facts:
    return {
        "describe": ORDERS,
        "look_at_window": (found, 1),
        "batch_of_run": None,
        "OffsetsOfGroup": GroupNow(None),
        "RangeLookUps": OF_HOUR,
        "SettingsOf": {},
        "WindowsBeside": (None, None, None),
        **named(**more),
    }


HOUR_DONE = hour(Committed(OTHER, NOW, HOUR_PLAN.plan_id, position=None))
FULL = [(10, 20), (5, 9)]


@pytest.mark.parametrize(
    ("order", "facts", "expected"),
    [
        pytest.param(window(), seen(None), ("create", 1, CLAIM, FULL), id="no run has planned it yet"),
        pytest.param(window(), seen(hour(), is_running=True), ("wait", OTHER), id="its holder is running"),
        pytest.param(
            window(), seen(hour(), is_running=False, RecordsOf=there(), failed_tasks=[]), ("take", (0, 1), True),
            id="unfinished: it is taken",
        ),
        pytest.param(
            window(), seen(HOUR_DONE, RecordsOf=there(), HighestAttempts={0: 1}), ("do again", (0, 1), {0: 1}),
            id="committed: each run writes it anew",
        ),
        pytest.param(
            window(), seen(HOUR_DONE, RecordsOf=there(12)), ("leave", False),
            id="committed, and its records are gone: its rows stay",
        ),
        pytest.param(
            window(re_plan=True), seen(HOUR_DONE, RecordsOf=there()), ("replace", "re_plan", FULL, [0, 1]),
            id="re_plan, also after the commit",
        ),
        pytest.param(
            window(), seen(hour(of=WITHDRAWN), is_running=False, RecordsOf=there()),
            ("replace", "it was withdrawn", FULL, [0]), id="one that was withdrawn is planned anew",
        ),
        pytest.param(
            window(data_loss="advance"),
            seen(hour(Taken(ME, NOW)), RecordsOf=there(12), Reports=read_by(1, of=HOUR_PLAN)),
            ("replace", f"{LOST}: orders[0]: start offset 10 is below log start offset 12 (2 offsets are gone)",
             [(12, 20), (5, 9)], [0]), id="advance shortens it in place",
        ),
    ],
)  # fmt: skip
def test_what_a_run_does_with_its_window(order: Order, facts: Facts, expected: tuple[Any, ...]) -> None:
    assert in_short(decide_by(order, facts)) == expected


@pytest.mark.parametrize(
    ("order", "facts", "error"),
    [
        pytest.param(
            window(), seen(None, batch_of_run=BatchOfRun(f"windows/{CLAIM.name}")), errors.BatchGone, id="cleaned away"
        ),
        pytest.param(window(), seen(hour(of=altered(HOUR_PLAN, instance=STAGING))), errors.AnotherAirflow, id="whose"),
        pytest.param(window(skip=SKIP), seen(HOUR_DONE), errors.BatchClosed, id="skip of a committed one"),
        pytest.param(window(skip=SKIP), seen(hour(), is_running=False), errors.BatchClosed, id="skip of another one"),
        pytest.param(
            window(re_plan=True), seen(HOUR_DONE, RecordsOf=there(12)), errors.DataLoss, id="re_plan, and they are gone"
        ),
        pytest.param(
            window(require_complete=True), seen(None, RangeLookUps=replace(OF_HOUR, newest={}, ends={})),
            errors.WindowIncomplete, id="records may still come",
        ),
    ],
)  # fmt: skip
def test_what_a_run_is_refused_of_its_window(order: Order, facts: Facts, error: type[Exception]) -> None:
    with pytest.raises(error):
        decide_by(order, facts)


# ── a commit ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def commit(require: RequireReport = True, plan_id: str = PLAN.plan_id, by: Actor = ME) -> Commit:
    return Commit(PlanReference(NAME, plan_id), by, NOW, require)


AGAIN = stored(committed(ME), Taken(ME, NOW, {0: 1, 1: 1}))
WHOLE = read_by(0, 1)
ANEW = {"orders": "orders: its id is another-id"}
BLIND = {
    split: [replace(one, report=replace(one.report, looked=False)) for one in found if one.report]
    for split, found in WHOLE.items()
}


@pytest.mark.parametrize(
    ("order", "facts", "expected"),
    [
        pytest.param(Commit(PlanReference(None), ME, NOW), {}, ("follow", None, None), id="the run had nothing to do"),
        pytest.param(commit(), {}, ("ask", "read"), id="nothing is known"),
        pytest.param(commit(), named(read=MINE), ("ask", "Reports"), id="what was read?"),
        pytest.param(commit(), named(read=MINE, Reports=WHOLE), ("ask", "RecordsOf"), id="of which log?"),
        pytest.param(
            commit(), named(read=MINE, Reports=WHOLE, RecordsOf=there()), ("ask", "committed"),
            id="the group comes last",
        ),
        pytest.param(
            commit(), named(read=MINE, Reports=WHOLE, RecordsOf=there(), committed={}),
            ("append", ME, [20, 9], "rows"), id="verified"
        ),
        pytest.param(
            commit(False), named(read=MINE, RecordsOf=there(), committed={}),
            ("append", ME, [20, 9], None), id="no report is asked for"
        ),
        pytest.param(
            commit(), named(read=MINE_DONE, Reports=WHOLE), ("follow", NAME, "rows"), id="it is on record already"
        ),
        pytest.param(
            commit(), named(read=AGAIN, Reports=read_by(0, 1, attempt=2), RecordsOf=there()),
            ("follow", NAME, "rows"), id="done once more, by newer attempts",
        ),
        pytest.param(
            commit(), named(read=MINE, Reports=WHOLE, RecordsOf=there(), committed=somebodys({0: 15})),
            ("ask", "TopicsThatExist"), id="somebody's offset: of which cluster?",
        ),
        pytest.param(
            commit(),
            named(
                read=MINE, Reports=WHOLE, RecordsOf=there(), committed=somebodys({0: 15}),
                TopicsThatExist=ANOTHER_CLUSTER,
            ),
            ("append", ME, [20, 9], "rows"), id="somebody's offset on another cluster",
        ),
            pytest.param(
            commit(False), named(read=MINE, RecordsOf=there(made_anew=ANEW)), ("ask", "Reports"),
            id="a topic was made anew, and no report is asked for: is there one?",
        ),
        pytest.param(
            commit(False), named(read=MINE, RecordsOf=there(made_anew=ANEW), Reports=WHOLE, committed={}),
            ("append", ME, [20, 9], None), id="a topic was made anew after all was reported",
        ),
    ],
)  # fmt: skip
def test_what_a_commit_does(order: Order, facts: Facts, expected: tuple[Any, ...]) -> None:
    assert in_short(decide_by(order, facts)) == expected


@pytest.mark.parametrize(
    ("order", "facts", "error"),
    [
        pytest.param(commit(), named(read=None, batch_of_run=OWN), errors.BatchGone, id="cleaned away"),
        pytest.param(commit(), named(read=None, batch_of_run=None), errors.StoreUnavailable, id="another store"),
        pytest.param(commit(), named(read=OF_STAGING), errors.AnotherAirflow, id="another Airflow's batch"),
        pytest.param(commit(plan_id="of-before"), named(read=MINE), errors.PlanReplaced, id="planned anew since"),
        pytest.param(commit(), named(read=MINE, Reports=read_by(0)), errors.ReadNotVerified, id="half is read"),
        pytest.param(commit(), named(read=AGAIN, Reports=WHOLE), errors.ReadNotVerified, id="not done once more"),
        pytest.param(
            commit(), named(
                read=MINE, Reports=WHOLE, RecordsOf=there(), committed=somebodys({0: 15}), TopicsThatExist=ORDERS
            ), errors.GroupMoved, id="somebody wrote to the group meanwhile",
        ),
            pytest.param(
            commit(False), named(read=MINE, RecordsOf=there(made_anew=ANEW), Reports=read_by(0)), errors.DataLoss,
            id="a topic was made anew, and half is reported",
        ),
        pytest.param(
            commit(), named(read=MINE, RecordsOf=there(made_anew=ANEW), Reports=BLIND), errors.DataLoss,
            id="a topic was made anew, and who has reported could not see it",
        ),
    ],
)  # fmt: skip
def test_what_a_commit_is_refused(order: Order, facts: Facts, error: type[Exception]) -> None:
    with pytest.raises(error):
        decide_by(order, facts)


# ── a person ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def reset(target: Any = None, **fields: Any) -> Reset:
    return Reset(target or "latest-offset", "why", PERSON, NOW, **fields)


def position_known(newest: StoredBatch | None = DONE, **more: Any) -> Facts:
    return {
        "NewestBatch": LogNow(newest, None),
        "TopicsThatExist": ORDERS,
        "committed": marked({0: 20, 1: 9}),
        "newest": newest,
        "describe_group": GroupDescription("Empty"),
        "RangeLookUps": logs(),
        **named(**more),
    }


@pytest.mark.parametrize(
    ("order", "facts", "expected"),
    [
        pytest.param(reset(), position_known(), ("set", 8, [25, 9], []), id="a reset to the end"),
        pytest.param(
            replace(reset("earliest-offset"), allow_duplicates=True), position_known(), ("set", 8, [0, 0], []),
            id="back to the start, where duplicates are meant",
        ),
        pytest.param(reset(), position_known(RangeLookUps=logs((0, 20))), ("set", None, [20, 9], []), id="no move"),
        pytest.param(reset(), {**position_known(), "newest": None}, ("look again",), id="the log went on meanwhile"),
        pytest.param(
            reset(OfGroup("h"), partitions=(tp(0), tp(1))), position_known(committed=marked({0: 20})),
            ("set", None, [20], ["orders[1]"]), id="to a group that holds one of two",
        ),
        pytest.param(
            LeaveOut(SKIP, NOW), named(NewestBatch=LogNow(OPEN, None)),
            ("replace", "skip: bad", [(20, 20), (9, 9)], [0, 1]), id="all of a batch is left out",
        ),
        pytest.param(
            LeaveOut(Skip(KEY, ((tp(0), 14),), "bad"), NOW), named(NewestBatch=LogNow(OPEN, None)),
            ("ask", "Reports"), id="up to an offset: what is verified?",
        ),
        pytest.param(
            LeaveOut(Skip(KEY, ((tp(0), 14),), "bad"), NOW),
            named(NewestBatch=LogNow(OPEN, None), Reports=read_by(1)),
            ("replace", "skip past orders[0]:14: bad", [(15, 20), (5, 9)], [0]), id="the verified split stays",
        ),
        pytest.param(
            LeaveOut(Skip(CLAIM.name, reason="bad"), NOW, window=True), named(find_window=HOUR_DONE),
            ("replace", "skip: bad", [(20, 20), (9, 9)], [0, 1]), id="a window, also a committed one",
        ),
        pytest.param(
            Redo(DONE, PERSON, NOW), named(read=DONE, RecordsOf=there(), HighestAttempts={0: 3}),
            ("do again", (0, 1), {0: 3}), id="redo by hand",
        ),
    ],
)  # fmt: skip
def test_what_a_persons_order_does(order: Order, facts: Facts, expected: tuple[Any, ...]) -> None:
    assert in_short(decide_by(order, facts)) == expected


@pytest.mark.parametrize(
    ("order", "facts", "error"),
    [
        pytest.param(reset(), position_known(None), errors.NoPosition, id="reset: no log"),
        pytest.param(reset(), position_known(OPEN), errors.ResetRefused, id="reset: a batch is unfinished"),
        pytest.param(reset("earliest-offset"), position_known(), errors.ResetRefused, id="reset: duplicates"),
        pytest.param(
            replace(reset(), me=Actor(None, STAGING)), position_known(), errors.AnotherAirflow,
            id="reset: whose Airflow",
        ),
        pytest.param(
            reset(), position_known(TopicsThatExist=ANOTHER_CLUSTER), errors.ClusterChanged, id="reset: another cluster"
        ),
        pytest.param(
            reset(), position_known(TopicsThatExist=MADE_ANEW), errors.TopicRecreated, id="reset: a topic made anew"
        ),
        pytest.param(
            reset(), position_known(TopicsThatExist=None), errors.NothingToDiscover, id="reset: no topic is there"
        ),
        pytest.param(
            reset(), position_known(committed=marked({0: 22}, LATER_KEY)), errors.StoreBehindGroup, id="reset: old log"
        ),
        pytest.param(
            reset(), position_known(committed=somebodys({0: 15})), errors.GroupMoved, id="reset: somebody's offset"
        ),
        pytest.param(
            reset(), position_known(describe_group=GroupDescription("Stable", ("a member",))), errors.GroupActive,
            id="reset: live members",
        ),
        pytest.param(
            reset(OfGroup("h")), position_known(committed={}), errors.NoCommittedOffset, id="reset: to a group without"
        ),
        pytest.param(reset(topics=("clicks",)), position_known(), errors.NoPosition, id="reset: a topic without one"),
        pytest.param(
            LeaveOut(SKIP, NOW), named(NewestBatch=LogNow(None, None)), errors.NoPosition, id="leave out: no batch"
        ),
        pytest.param(
            LeaveOut(SKIP, NOW), named(NewestBatch=LogNow(DONE, None)), errors.BatchClosed, id="leave out: committed"
        ),
        pytest.param(
            LeaveOut(Skip(LATER_KEY), NOW), named(NewestBatch=LogNow(OPEN, None)), errors.BatchClosed,
            id="leave out: another batch",
        ),
        pytest.param(
            LeaveOut(SKIP, NOW, window=True), named(find_window=None), errors.NoPosition, id="leave out: no such window"
        ),
        pytest.param(Redo(OPEN, PERSON, NOW), named(read=OPEN), errors.BatchClosed, id="redo: not committed"),
        pytest.param(Redo(DONE, PERSON, NOW), named(read=None), errors.BatchClosed, id="redo: cleaned away"),
        pytest.param(
            Redo(DONE, PERSON, NOW), named(read=DONE, RecordsOf=there(12)), errors.DataLoss,
            id="redo: records are gone",
        ),
        pytest.param(
            Redo(DONE, Actor(None, STAGING), NOW), named(read=DONE), errors.AnotherAirflow, id="redo: whose Airflow"
        ),
    ],
)  # fmt: skip
def test_what_a_persons_order_is_refused(order: Order, facts: Facts, error: type[Exception]) -> None:
    with pytest.raises(error):
        decide_by(order, facts)


# ── the order of the looks ────────────────────────────────────────────────────────────────────────────────────────────


class NotInTheRow(Exception):
    """What a row does not say was asked."""


class Asked:
    """A world that writes down what it is asked."""

    def __init__(self, facts: Facts) -> None:
        self.facts, self.asked = facts, list[str]()
        self.pipeline = type("Log", (), {"pipeline_id": PIPELINE, "store": STORE})

    def answer(self, question: Any) -> Any:
        self.asked.append(name_of(question))
        if name_of(question) not in self.facts:
            raise NotInTheRow
        return self.facts[name_of(question)]


@pytest.mark.parametrize(
    ("order", "facts", "looks"),
    [
        pytest.param(run(), known(DONE), ["describe", "OffsetsOfGroup", "NewestBatch"], id="a run"),
        pytest.param(
            window(), seen(None), ["describe", "look_at_window"], id="a window needs the group only for ranges"
        ),
        pytest.param(commit(), named(read=OPEN), ["read", "Reports"], id="a commit looks at the group last"),
        pytest.param(Commit(PlanReference(None), ME, NOW), {}, [], id="a commit of nothing"),
        pytest.param(
            reset(), position_known(), ["NewestBatch", "TopicsThatExist"], id="a reset looks at the log first"
        ),
        pytest.param(LeaveOut(SKIP, NOW), {}, ["NewestBatch"], id="who leaves out asks no cluster"),
        pytest.param(Redo(DONE, PERSON, NOW), {}, ["read"], id="redo looks for its batch alone"),
    ],
)
def test_each_order_looks_in_the_order_of_the_rules(order: Order, facts: Facts, looks: list[str]) -> None:
    """The group before the log: the key of a batch that the log does not know then means that the log is old."""
    world: Any = Asked(facts)
    with suppress(NotInTheRow, errors.KafkaOffsetsError):
        decided(partial(DECIDE[type(order)], order), world)
    assert world.asked[: len(looks) or None] == looks


def test_every_question_has_one_answerer() -> None:
    """A question without one would end a run in the middle."""
    kinds = {*asks.Question.__subclasses__(), *asks.About.__subclasses__()} - {asks.About}
    source = World.answer.__code__.co_names
    assert {kind.__name__ for kind in kinds} <= set(source)


def test_a_question_that_was_answered_is_not_asked_again() -> None:
    assert ME.run is not None
    assert OTHER.run is not None
    empty = Situation(PIPELINE, STORE.uri)
    with pytest.raises(asks.Lacking) as lacking:
        empty.airflow(NoAirflow.is_running, OTHER.run)
    s = empty.with_answer(lacking.value.question, True)
    assert s.airflow(NoAirflow.is_running, OTHER.run) is True
    with pytest.raises(asks.Lacking):
        s.airflow(NoAirflow.is_running, ME.run)


def test_a_number_stays_above_the_newest_batch_and_the_groups_mark() -> None:
    held = marked({0: 20, 1: 9}, KEY)
    older = stored(committed(), of=altered(PLAN, batch=BatchName("0000000003-20261120T030000-bbbb", 3)))
    decision = decide_by(run(group_moved="adopt-group"), known(older, held=held))
    assert in_short(decision)[:2] == ("create", 8)
