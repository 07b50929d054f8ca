"""The header of a plan, and the entry with it: by what it was planned, and what the output must have before it."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

from airflow_kafka_offsets.engine.look import Look
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.log.entries import Batch, Before, Plan, new_key
from airflow_kafka_offsets.log.identity import Identity
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.body import PlanBody


def first_plan(
    look: Look,
    log: PipelineLog,
    identity: Identity,
    run: RunKey,
    number: int,
    body: PlanBody,
    before: Batch | None,
    unfinished: tuple[int, ...] = (),
) -> Plan:
    """The first plan of a batch. Its body is written; the entry is not.

    :param before: the newest batch, or in sequence the newest committed one.
    """
    plan = _plan(look, log, identity, run, number, 1, body)
    return replace(plan, expects=expected_key(identity, before), unfinished=unfinished, before=_before(before))


def _plan(look: Look, log: PipelineLog, identity: Identity, run: RunKey, number: int, k: int, body: PlanBody) -> Plan:
    request = look.request
    return Plan(
        pipeline=log.pipeline_id,
        number=number,
        key=_new_key(log, identity, number),
        plan_id=secrets.token_hex(8),
        by=run,
        at_ms=request.now_ms,
        asked=request.asked,
        kind=identity.kind,
        window=request.window,
        isolation_level=request.isolation_level,
        require_report=request.require_report,
        group_id=request.group_id,
        cluster_id=look.description.cluster_id,
        topics=look.topics(body.ranges),
        offsets=body.offsets,
        partitions=len(body.ranges),
        newest=identity.kind == "sequence",
        given_up=body.given_up,
        ranges=log.write_body(number, k, body),
        **_of(identity),
    )


def later_plan(
    look: Look, log: PipelineLog, identity: Identity, run: RunKey, batch: Batch, body: PlanBody, before: Batch | None
) -> Plan:
    """A batch planned again, whole, by today's request. The key is kept, unless the identity moved keys meanwhile and
    no driver has begun."""
    old, k = batch.plan, len(batch.entries) + 1
    moved = identity.bases[-1] != old.bases[-1] and not batch.attempts
    by_window = old.window is not None
    return replace(
        _plan(look, log, identity, run, batch.number, k, body),
        key=_new_key(log, identity, batch.number) if moved else old.key,
        window=old.window,
        expects=kept_expectation(identity, old) if by_window else expected_key(identity, before),
        unfinished=old.unfinished,
        before=_before(before),
    )


def rewritten(identity: Identity, run: RunKey, plan: Plan, now_ms: int) -> Plan:
    """A committed batch that its run writes again: the same plan under a new id, still of the identity that it was
    planned under, whose starts it has applied."""
    return replace(
        plan,
        plan_id=secrets.token_hex(8),
        by=run,
        at_ms=now_ms,
        expects=kept_expectation(identity, plan),
        newest=False,  # the next batch may be written beside it
        **{name: value for name, value in _of(identity).items() if name != "identity"},
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


def _new_key(log: PipelineLog, identity: Identity, number: int) -> str:
    return new_key(number + identity.bases[-1], log.shard, secrets.token_hex(6))


def expected_key(identity: Identity, before: Batch | None) -> str | None:
    """The key of the newest committed batch with rows, which must be in the output.

    None where the output has changed since, or a person has given the rows up.
    """
    if before is None or identity.output is None or before.plan.output != identity.output:
        return None
    has_rows = before.is_committed and before.commits[-1].rows
    key = before.plan.key if has_rows else before.plan.expects
    return None if key in identity.rows else key


def kept_expectation(identity: Identity, plan: Plan) -> str | None:
    return None if plan.output != identity.output or plan.expects in identity.rows else plan.expects
