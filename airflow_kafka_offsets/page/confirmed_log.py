"""The log as an action that a person confirms may write to it: what they looked at has to be the last that it has.

That is known by the names of what would come next. It is looked at when the action begins, and once more just before
it writes: who decided after another one's write finds it there, and who decided before it wants to create the same
name. So of two who confirm at one moment one acts, and the other is told what happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from airflow_kafka_offsets.cli.batch_tables import entries_of
from airflow_kafka_offsets.cli.option_values import find_batch
from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, read_what_is_left
from airflow_kafka_offsets.plan.window_claims import name_of
from airflow_kafka_offsets.stores.objects import decode

T = TypeVar("T")


class MovedOn(Exception):
    """Somebody has written to the log since the person looked; nothing was done."""


def next_entries(log: PipelineLog, fields: Mapping[str, str]) -> list[str]:
    """The next entry of the newest batch, the first of the batch after it, and the next one of the batch that is named.

    :param fields: of the action's form.
    :raises NoPosition: the batch that is named is not there.
    """
    newest, named = log.newest(), fields.get("batch") or fields.get("window")
    number = newest.log.plan.batch.number if newest else None
    batches = [*filter(None, (newest,)), *([find_batch(log, named)] if named else [])]
    after = f"{log.folder_of((number or 0) + 1)}/1.json"
    return list(dict.fromkeys([after, *(batch.next_object for batch in batches)]))


def if_still(log: PipelineLog, fields: Mapping[str, str], seen: Sequence[str], act: Callable[[PipelineLog], T]) -> T:
    """What ``act`` returns, which is given the log.

    :param seen: what :func:`next_entries` gave when the person looked.
    :raises MovedOn: the log has moved on since, or does so before ``act`` has begun to write.
    """
    if list(seen) != next_entries(log, fields):
        raise MovedOn(_what_happened(log, seen))
    store = _NextAlone(log, fields, seen)
    try:
        return act(PipelineLog(store, log.pipeline_id))
    except KafkaOffsetsError:  # perhaps because of what the other one has done
        if store.has_begun or next_entries(log, fields) == list(seen):
            raise
        raise MovedOn(_what_happened(log, seen)) from None


class _NextAlone:
    """The store of the log. Just before the first object is created in it, the log is still what was seen."""

    def __init__(self, log: PipelineLog, fields: Mapping[str, str], seen: Sequence[str]) -> None:
        store = self._store = log.store
        self.uri, self.driver_uri, self.is_remote = store.uri, store.driver_uri, store.is_remote
        self._log, self._fields, self._seen, self.has_begun = log, fields, list(seen), False
        self.get, self.list, self.delete = store.get, store.list, store.delete

    def create(self, name: str, data: bytes) -> bool:
        if self.has_begun or not name.startswith(f"{self._log.root}/"):
            return self._store.create(name, data)
        folder, _, entry = name.removesuffix(".json").rpartition("/")
        before = read_what_is_left(self._store, folder)
        if next_entries(self._log, self._fields) != self._seen or not self._store.create(name, data):
            raise MovedOn(_what_happened(self._log, self._seen))
        plan = decode(data).get("plan")
        if before and plan and plan["plan_id"] == before.log.plan.plan_id:  # once more, so that a late driver stops:
            after = f"{folder}/{int(entry) + 1}.json"  # two may have written the same
            self._seen = [after if one == name else one for one in self._seen]
        else:
            self.has_begun = True
        return True


def _what_happened(log: PipelineLog, seen: Sequence[str]) -> str:
    """Who has written one of the entries that were to come next, and what."""
    words = ["The pipeline has moved on since you looked."]
    for name in seen:
        folder, _, entry = name.removesuffix(".json").rpartition("/")
        batch = read_what_is_left(log.store, folder)
        rows = entries_of(batch).rows if batch else ()
        title = name_of(batch.log.plan).capitalize() if batch else ""
        words += [f"{title}, {row['at']}: {row['what']}." for row in rows if row["entry"] == int(entry)]
    return " ".join([*words, "Nothing was done for you. Look again."])
