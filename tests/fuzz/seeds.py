"""Valid documents, made by the code itself: what bad ones are made from."""

from __future__ import annotations

from typing import Any

from airflow_kafka_offsets.log.entries import Cleaned, Committed, Planned, Taken, entry_to_dict
from airflow_kafka_offsets.plan.commit_metadata import CommitMetadata
from airflow_kafka_offsets.plan.plan import Plan, VerifiedSplit
from airflow_kafka_offsets.plan.planned_anew import shortened
from airflow_kafka_offsets.plan.position import position_after
from airflow_kafka_offsets.plan.window_claims import OffsetClaim, TimeClaim
from tests.builders import NOW, PIPELINE, altered, planned, position, tp
from tests.stores.builders import actor, key_of, plan_of, report_of, window_plan

LOG_PLAN: Plan = altered(
    plan_of(2, [planned(tp(0, "bills"), 7, 7), planned(0, 10, 20, committed_offset=10, lost=1), planned(1, 0, 5)]),
    splits=2,
    overwrites=(1,),
    restarts=("again",),
    warnings=("a warning",),
    ignored=(tp(9),),
    vanished=("old",),
    interval=(NOW - 3_600_000, NOW),
    timestamp_types={"orders": "CreateTime"},
)
WINDOW_PLAN = window_plan(
    TimeClaim(NOW - 3_600_000, NOW, (("orders", NOW - 3_600_000, NOW),)),
    window_bounds_by_topic={"orders": (NOW - 3_600_000, NOW)},
    window_complete=True,
    low_watermark_ms=NOW,
)
OFFSETS_PLAN = window_plan(OffsetClaim((("orders", "id-of-orders", 0, 3, 9),)))
KEPT = {0: VerifiedSplit(LOG_PLAN.plan_id, 3)}
SHORT_PLAN = shortened(LOG_PLAN, actor("b"), KEPT, {tp(0): 14, tp(1): 2}, "records are gone")
PIECES_PLAN = plan_of(2, [planned(0, 0, 30_000), planned(1, 0, 5)], splits=3, task=("billing", "resolve"))
PLANS = (LOG_PLAN, WINDOW_PLAN, OFFSETS_PLAN, SHORT_PLAN, PIECES_PLAN)
BEFORE = position({0: 10, 1: 0, tp(0, "bills"): 7}, restarts=("again",))

ENTRIES: list[dict[str, Any]] = [
    *(entry_to_dict(Planned(plan, None if plan.asked.window else BEFORE)) for plan in PLANS),
    entry_to_dict(Taken(actor("b"), NOW, {0: 1, 1: 3})),
    entry_to_dict(
        Committed(actor("a"), NOW, LOG_PLAN.plan_id, reads="0" * 32, position=position_after(LOG_PLAN, BEFORE))
    ),
    entry_to_dict(Committed(actor("a"), NOW, WINDOW_PLAN.plan_id, position=None)),
    entry_to_dict(Cleaned()),
]
REPORTS = [report_of(LOG_PLAN, split, 1).to_dict() for split in (0, 1)]
OWNERS = [{"version": 1, "output": "s3://lake/orders", "owner": {"pipeline": PIPELINE, "kind": "log"}}]
RUNS = [{"version": 1, "folder": f"batches/00000000/{2:010}", "key": key_of(2), "output": "s3://lake/orders"}]
MARKS = [CommitMetadata(PIPELINE, "airflow.example.com", key).encode() for key in (None, key_of(7))]
