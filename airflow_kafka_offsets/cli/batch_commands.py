"""``verify``, ``commit``, ``skip``, ``redo`` and ``take-over``: what a person does with one batch, or the newest."""

from __future__ import annotations

import shlex
from functools import partial

from airflow_kafka_offsets.batch.carry_out import CommitOutcome
from airflow_kafka_offsets.batch.decide_by_hand import decide_redo
from airflow_kafka_offsets.batch.engine import commit_batch, decided, leave_out, redo_batch, take_pipeline_over
from airflow_kafka_offsets.batch.orders import Commit, LeaveOut, PlanReference, Redo, TakeOver
from airflow_kafka_offsets.batch.preview import rehearsed_log
from airflow_kafka_offsets.cli.batch_tables import facts_of, is_verified, splits_of
from airflow_kafka_offsets.cli.commands import Options
from airflow_kafka_offsets.cli.option_values import batch_asked_for, client_config, me, pipeline_asked_for, world_of
from airflow_kafka_offsets.cli.printing import Answer, Column, Table, columns
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import DataLoss, InvalidRequest, NoPosition, ReadNotVerified
from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.log.read_reports import deciding_attempts
from airflow_kafka_offsets.log.verify_reads import unverified
from airflow_kafka_offsets.plan.job_arguments import JobArguments
from airflow_kafka_offsets.plan.window_claims import name_of
from airflow_kafka_offsets.request.policies import Skip, parse_skip
from airflow_kafka_offsets.request.times import iso


def verify(options: Options) -> Answer:
    """The batch's splits and their proofs; status 1 where one is not verified."""
    pipeline = pipeline_asked_for(options)
    batch = batch_asked_for(options, pipeline)
    facts: dict[str, object] = {"pipeline_id": pipeline.pipeline_id}
    if batch is None:
        summary = "That run had nothing to do, so there is nothing to verify."
        return Answer([Table(columns("split"), [], "splits")], {**facts, "key": None, "verified": True}, summary)
    splits, plan = splits_of(batch), batch.log.plan
    facts = {**facts, **facts_of(batch), "verified": is_verified(splits)}
    if not is_verified(splits):
        refused = ReadNotVerified(
            [f"split {row['split']}: {row['problem']}" for row in splits.rows if not row["verified"]],
            f"The reports do not show that {name_of(plan)} was read. Clear its run from the Spark task on: Spark "
            "writes the output anew and reports again.",
        )
        return Answer([splits], facts, f"{name_of(plan)}, plan {plan.plan_id}, is not verified", errors=[refused])
    summary = (
        f"{name_of(plan)}, plan {plan.plan_id}, is verified: its reports say that exactly its up to "
        f"{plan.record_count_upper_bound} records were read. What {plan.asked.output or 'its output'} holds now was "
        "not looked at"
    )
    again = batch.log.redone  # what an earlier run has written is verified; was it written again since?
    missing = unverified(plan, deciding_attempts(batch), again.attempts) if again else []
    by_whom = f"{again.by} is doing it once more, and that is not verified (yet):" if again else ""
    return Answer([splits], facts, summary, messages=["\n".join([by_whom, *missing])] if missing else [])


def commit(options: Options) -> Answer:
    """What the group holds before and after; with a dry run, what it would hold."""
    pipeline = pipeline_asked_for(options)
    batch = batch_asked_for(options, pipeline)
    dry_run = not options.get("execute")
    handed = PlanReference(batch.name, batch.log.plan.plan_id) if batch else PlanReference(None)
    with world_of(options, pipeline) as world:
        order = Commit(handed, me(options), now_ms(), require_report=not options.get("no_require_report"))
        outcome = commit_batch(order, world)
    rows = [
        {"topic": tp.topic, "partition": tp.partition, "before": before, "after": after}
        for tp, (before, after) in sorted(outcome.written.items())
    ]
    now = batch if dry_run else outcome.batch
    facts = {
        "pipeline_id": pipeline.pipeline_id,
        **(facts_of(now) if now else {"key": None}),
        "dry_run": dry_run,
        "committed_before": batch is not None and batch.log.committed is not None,
        "group_left_alone": outcome.group.left_alone,
    }
    return Answer(
        [Table([*columns("topic", "partition"), Column("before", absent="none"), Column("after")], rows)],
        facts,
        _summary(batch, outcome, dry_run),
        dry_run="commits" if dry_run else "",
    )


def _summary(batch: StoredBatch | None, outcome: CommitOutcome, dry_run: bool) -> str:
    if batch is None:
        done = "That run had nothing to do"
    elif batch.log.committed:
        done = f"{name_of(batch.log.plan)} was committed before, by {batch.log.committed.by}"
    else:
        done = f"{name_of(batch.log.plan)} {'would be' if dry_run else 'is'} committed"
    if outcome.group.left_alone:
        return f"{done}; the group is left alone: {outcome.group.left_alone}"
    return f"{done}; the group {'would follow' if dry_run else 'follows'} in {len(outcome.written)} partitions"


# ── skip: leave out records that cannot be processed, of the unfinished batch or of a window ──────────────────────────


def skip(options: Options) -> Answer:
    """Each partition's range before and after."""
    asked = _asked(options)
    pipeline = pipeline_asked_for(options)
    dry_run = not options.get("execute")
    order = LeaveOut(asked, now_ms(), window=options.get("window") is not None, person=options.get("person"))
    before, after = leave_out(order, rehearsed_log(pipeline) if dry_run else pipeline)
    left = {p.topic_partition: p for p in after.partitions}
    rows = [
        {
            "topic": p.topic_partition.topic,
            "partition": p.topic_partition.partition,
            "start": p.start_offset,
            "end": p.end_offset,
            "start_after": left[p.topic_partition].start_offset,
            "records_after": left[p.topic_partition].size,
            "skipped": left[p.topic_partition].skipped - p.skipped,
        }
        for p in before.partitions
    ]
    skipped = after.skipped - before.skipped
    facts = {
        "pipeline_id": pipeline.pipeline_id,
        "key": after.batch.key,
        "plan_id_before": before.plan_id,
        "plan_id_after": after.plan_id,
        "skipped": skipped,
        "reason": asked.reason,
        "dry_run": dry_run,
    }
    who = "Clear the window's run" if after.asked.window else "The pipeline's next run does the batch as it is now"
    now = f"{who}: what was half written is overwritten, and the batch is committed."
    more = len(after.splits_to_start()) - len(before.splits_to_start())
    if more > 0:
        now += (
            f" {more} more Spark job{'s' * (more > 1)} will read what lies behind the skipped records. A job that "
            "writes by itself has to keep its rows apart by batch.key and batch.split."
        )
    names = ("topic", "partition", "start", "end", "start_after", "records_after", "skipped")
    return Answer(
        [Table(columns(*names), rows)],
        facts,
        f"up to {skipped} records of {name_of(before)} {'would be' if dry_run else 'are'} skipped: {asked.reason}",
        messages=[now] if more > 0 or not dry_run else [],
        dry_run="skips them" if dry_run else "",
    )


def _asked(options: Options) -> Skip:
    """:raises InvalidRequest: nothing is named, or it is not what it should be."""
    batch, window = options.get("batch"), options.get("window")
    if (batch is None) == (window is None):
        raise InvalidRequest(("Skip what? Give --batch KEY (kafka-offsets show says it) or --window NAME.",))
    named = str(batch if window is None else window)
    if not named.strip():
        raise InvalidRequest((f"{'--batch' if window is None else '--window'} is empty.",))
    only = options.get("only")  # a list, where it was repeated at a terminal
    given = {
        "only": ",".join(only) if isinstance(only, list) else only,
        **{name: options.get(name) for name in ("past", "reason")},
    }
    try:
        asked = parse_skip({"batch": named, **given})
    except ValueError as error:
        raise InvalidRequest((f"--{str(error).removeprefix('has ')}.",)) from None
    assert asked is not None  # something is named
    return asked


# ── redo: which run wrote a committed batch, whether it can be written again, and how ─────────────────────────────────


def redo(options: Options) -> Answer:
    """The batch, and the two ways to write it again: clear its run, or ``--execute`` and submit the Spark jobs.

    1 where its records are gone.
    """
    pipeline = pipeline_asked_for(options)
    batch = batch_asked_for(options, pipeline)
    if batch is None:
        raise NoPosition(["That run had nothing to do"], "So there is nothing to do again.")
    dry_run = not options.get("execute")
    order, splits, refusal = Redo(batch, me(options), now_ms()), sorted(batch.log.plan.splits_with_rows()), None
    with world_of(options, pipeline) as world:
        try:
            if dry_run or not splits:
                decided(partial(decide_redo, order), world)
            else:
                batch = redo_batch(order, world)
        except DataLoss as gone:
            if not dry_run:
                raise
            refusal = gone
    plan, log = batch.log.plan, batch.log
    again = log.redone
    key, run = plan.batch.key, log.committed.by.run if log.committed else None
    # The run that committed a batch does it again when it is cleared; nothing has to be in its conf for that.
    cleared = run and not refusal and f"airflow dags clear {shlex.quote(run.dag_id)} --run-id {shlex.quote(run.run_id)}"
    servers, row_filter = client_config(options).get("bootstrap.servers"), f"kafka_batch = '{key}'"
    arguments = {
        split: JobArguments(batch.plan_object, plan.plan_id, split, batch.store.driver_uri, servers).words()
        for split in ([] if dry_run or refusal else splits)
    }
    rows = [
        {
            "split": split,
            "records": sum(p.size for p in plan.splits[split]),
            "row_filter": f"{row_filter} AND kafka_split = {split}",
        }
        for split in splits
    ]
    facts = {
        "pipeline_id": pipeline.pipeline_id,
        **facts_of(batch),
        "run": run and {name: getattr(run, name) for name in ("dag_id", "run_id", "task_id", "map_index")},
        "records_there": refusal is None,
        "gone": list(refusal.partitions) if refusal else [],
        "row_filter": row_filter,
        "airflow": cleared or None,
        "arguments": {str(split): words for split, words in arguments.items()},
        "dry_run": dry_run,
    }
    lines = [
        f"{name_of(plan)} of pipeline {pipeline.pipeline_id!r}: committed by {log.by}, {facts['at']}",
        f"output: {plan.asked.output or 'not named in the plan'}, where {row_filter}",
        f"records: {'gone from Kafka' if refusal else 'all of them are still in Kafka'}",
        *([f"{again.by} is doing it once more since {iso(again.at_ms)}"] if dry_run and again else []),
        *([f"in Airflow: {cleared}"] if cleared and splits else []),
        *([] if splits else ["It has no records, and no split to start."]),
    ]
    now_yours = (
        "The batch is yours now. Submit the pipeline's Spark job once for each split, with these arguments beside its "
        f"own. Then kafka-offsets commit --batch {key} says whether all of it was written again."
    )
    to_do = bool(splits) and refusal is None
    return Answer(
        [Table(columns("split", "records", "row_filter"), rows, "splits")],
        facts,
        "\n".join(f"split {split}: {shlex.join(words)}" for split, words in arguments.items()),
        "\n".join(lines),
        messages=[now_yours] if to_do and not dry_run else [],
        dry_run="puts on record that you do the batch again, and gives the arguments for Spark"
        if to_do and dry_run
        else "",
        errors=[refusal] if refusal else [],
    )


# ── take-over: this Airflow goes on with a pipeline of another one ────────────────────────────────────────────────────


def take_over(options: Options) -> Answer:
    """Whose the pipeline was, and whose it is."""
    pipeline, order = pipeline_asked_for(options), TakeOver(me(options), now_ms())
    if order.me.instance is None:
        raise InvalidRequest(
            ("Which Airflow takes over? Give --instance. (airflow kafka-offsets take-over names its own.)",)
        )
    before, dry_run = pipeline.newest(), not options.get("execute")
    with world_of(options, pipeline) as world:
        batch, group = take_pipeline_over(order, world)
    was, name = before.log.last_instance if before else None, name_of(batch.log.plan)
    facts = {
        "pipeline_id": pipeline.pipeline_id,
        **facts_of(batch),
        "airflow_before": was,
        "airflow": order.me.instance,
        "group_left_alone": group.left_alone,
        "dry_run": dry_run,
    }
    goes_on = f"it goes on after {name}" if batch.log.committed else f"its next run does {name}, which is not committed"
    follows = f"the group's offsets {'would be' if dry_run else 'are'} marked in {len(group.written)} partitions"
    return Answer(
        [],
        facts,
        f"{order.me.instance} {'would take' if dry_run else 'takes'} the pipeline over from {was}: {goes_on}; "
        f"{(group.left_alone and f'the group is left alone: {group.left_alone}') or follows}",
        dry_run="does it: the other Airflow is refused then" if dry_run else "",
    )
