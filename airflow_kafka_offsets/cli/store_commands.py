"""``pipelines``, ``show`` and ``runs``: what a work store says of its pipelines; ``clean`` and ``release-output``: what
goes. They ask no cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from airflow_kafka_offsets.batch.pipeline_status import counted_batches, left_out
from airflow_kafka_offsets.cli.batch_tables import entries_of, facts_of, is_verified, ranges_of, splits_of
from airflow_kafka_offsets.cli.commands import Options
from airflow_kafka_offsets.cli.option_values import find_batch, pipeline_asked_for, work_store
from airflow_kafka_offsets.cli.printing import Answer, Column, Table, columns
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import InvalidRequest, NoPosition, StoreDamaged, counted
from airflow_kafka_offsets.kafka_values import values_by_topic
from airflow_kafka_offsets.log.clean_up import find_old, remove
from airflow_kafka_offsets.log.entries import Totals
from airflow_kafka_offsets.log.last_runs import RunInLog, last_runs
from airflow_kafka_offsets.log.output_claims import owner_of
from airflow_kafka_offsets.log.output_claims import release_output as release
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch, pipeline_ids
from airflow_kafka_offsets.plan.plan_table import first_few
from airflow_kafka_offsets.plan.window_claims import name_of, time_claim_of_name
from airflow_kafka_offsets.progress_log import Progress
from airflow_kafka_offsets.request.problems import parsed
from airflow_kafka_offsets.request.times import iso, parse_duration_ms
from airflow_kafka_offsets.stores.store import together

if TYPE_CHECKING:
    from airflow_kafka_offsets.hooks.dag_runs import DagRunState

Row = dict[str, object]

_LAST = 20
_DAY_MS = 86_400_000
NOTHING = "nothing that the log knows: it ended, or was stopped, before it took a batch"


def pipelines(options: Options) -> Answer:
    """A line for each pipeline's log, and one for its windows; 3 where one cannot be read."""
    store = work_store(options)
    rows: list[Row] = []
    damaged = []
    names = pipeline_ids(store)
    for name in names:
        try:
            rows += _rows_of(PipelineLog(store, name))
        except StoreDamaged as error:
            damaged.append(error)
            rows.append({"pipeline": name, "newest": "damaged"})
    shown = [
        *columns("pipeline", "newest", "committed", "last_run", "at"),
        Column("position", words=lambda row: first_few(row.get("offsets", ()), 3, between=" ") or None),
        Column("unfinished", words=lambda row: first_few(row.get("unfinished_names", ()), 2, between=" ") or None),
        *columns("goes_on_after", "windows", "key", "number", "group_id", for_people=False),
    ]
    summary = f"{len(names)} pipeline{'s' * (len(names) != 1)} in {store.uri}"
    return Answer([Table(shown, rows, "pipelines")], {"work_store": store.uri}, summary, errors=damaged)


def _rows_of(pipeline: PipelineLog) -> Iterator[Row]:
    newest = pipeline.newest()
    if newest is not None:
        yield _row_of_log(pipeline, newest)
    names = pipeline.windows()
    read = together(pipeline.store, *(partial(pipeline.window, name) for name in names))
    windows = {name: window for name, window in zip(names, read, strict=True) if window is not None}
    if windows:  # they stand alone: they have no position, and any of them may be unfinished
        by_time = [name for name in windows if time_claim_of_name(name)]
        last = windows[(by_time or list(windows))[-1]]
        yield {**_row(pipeline, last, windows.values()), "windows": len(windows)}


def _row_of_log(pipeline: PipelineLog, newest: StoredBatch) -> Row:
    commit = pipeline.newest_commit(newest)
    position = commit.log.committed.position if commit and commit.log.committed else None
    offsets = sorted(position.offsets.items()) if position else []
    return {
        **_row(pipeline, newest, [newest]),
        "position": values_by_topic({tp: saved.offset for tp, saved in offsets}),
        "offsets": [f"{tp}:{saved.offset}" for tp, saved in offsets],
        "goes_on_after": str(commit.log.plan.batch) if commit else None,
    }


def _row(pipeline: PipelineLog, batch: StoredBatch, all_of_them: Iterable[StoredBatch]) -> Row:
    log, plan = batch.log, batch.log.plan
    unfinished = [one.log.plan for one in all_of_them if not one.log.committed]
    return {
        "pipeline": pipeline.pipeline_id,
        "newest": name_of(plan),
        "committed": log.committed is not None,
        "last_run": str(log.by),
        "at": iso(log.at_ms),
        "unfinished": [plan.batch.key for plan in unfinished],
        "unfinished_names": [name_of(plan) for plan in unfinished],
        "key": plan.batch.key,
        "number": plan.batch.number,
        "group_id": plan.asked.group_id,
    }


def show(options: Options) -> Answer:
    """One batch with its log, its splits and its ranges; or a line for each of the last few."""
    count, named, windows = options.get("history"), options.get("batch"), bool(options.get("windows"))
    if count is not None and count < 1:
        raise InvalidRequest((f"--history is {count}; give a number of at least 1.",))
    if named is not None and (count is not None or windows):
        raise InvalidRequest(("--batch shows one batch: give it without --history and --windows.",))
    pipeline = pipeline_asked_for(options)
    if windows:
        found = (window for name in reversed(pipeline.windows()) if (window := pipeline.window(name)) is not None)
        return _many(pipeline, list(islice(found, count)), "windows")
    if count is not None:
        return _many(pipeline, list(islice(pipeline.newest_first(), count)), "batches")
    batch = find_batch(pipeline, named) if named is not None else pipeline.newest()
    if batch is None:
        raise NoPosition(
            [f"Pipeline {pipeline.pipeline_id!r} has no batch in its log"],
            f"It has {len(pipeline.windows())} windows: kafka-offsets show --windows lists them.",
        )
    return _one(pipeline, batch)


def _one(pipeline: PipelineLog, batch: StoredBatch) -> Answer:
    facts, plan, totals = facts_of(batch), batch.log.plan, batch.log.history.totals
    state = "committed by" if facts["committed"] else "not committed; with"
    named = {"key": "key", "after": "after", "output": "output", "group_id": "group"}
    splits = splits_of(batch)
    definitions = sorted({str(row["row_definition"]) for row in splits.rows if row["row_definition"]})
    head = [
        f"{name_of(plan)} of pipeline {pipeline.pipeline_id!r}: {state} {facts['by']}, {facts['at']}",
        *(f"{word}: {facts[name]}" for name, word in named.items() if facts[name]),
        *([] if plan.asked.window else [_so_far(totals)]),
        *(f"row definition: {digest}" for digest in definitions),
        *(f"warning: {warning}" for warning in plan.warnings),
    ]
    tables = [ranges_of(plan), entries_of(batch), splits]
    facts |= {"pipeline_id": pipeline.pipeline_id, "totals": None if plan.asked.window else asdict(totals)}
    return Answer(tables, facts, head="\n".join(head))


def _so_far(totals: Totals) -> str:
    """What all batches had together, as the pipeline's page says it."""
    words = " ".join(phrase.text for phrase in left_out(totals))
    return f"so far: up to {counted(totals.records, 'record')} in {counted_batches(totals)}. {words}"


def _many(pipeline: PipelineLog, batches: Sequence[StoredBatch], name: str) -> Answer:
    rows = [
        {
            "batch": name_of(batch.log.plan),
            "committed": batch.log.committed is not None,
            "by": str(batch.log.by),
            "at": iso(batch.log.at_ms),
            "plan": batch.log.plan.reason or "first",
            "records": batch.log.plan.record_count_upper_bound,
            "lost": batch.log.plan.lost,
            "skipped": batch.log.plan.skipped,
            "unread": batch.log.unread,
            "verified": is_verified(splits_of(batch)),
            "key": batch.log.plan.batch.key,
            "stored_as": batch.name,
        }
        for batch in batches
    ]
    shown = columns("batch", "committed", "by", "at", "plan", "records", "lost", "skipped", "unread", "verified", "key")
    summary = f"{len(rows)} {name}, newest first"
    short = [batch for batch in batches if batch.log.unread]
    if short:
        summary += (
            f"\nwarning: {len(short)} of them lack offsets that their times gave when a run last did them (unread): a "
            "topic was added, or records came late. re_plan in a run's conf reads them."
        )
    table = Table([*shown, Column("stored_as", for_people=False)], rows, name)
    return Answer([table], {"pipeline_id": pipeline.pipeline_id}, summary)


def runs(options: Options) -> Answer:
    """By the log; under ``airflow``, with each run's state and with the runs that have left nothing in the log."""
    count = _LAST if options.get("last") is None else options["last"]
    if count < 1:
        raise InvalidRequest((f"--last is {count}; give a number of at least 1.",))
    pipeline = pipeline_asked_for(options)
    known = last_runs(pipeline, count)
    asks = "instance" in options  # the command is one of Airflow's
    states = _states({one.run.dag_id for one in known}, count) if asks else {}
    rows = [_row_of_run(one, states.get((one.run.dag_id, one.run.run_id))) for one in known]
    in_log = {(one.run.dag_id, one.run.run_id) for one in known}
    rows += [_only_in_airflow(dag_id, run) for (dag_id, _), run in states.items() if (dag_id, run.run_id) not in in_log]
    rows = sorted(rows, key=lambda row: str(row["at"] or ""), reverse=True)[:count]
    shown = [*columns("run"), Column("state", absent="unknown"), *columns("failed", "batch", "what", "at")]
    unknown = (
        ""
        if asks
        else ". Their states, and runs that failed before they took a batch, are known to Airflow alone: "
        "airflow kafka-offsets runs"
    )
    table = Table([*shown, *columns("dag_id", "run_id", "task_id", "map_index", "key", for_people=False)], rows, "runs")
    facts = {"pipeline_id": pipeline.pipeline_id, "airflow_asked": asks}
    return Answer([table], facts, f"{len(rows)} runs, newest first{unknown}")


def _states(dag_ids: Collection[str], count: int) -> Mapping[tuple[str, str], DagRunState]:
    from airflow_kafka_offsets.hooks.dag_runs import last_dag_runs

    return {(dag_id, run.run_id): run for dag_id in sorted(dag_ids) for run in last_dag_runs(dag_id, count)}


def _row_of_run(one: RunInLog, state: DagRunState | None) -> Row:
    at_ms = one.order[0] or (state.at_ms if state else None)
    return {
        "run": str(one.run),
        "state": state.state if state else None,
        "failed": ", ".join(state.failed) or None if state else None,
        "batch": one.batch,
        "what": one.what,
        "at": iso(at_ms) if at_ms else None,
        "dag_id": one.run.dag_id,
        "run_id": one.run.run_id,
        "task_id": one.run.task_id,
        "map_index": one.run.map_index,
        "key": one.key,
    }


def _only_in_airflow(dag_id: str, run: DagRunState) -> Row:
    return {
        "run": f"{dag_id}/{run.run_id}",
        "state": run.state,
        "failed": ", ".join(run.failed) or None,
        "what": NOTHING,
        "at": iso(run.at_ms),
        "dag_id": dag_id,
        "run_id": run.run_id,
    }


# ── clean removes old batches from the work store; release-output removes an output's owner ───────────────────────────


def clean(options: Options) -> Answer:
    """How many batches and windows of each pipeline are older than ``--keep``; with ``--execute`` they are gone."""
    before_ms = now_ms() - _keep_ms(options.get("keep") or _configured_days())
    store, dry_run = work_store(options), not options.get("execute")
    found: Counter[tuple[str, str]] = Counter()
    objects: Counter[tuple[str, str]] = Counter()
    progress = Progress("look for what is old" if dry_run else "clean", unit="batches and windows")
    for removal in find_old(store, before_ms):
        which = removal.pipeline.pipeline_id, removal.kind
        found[which] += 1
        objects[which] += len(removal.names)
        if not dry_run:
            remove(removal)
        progress.add()
    rows = [
        {"pipeline": which[0], "kind": which[1], "count": found[which], "objects": objects[which]}
        for which in sorted(found)
    ]
    return Answer(
        [Table(columns("pipeline", "kind", "count", "objects"), rows, "removed")],
        {"work_store": store.uri, "before_ms": before_ms, "dry_run": dry_run},
        f"{found.total()} batches and windows ({objects.total()} objects) from before {iso(before_ms)} "
        f"{'would be' if dry_run else 'were'} removed from {store.uri}",
        dry_run="removes them" if dry_run and found else "",
    )


def _keep_ms(keep: str | None) -> int:
    if keep is None:
        raise InvalidRequest(
            (
                "No retention period given: pass --keep 90d. (Or set [kafka_offsets] retention_days. It has to be "
                "longer than anybody clears an old run.)",
            )
        )
    milliseconds = parsed("--keep", lambda: parse_duration_ms(keep))
    if milliseconds < _DAY_MS:
        raise InvalidRequest((f"--keep is {keep!r}: at least a day, because runs that are under way need theirs.",))
    return milliseconds


def _configured_days() -> str | None:
    with suppress(ImportError):
        from airflow_kafka_offsets.hooks.kafka_offsets import configured_retention_days

        return configured_retention_days()
    return None


def release_output(options: Options) -> Answer:
    """Which pipeline owns the output; with ``--execute`` none does any more."""
    output = (options.get("output_name") or "").strip().rstrip("/")  # as a request takes it
    if not output:
        raise InvalidRequest((f"--output-name is {'missing' if options.get('output_name') is None else 'empty'}.",))
    store, dry_run = work_store(options), not options.get("execute")
    owner = owner_of(store, output)
    if owner is not None and not dry_run:
        release(store, output)
    owned = {"pipeline": owner.pipeline if owner else None, "kind": owner.kind if owner else None}
    verb = "would be" if dry_run else "is"
    return Answer(
        [Table(columns("output", "pipeline", "kind"), [{"output": output, **owned}] if owner else [], "released")],
        {"work_store": store.uri, "output_name": output, **owned, "dry_run": dry_run},
        f"Output {output} of {owner} {verb} released." if owner else f"Output {output} is nobody's.",
        dry_run="releases it" if dry_run and owner else "",
    )
