"""``plan``: what a run would read, and why; or what each of many windows would. Nothing is written anywhere."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime, tzinfo
from typing import Any

from airflow_kafka_offsets.cli.inputs import Options, client_config, required, text_or_file
from airflow_kafka_offsets.cli.options import REQUEST
from airflow_kafka_offsets.cli.render import Table, render, render_plan
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.many_windows import WindowsOutlook, plan_windows
from airflow_kafka_offsets.offsets.request.widths import parse_zone
from airflow_kafka_offsets.offsets.window.outlook import WindowOutlook
from airflow_kafka_offsets.planner import plan_offsets


def plan(options: Options) -> int:
    """Make a plan and print it; with ``--windows``, a table of them."""
    if options.get("windows") is not None:
        return many_windows(options)
    stray = [f"--{name} goes with --windows only." for name in ("from", "to", "timezone") if options.get(name)]
    if stray:
        raise InvalidRequest(tuple(stray))
    parameters = {option.name: options[option.name] for option in REQUEST if options.get(option.name) is not None}
    for name in ("specific_offsets", "bounded_offsets"):
        if name in parameters:
            parameters[name] = text_or_file(options, name)
    made = plan_offsets(client_config(options), **parameters)
    for warning in made.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(render_plan(made, options.get("output") or "table"))
    return 0


_OPTION_OF = {"start": "--from", "end": "--to", "width": "--windows", "timezone": "--timezone"}
_PROGRESS_S = 5.0


def many_windows(options: Options) -> int:
    """The windows from ``--from`` to ``--to``: how many records each has, and which retention has taken.

    1 where one of them is gone: a backfill of it would be green, and its output would lack what was deleted.
    """
    output = options.get("output") or "table"
    if output.startswith("offsets-"):
        raise InvalidRequest((f"--output {output} is for one plan; with --windows use table, json or csv.",))
    required(options, "from", "to")
    parameters = {option.name: options[option.name] for option in REQUEST if options.get(option.name) is not None}
    zone_name = options.get("timezone") or "UTC"
    try:
        found = plan_windows(
            client_config(options),
            start=options["from"],
            end=options["to"],
            width=options["windows"],
            timezone=zone_name,
            progress=_Progress(),
            **parameters,
        )
    except InvalidRequest as error:
        raise InvalidRequest(tuple(_in_options(problem) for problem in error.problems)) from None
    print(_render_windows(found, parse_zone(zone_name), output))
    lost = [window for window in found.windows if window.gone]
    perhaps = [window for window in found.windows if window.perhaps_gone and not window.gone]
    if perhaps:
        print(
            f"warning: {len(perhaps)} windows start before the oldest record of some partition that retention has cut: "
            "they may have held more.",
            file=sys.stderr,
        )
    if not lost:
        return 0
    last = lost[-1].end_ms
    print(
        f"{len(lost)} of {len(found.windows)} windows are gone in whole or in part: the log of {lost[-1].gone[0]} "
        f"starts after {_clock(last, UTC)}. Restore those records, read the windows from a copy, or start the "
        f"backfill later: --from {_clock(last, UTC)}.",
        file=sys.stderr,
    )
    return 1


def _in_options(problem: str) -> str:
    parameter, _, rest = problem.partition(" ")
    return f"{_OPTION_OF.get(parameter, parameter)} {rest}"


class _Progress:
    """A line on standard error every few seconds."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self._said >= _PROGRESS_S:
            self._said = time.monotonic()
            print(f"{done} of {total} times looked up", file=sys.stderr)


def _clock(moment_ms: int, zone: tzinfo) -> str:
    moment = datetime.fromtimestamp(moment_ms // 1000, UTC).astimezone(zone)
    text = moment.isoformat(timespec="seconds" if moment_ms % 60_000 else "minutes")
    return text.replace("+00:00", "Z") if zone is UTC or str(zone) == "UTC" else text


def _render_windows(found: WindowsOutlook, zone: tzinfo, output: str) -> str:
    topics = sorted(found.timestamp_types)
    if output == "json":
        return json.dumps({**_facts(found), "windows": [_as_dict(window, zone) for window in found.windows]})
    shown = topics if output == "csv" or 1 < len(topics) <= 6 else []
    rows = [
        (
            _clock(window.start_ms, zone),
            _clock(window.end_ms, zone),
            window.record_count_upper_bound,
            *(window.records.get(topic, 0) for topic in shown),
            {True: "yes", False: "no"}[window.complete],
            window.retention,
        )
        for window in found.windows
    ]
    records = sum(window.record_count_upper_bound for window in found.windows)
    summary = (
        f"{len(rows)} windows, up to {records} records of {found.partition_count} partitions, {found.isolation_level}, "
        f"cluster {found.cluster_id}"
    )
    appended = [topic for topic in topics if found.timestamp_types[topic] == "LogAppendTime"]
    if appended:
        summary += f"\nby the broker's clock (LogAppendTime): {', '.join(appended)}"
    columns = ("start", "end", "records", *shown, "complete", "retention")
    return render(Table(columns, rows, summary=summary, rows_name="windows"), output)


def _facts(found: WindowsOutlook) -> dict[str, Any]:
    return {
        "cluster_id": found.cluster_id,
        "isolation_level": found.isolation_level,
        "resolved_at_ms": found.resolved_at_ms,
        "partition_count": found.partition_count,
        "timestamp_types": dict(found.timestamp_types),
    }


def _as_dict(window: WindowOutlook, zone: tzinfo) -> dict[str, Any]:
    return {
        "start": _clock(window.start_ms, zone),
        "end": _clock(window.end_ms, zone),
        "start_ms": window.start_ms,
        "end_ms": window.end_ms,
        "record_count_upper_bound": window.record_count_upper_bound,
        "topics": dict(window.records),
        "complete": window.complete,
        "retention": window.retention,
        "gone": [str(tp) for tp in window.gone],
        "perhaps_gone": [str(tp) for tp in window.perhaps_gone],
    }
