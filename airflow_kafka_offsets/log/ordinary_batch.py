"""The batches in which an audit finds nothing, told by their commits alone.

Nearly all are so. A batch goes on from the commit before it, and its own commit says where it ended: what lies between
the two positions is what it had to read. The commit has the digest of what the reports said, and that has to be the
digest of just these offsets, each once. So the commit is held against the reads, and not against itself: who commits
what was not read, or writes down another position, has a digest that does not fit.

What must stay true: of a batch that is ordinary here, a whole reading (``log/audit.py``) finds nothing in its plan, its
reports and its commit, unless one of these was changed after the commit. Whatever is not exactly as most batches are is
read whole; so is what cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from operator import sub
from typing import Any

from airflow_kafka_offsets.errors import StoreDamaged
from airflow_kafka_offsets.json_columns import read_as
from airflow_kafka_offsets.kafka_values import Actor
from airflow_kafka_offsets.log.audit import AuditedBatch, OrdinaryBatch
from airflow_kafka_offsets.log.entries import VERSION
from airflow_kafka_offsets.log.read_reports import sole_attempts
from airflow_kafka_offsets.log.verify_reads import digest_of_reads
from airflow_kafka_offsets.plan.plan import BatchName
from airflow_kafka_offsets.stores.objects import read_object
from airflow_kafka_offsets.stores.store import Store

Json = Mapping[str, Any]
_UNUSUAL = ("lost", "skipped", "reason", "withdrawn")


def ordinary_batches(store: Store, folders: Mapping[str, Sequence[str]]) -> dict[str, OrdinaryBatch]:
    """Those of the batches, by their folders, that are ordinary; the first one goes on from what is not known.

    :param folders: in the order of the batches, with what each folder holds.
    """
    found: dict[str, OrdinaryBatch] = {}
    before: Json | None = None
    for folder, names in folders.items():
        attempts = sole_attempts(names)
        try:
            commit = None if attempts is None else read_object(store, commit_in(folder), dict)
            if commit and before and attempts is not None and (batch := _ordinary(before, commit, attempts)):
                found[folder] = batch
        except (StoreDamaged, LookupError, TypeError, ValueError, AttributeError):
            commit = None
        before = commit
    return found


def commit_in(folder: str) -> str:
    """The object that is the commit of a batch that was planned once, and that no other run has taken."""
    return f"{folder}/2.json"


def _ordinary(before: Json, commit: Json, attempts: Mapping[int, int]) -> OrdinaryBatch | None:
    """The batch of a commit; ``None``: it has to be read whole.

    :param before: the commit of the batch before; :param attempts: of each split the only one.
    """
    summary, began, ended = commit["summary"], before["position"], commit["position"]
    number, plan_id, output = summary["number"], commit["plan_id"], summary["output"]
    splits = [(split, attempts[split], plan_id, output) for split in sorted(attempts)]
    topics = _offsets_between(began, ended)
    records = sum(sum(columns[1]) for columns in topics.values())
    is_ordinary = (
        (before["version"], commit["version"]) == (VERSION, VERSION)
        and (before["entry"], commit["entry"], summary["plan"]) == ("commit", "commit", 1)
        and before["summary"]["number"] + 1 == number
        and _without_offsets(began) == _without_offsets(ended)
        and not any(summary[name] for name in _UNUSUAL)
        and not commit["set_aside"]
        and not commit["left_out"]
        and summary["records"] == records
        and commit["reads"] == digest_of_reads(splits, topics)
    )
    if not is_ordinary:
        return None
    name = BatchName(summary["key"], number)
    by, at_ms = read_as(Actor, commit["by"]), commit["at_ms"]
    return OrdinaryBatch(AuditedBatch(name.key, str(name), "committed", by, at_ms, records), name, ended)


def _offsets_between(began: Json, ended: Json) -> dict[str, list[list[int]]]:
    """What the reports say of each topic where each offset between two positions was read once."""
    topics = {}
    for topic, now in ended["offsets"].items():
        starts, ends = began["offsets"][topic]["offset"], now["offset"]
        sizes = list(map(sub, ends, starts))
        if any(sizes):
            columns = (now["partition"], sizes, sizes, starts, [end - 1 for end in ends])
            topics[topic] = [list(compress(column, sizes)) for column in columns]
    return topics


def _without_offsets(position: Json) -> Json:
    return {**position, "offsets": {topic: of_it["partition"] for topic, of_it in position["offsets"].items()}}
