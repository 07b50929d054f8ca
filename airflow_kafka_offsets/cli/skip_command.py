"""``skip``: leave out records that cannot be processed, of the unfinished batch or of a window."""

from __future__ import annotations

from airflow_kafka_offsets.batch.engine import leave_out
from airflow_kafka_offsets.batch.orders import LeaveOut
from airflow_kafka_offsets.batch.preview import preview_leave_out
from airflow_kafka_offsets.cli.commands import Options
from airflow_kafka_offsets.cli.option_values import pipeline_asked_for
from airflow_kafka_offsets.cli.printing import Answer, Table, columns
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.plan.window_claims import name_of
from airflow_kafka_offsets.request.policies import Skip, parse_skip


def skip(options: Options) -> Answer:
    """Each partition's range before and after."""
    asked = _asked(options)
    pipeline = pipeline_asked_for(options)
    dry_run = not options.get("execute")
    order = LeaveOut(asked, now_ms(), window=options.get("window") is not None)
    before, after = (preview_leave_out if dry_run else leave_out)(order, pipeline)
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
    names = ("topic", "partition", "start", "end", "start_after", "records_after", "skipped")
    return Answer(
        [Table(columns(*names), rows)],
        facts,
        f"up to {skipped} records of {name_of(before)} {'would be' if dry_run else 'are'} skipped: {asked.reason}",
        messages=[] if dry_run else [now],
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
    try:
        asked = parse_skip({"batch": named, "past": options.get("past"), "reason": options.get("reason")})
    except ValueError as error:
        raise InvalidRequest((f"--past {str(error).removeprefix('has past ')}.",)) from None
    assert asked is not None  # something is named
    return asked
