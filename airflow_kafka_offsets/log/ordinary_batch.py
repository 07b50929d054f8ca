"""The batches in which an audit finds nothing, told by their columns.

Nearly all are so. They are read in a seventh of the time, because no partition becomes a value of its own.

What must stay true: of a batch that is ordinary here, a whole reading (``log/audit.py``) finds nothing in its plan, its
reports and its commit. Whatever is not exactly as most batches are is read whole; so is what cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import ge, le, sub
from typing import Any

from airflow_kafka_offsets.errors import StoreDamaged
from airflow_kafka_offsets.log.audit import AuditedBatch, BatchRecord, OrdinaryBatch
from airflow_kafka_offsets.log.entries import VERSION as ENTRY
from airflow_kafka_offsets.log.read_reports import sole_reports
from airflow_kafka_offsets.log.verify_reads import VERSION as REPORT
from airflow_kafka_offsets.plan.plan import BatchName
from airflow_kafka_offsets.plan.plan_json import VERSION as PLAN
from airflow_kafka_offsets.plan.plan_json import actor_from_dict
from airflow_kafka_offsets.stores.objects import read_object
from airflow_kafka_offsets.stores.store import Store

Json = Mapping[str, Any]
Pieces = dict[int, dict[str, list[Sequence[int]]]]  # split → topic → partition, start and end of each
_UNUSUAL = ("window", "restarted", "verified", "overwrites", "reason", "withdrawn")


def ordinary_batch(
    store: Store, folder: str, names: Sequence[str], whole: Callable[[], BatchRecord | None]
) -> OrdinaryBatch | None:
    """The batch in a folder; ``None``: it has to be read whole.

    :param names: what the folder holds.
    """
    reports = sole_reports(names)
    if reports is None:
        return None
    try:
        planned, commit = (_json(store, f"{folder}/{number}.json") for number in (1, 2))
        plan, began, ended = planned["plan"], planned["position"], commit["position"]
        pieces = _pieces(plan["topics"])
        is_ordinary = (
            (planned["version"], commit["version"], plan["version"]) == (ENTRY, ENTRY, PLAN)
            and (planned["entry"], commit["entry"], commit["plan_id"]) == ("plan", "commit", plan["plan_id"])
            and not any(plan[name] for name in _UNUSUAL)
            and not commit["set_aside"]
            and not commit["left_out"]
            and plan["cluster_id"] == began["cluster_id"] == ended["cluster_id"]
            and began["topics"].keys() == ended["topics"].keys() >= plan["topics"].keys()
            and all(
                _joins(plan["topics"].get(name), began["topics"][name], after)
                for name, after in ended["topics"].items()
            )
            and pieces.keys() == reports.keys()
            and all(_is_read(n, plan, pieces[n], _json(store, f"{folder}/{name}")) for n, name in reports.items())
        )
        if not is_ordinary:
            return None
        name = BatchName(plan["batch"]["key"], plan["batch"]["number"])
        size = sum(end - start for topics in pieces.values() for rows in topics.values() for _, start, end in rows)
        audited = AuditedBatch(name.key, str(name), "committed", actor_from_dict(commit["by"]), commit["at_ms"], size)
        return OrdinaryBatch(audited, plan["batch"]["number"], began, ended, whole)
    except (StoreDamaged, LookupError, TypeError, ValueError, AttributeError):
        return None


def _json(store: Store, name: str) -> Json:
    return read_object(store, name, dict) or {}


def _pieces(topics: Json) -> Pieces:
    """What each split reads; a partition that more than one reads is none that a split can be found by."""
    pieces: Pieces = {}
    for topic, of_it in topics.items():
        rows = zip(of_it["split"], of_it["partition"], of_it["start_offset"], of_it["end_offset"], strict=True)
        for split, *row in rows:
            if split is not None:
                pieces.setdefault(split, {}).setdefault(topic, []).append(row)
    return pieces


def _joins(plan: Json | None, began: Json, ended: Json) -> bool:
    """Whether a topic's partitions start at the position before, and end at the one after."""
    if plan is None:
        return bool(began == ended)
    return (
        plan["topic_id"] == began["topic_id"] == ended["topic_id"]
        and plan["partition"] == began["partition"] == ended["partition"]
        and plan["start_offset"] == plan["position"] == began["offset"]
        and plan["end_offset"] == ended["offset"]
        and not any(map(any, (plan["lost"], plan["skipped"], plan["gap"])))
    )


def _is_read(split: int, plan: Json, pieces: Mapping[str, list[Sequence[int]]], report: Json) -> bool:
    """Whether the report proves what the split has to read."""
    return (
        (report["version"], report["plan_id"], report["split"]) == (REPORT, plan["plan_id"], split)
        and report["wrote"] is True
        and plan["output"] in (None, report["output"])
        and report["topics"].keys() == pieces.keys()
        and all(_is_whole(report["proof"], pieces[topic], columns) for topic, columns in report["topics"].items())
    )


def _is_whole(proof: str, pieces: list[Sequence[int]], read: Json) -> bool:
    numbers, starts, ends = map(list, zip(*pieces, strict=True))
    return (
        read["partition"] == numbers
        and read["row_count"] == read["offset_count"]
        and all(map(ge, read["first_offset"], starts))
        and all(map(le, (last + 1 for last in read["last_offset"]), ends))
        and (proof in ("scan", "merged", "compared") or read["row_count"] == list(map(sub, ends, starts)))
    )
