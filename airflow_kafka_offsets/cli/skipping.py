"""``skip``: leave out records that cannot be processed, of the unfinished batch or of a window."""

from __future__ import annotations

from airflow_kafka_offsets.cli.batches import name_of
from airflow_kafka_offsets.cli.inputs import Options, find_window, pipeline_asked_for
from airflow_kafka_offsets.cli.render import Page, Table, say, say_dry_run, show
from airflow_kafka_offsets.errors import InvalidRequest, NoPosition
from airflow_kafka_offsets.offsets.plan.plan import Plan
from airflow_kafka_offsets.offsets.request.policies import Skip, parse_skip
from airflow_kafka_offsets.pipeline.clock import now_ms
from airflow_kafka_offsets.pipeline.skip import skip_batch, skip_window
from airflow_kafka_offsets.stores.pipeline_log import PipelineLog


def skip(options: Options) -> int:
    """Each partition's range before and after."""
    asked = _asked(options)
    pipeline = pipeline_asked_for(options)
    dry_run = not options.get("execute")
    if options.get("window") is not None:
        named = _of_the_window(asked, pipeline)
        before, after = skip_window(pipeline, named, now_ms=now_ms(), dry_run=dry_run)
    else:
        before, after = skip_batch(pipeline, asked, now_ms=now_ms(), dry_run=dry_run)
    show(_page(pipeline, asked, before, after, dry_run), options.get("output"))
    if dry_run:
        say_dry_run("skips them")
    else:
        who = "Clear the window's run" if after.window else "The pipeline's next run does the batch as it is now"
        say(f"{who}: what was half written is overwritten, and the batch is committed.")
    return 0


def _asked(options: Options) -> Skip:
    """:raises InvalidRequest: nothing is named, or it is not what it should be."""
    batch, window = options.get("batch"), options.get("window")
    if (batch is None) == (window is None):
        raise InvalidRequest(("Skip what? Give --batch KEY (kafka-offsets show says it) or --window NAME.",))
    named = str(batch if window is None else window)
    if not named.strip():
        raise InvalidRequest((f"{'--batch' if window is None else '--window'} is empty.",))
    try:
        asked = parse_skip({"batch": named, "past": options.get("past"), "reason": options.get("reason")})
    except ValueError as error:
        raise InvalidRequest((f"--past {str(error).removeprefix('has past ')}.",)) from None
    assert asked is not None  # something is named
    return asked


def _of_the_window(asked: Skip, pipeline: PipelineLog) -> Skip:
    """The same by the window's name, which leads to nothing but a window.

    :raises NoPosition: there is no such window.
    """
    found = find_window(pipeline, asked.batch)
    if found is None:
        raise NoPosition(
            [f"Pipeline {pipeline.pipeline_id!r} has no window {asked.batch!r}"],
            "kafka-offsets show --windows lists those that it has.",
        )
    return Skip(found.name.rpartition("/")[2], asked.past, asked.reason)


def _page(pipeline: PipelineLog, asked: Skip, before: Plan, after: Plan, dry_run: bool) -> Page:
    now = {p.topic_partition: p for p in after.partitions}
    rows = [
        (
            p.topic_partition.topic,
            p.topic_partition.partition,
            p.start_offset,
            p.end_offset,
            now[p.topic_partition].start_offset,
            now[p.topic_partition].range.size,
            now[p.topic_partition].skipped - p.skipped,
        )
        for p in before.partitions
    ]
    columns = ("topic", "partition", "start", "end", "start after", "records after", "skipped")
    skipped = after.skipped - before.skipped
    facts = {
        "pipeline_id": pipeline.pipeline_id,
        "key": after.batch.key if after.batch else None,
        "plan_id_before": before.plan_id,
        "plan_id_after": after.plan_id,
        "skipped": skipped,
        "reason": asked.reason,
        "dry_run": dry_run,
    }
    summary = f"up to {skipped} records of {name_of(before)} {'would be' if dry_run else 'are'} skipped: {asked.reason}"
    return Page([Table(columns, rows)], facts, summary)
