"""``on_loss`` and ``on_bad_records``: whom a green run calls that has lost records, or set some aside.

They take what Airflow's own ``on_failure_callback`` takes, and are called as that is: with the task's context, in which
``kafka_offsets`` has the figures. What must stay true:

- the commit is on record before, and nothing of it depends on what they do;
- the run that did the batch calls, and no run that finds it done. A retry or a clear of its commit task calls again: it
  may have died just after the commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.kafka_values import RunKey, values_by_topic

if TYPE_CHECKING:
    from airflow_kafka_offsets.batch.carry_out import CommitOutcome

log = logging.getLogger(__name__)
Callback = Callable[[Any], Any]
Callbacks = Callback | Sequence[Callback] | None


def callbacks_of(given: Callbacks) -> list[Callback]:
    """As a list."""
    if given is None:
        return []
    return list(given) if isinstance(given, Sequence) else [given]


def callback_problems(**given: Callbacks) -> list[str]:
    return [
        f"{name} is {value!r}; give a function of the context, a notifier, or a list of them."
        for name, value in given.items()
        if isinstance(value, str) or not all(map(callable, callbacks_of(value)))
    ]


def call_for_batch(
    outcome: CommitOutcome,
    me: RunKey | None,
    context: Mapping[str, Any],
    reference: Mapping[str, Any],
    *,
    on_loss: Callbacks,
    on_bad_records: Callbacks,
) -> None:
    """Call whom this batch gives a reason to call.

    :param reference: the resolve task's XCom ``plan``.
    """
    batch, plan = outcome.batch, outcome.plan
    if batch is None or plan is None:
        return
    done = batch.log.redone or batch.log.committed
    if done is None or done.by.run != me:
        return
    about = {
        "pipeline": reference["pipeline"],
        "work_store": reference["work_store"],
        "stored_as": batch.name,
        "batch": plan.batch.key,
        "plan_id": plan.plan_id,
        "group_id": plan.asked.group_id,
        "output": plan.asked.output,
    }
    if plan.lost:
        lost = {
            p.topic_partition: {
                "lost": p.lost,
                "position": p.position,
                "start_offset": p.start_offset,
                "end_offset": p.end_offset,
                "reason": p.start_reason,
            }
            for p in plan.partitions
            if p.lost
        }
        _call("on_loss", on_loss, context, {**about, "lost": plan.lost, "topics": values_by_topic(lost)})
    if set_aside := outcome.fates.set_aside:
        found = {
            "set_aside": set_aside,
            "topics": {topic: count for topic, (_, count, _) in outcome.fates.topics.items() if count},
            "bad_records_output": reference.get("bad_records_output"),
        }
        _call("on_bad_records", on_bad_records, context, {**about, **found})


def _call(name: str, callbacks: Callbacks, context: Mapping[str, Any], figures: Mapping[str, Any]) -> None:
    for callback in callbacks_of(callbacks):
        try:
            callback({**context, "kafka_offsets": dict(figures)})  # a notifier puts more into it
        except Exception:  # any: the batch is committed, whatever becomes of this
            log.exception("%s has failed in %r: nobody was called. The batch is committed.", name, callback)
