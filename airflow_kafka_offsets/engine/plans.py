# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The header of a plan, and its entry: the identity and request behind it, and what the output must have before."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

from airflow_kafka_offsets.engine.state import Turn
from airflow_kafka_offsets.log.entries import Batch, Before, Plan, new_key
from airflow_kafka_offsets.log.identity import Identity
from airflow_kafka_offsets.plan.body import PlanBody


def first_plan(turn: Turn, number: int, body: PlanBody, before: Batch | None, unfinished: tuple[int, ...] = ()) -> Plan:
    """The first plan of a batch. Its body is written; the entry is not.

    :param before: the newest batch, or in sequence the newest committed one.
    """
    plan, expects = _plan(turn, number, 1, body), _expected_key(turn, before)
    return replace(plan, expects=expects, unfinished=unfinished, before=_before(before))


def _plan(turn: Turn, number: int, k: int, body: PlanBody) -> Plan:
    request, identity, log = turn.request, turn.identity, turn.log
    return Plan(
        pipeline=log.pipeline_id,
        number=number,
        key=_new_key(turn, number),
        plan_id=secrets.token_hex(8),
        by=turn.run,
        at_ms=request.now_ms,
        asked=request.asked,
        kind=identity.kind,
        window=request.window,
        isolation_level=request.isolation_level,
        require_report=request.require_report,
        group_id=request.group_id,
        cluster_id=turn.look.description.cluster_id,
        topics=turn.look.topics(body.ranges),
        offsets=body.offsets,
        partitions=len(body.ranges),
        newest=identity.kind == "sequence",
        given_up=body.given_up,
        ranges=log.write_body(number, k, body),
        **_of(identity),
    )


def later_plan(turn: Turn, batch: Batch, body: PlanBody) -> Plan:
    """A batch planned again, whole, by today's request."""
    old = batch.plan
    before = None if old.window is not None else turn.shard.head.committed
    return replace(
        _plan(turn, batch.number, len(batch.entries) + 1, body),
        key=_kept_key(turn, batch),
        window=old.window,
        expects=_expected_key(turn, before) if old.window is None else kept_expectation(turn, old),
        unfinished=old.unfinished,
        before=_before(before),
    )


def rewritten(turn: Turn, plan: Plan, *, from_outputs: bool = False) -> Plan:
    """A committed batch that its run writes again: the same plan under a new id, still of the identity that it was
    planned under, whose starts it has applied."""
    return replace(
        plan,
        plan_id=secrets.token_hex(8),
        by=turn.run,
        at_ms=turn.request.now_ms,
        expects=kept_expectation(turn, plan),
        newest=False,  # the next batch may be written beside it
        from_outputs=from_outputs,
        **{name: value for name, value in _of(turn.identity).items() if name != "identity"},
    )


def _of(identity: Identity) -> dict[str, Any]:
    return {
        "identity": identity.number,
        "log": identity.log,
        "adopted": identity.adopted,
        "bases": identity.bases,
        "output": identity.output,
    }


def _before(batch: Batch | None) -> Before | None:
    ranges = batch.commits[-1].ranges if batch is not None and batch.is_committed else None
    return None if batch is None or ranges is None else Before(batch.plan.key, batch.plan.identity, ranges)


def _new_key(turn: Turn, number: int) -> str:
    return new_key(number + turn.identity.bases[-1], turn.log.shard, secrets.token_hex(6))


def _kept_key(turn: Turn, batch: Batch) -> str:
    """Rows that an attempt has written into the output are found by their key. Where none has begun, the key is kept,
    too, unless it sorts before adopted rows: a log that is an older copy does not know all attempts."""
    plan, output, highest = batch.plan, turn.identity.output, max(turn.identity.adopted.values(), default="")
    if plan.key == batch.first_plan.key > highest:
        return plan.key
    begun = [turn.log.begun(batch, attempt) for attempt in batch.attempts]
    here = {b["plan_id"] for b in begun if None in (b["output"], output) or b["output"] == output}
    keys = [each.key for each in batch.plans if each.plan_id in here]
    return keys[-1] if keys else plan.key if plan.key > highest else _new_key(turn, batch.number)


def _expected_key(turn: Turn, before: Batch | None) -> str | None:
    """The key of the newest committed batch that must be in the output: one with rows that nobody has given up.

    ``None`` if the output has changed since.
    """
    output = turn.identity.output
    if before is None or output is None or before.plan.output != output:
        return None
    has_rows = before.is_committed and before.commits[-1].rows
    return _not_given_up(turn, before.plan.key if has_rows else before.plan.expects)


def kept_expectation(turn: Turn, plan: Plan) -> str | None:
    """The key that the plan expects, unless the output has changed since; of given up rows, the key before."""
    return None if plan.output != turn.identity.output else _not_given_up(turn, plan.expects)


def _not_given_up(turn: Turn, key: str | None) -> str | None:
    while key is not None and key in turn.identity.rows:
        batch = turn.shard.batch_of(key, turn.identity.bases)
        key = None if batch is None else batch.plan.expects
    return key
