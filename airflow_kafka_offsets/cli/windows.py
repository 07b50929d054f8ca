"""``plan --windows``: what each of many windows would read, before anybody starts a backfill."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.inputs import Options, client_config, required
from airflow_kafka_offsets.cli.options import OF_FIELD, SUBSCRIPTION, request_of
from airflow_kafka_offsets.cli.render import Page, Table, say, show
from airflow_kafka_offsets.cli.typed import windows_as_typed
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.request.scope import ScopeParameters
from airflow_kafka_offsets.offsets.request.times import DEFAULT_IDLE_TIMEOUT_MS, iso, parse_wait_ms
from airflow_kafka_offsets.offsets.request.widths import parse_zone
from airflow_kafka_offsets.pipeline.clock import now_ms
from airflow_kafka_offsets.pipeline.estimate import WindowsOutlook, estimate_windows, window_moments
from airflow_kafka_offsets.pipeline.request import scope_for

_OF_SCOPE = (*SUBSCRIPTION, "isolation_level")
_TAKEN = (*_OF_SCOPE, "idle_timeout")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def plan_windows(options: Options) -> int:
    """The windows from ``--from`` to ``--to``: how many records each has, and which retention has taken.

    1 where one of them is gone: a backfill of it would be green, and its output would lack what was deleted.
    """
    output = options.get("output") or "table"
    if output.startswith("offsets-"):
        raise InvalidRequest((f"--output {output} is for one plan; with --windows use table, json or csv.",))
    required(options, "from", "to")
    config, zone_name, clock_ms = client_config(options), options.get("timezone") or "UTC", now_ms()
    problems = _stray(options)
    idle_timeout_ms = DEFAULT_IDLE_TIMEOUT_MS
    try:
        if options.get("idle_timeout") is not None:
            idle_timeout_ms = parse_wait_ms(options["idle_timeout"])
    except ValueError as error:
        problems.append(f"--idle-timeout {error}.")
    moments: list[int] = []
    try:
        moments = window_moments(options["from"], options["to"], options["windows"], zone_name, clock_ms)
    except InvalidRequest as error:
        problems += windows_as_typed(error).problems
    given = request_of(options)
    try:
        scope = scope_for(config, ScopeParameters(**{name: given[name] for name in _OF_SCOPE if name in given}))
    except InvalidRequest as error:
        raise InvalidRequest((*problems, *error.problems)) from None
    if problems:
        raise InvalidRequest(tuple(problems))
    with KafkaCluster(config) as cluster:
        found = estimate_windows(scope, cluster, moments, now_ms=clock_ms, idle_timeout_ms=idle_timeout_ms)
    show(_page(found, parse_zone(zone_name), output), output)
    return _say_what_is_gone(found)


def _stray(options: Options) -> list[str]:
    """Options that apply to one plan only, and have no effect on windows."""
    given = request_of(options)
    stray = [
        OF_FIELD[name].flag
        for name, value in given.items()
        if name not in _TAKEN and not (name in ("startup_mode", "bounded_mode") and value == "timestamp")
    ]
    if options.get("work_store"):
        stray.append("--work-store")
    if not stray:
        return []
    return [
        f"{', '.join(stray)} cannot be given with --windows: a window's bounds come from --from, --to and --windows, "
        "and no position is read."
    ]


def _say_what_is_gone(found: WindowsOutlook) -> int:
    lost = [window for window in found.windows if window.gone]
    perhaps = [window for window in found.windows if window.perhaps_gone and not window.gone]
    if perhaps:
        say(
            f"warning: {len(perhaps)} windows start before the oldest record of some partition that retention has cut: "
            "they may have held more."
        )
    if not lost:
        return 0
    last = iso(lost[-1].end_ms)
    say(
        f"{len(lost)} of {len(found.windows)} windows are gone in whole or in part: the log of {lost[-1].gone[0]} "
        f"starts after {last}. Restore those records, read the windows from a copy, or start the backfill later: "
        f"--from {last}."
    )
    return 1


def _page(found: WindowsOutlook, zone: tzinfo, output: str) -> Page:
    topics = sorted(found.timestamp_types)
    records = sum(window.record_count_upper_bound for window in found.windows)
    summary = (
        f"{len(found.windows)} windows, up to {records} records of {found.partition_count} partitions, "
        f"{found.isolation_level}, cluster {found.cluster_id}"
    )
    appended = [topic for topic in topics if found.timestamp_types[topic] == "LogAppendTime"]
    if appended:
        summary += f"\nby the broker's clock (LogAppendTime): {', '.join(appended)}"
    facts = {
        "cluster_id": found.cluster_id,
        "isolation_level": found.isolation_level,
        "resolved_at_ms": found.resolved_at_ms,
        "partition_count": found.partition_count,
        "timestamp_types": dict(found.timestamp_types),
    }
    return Page([_for_programs(found, zone) if output == "json" else _for_people(found, zone, output)], facts, summary)


def _for_people(found: WindowsOutlook, zone: tzinfo, output: str) -> Table:
    topics = sorted(found.timestamp_types)
    shown = topics if output == "csv" or 1 < len(topics) <= 6 else []
    rows = [
        (
            _clock(window.start_ms, zone),
            _clock(window.end_ms, zone),
            window.record_count_upper_bound,
            *(window.records.get(topic, 0) for topic in shown),
            window.complete,
            window.retention,
        )
        for window in found.windows
    ]
    return Table(("start", "end", "records", *shown, "complete", "retention"), rows, "windows")


def _for_programs(found: WindowsOutlook, zone: tzinfo) -> Table:
    columns = "start,end,start_ms,end_ms,record_count_upper_bound,topics,complete,retention,gone,perhaps_gone"
    rows = [
        (
            _clock(window.start_ms, zone),
            _clock(window.end_ms, zone),
            window.start_ms,
            window.end_ms,
            window.record_count_upper_bound,
            dict(window.records),
            window.complete,
            window.retention,
            [str(tp) for tp in window.gone],
            [str(tp) for tp in window.perhaps_gone],
        )
        for window in found.windows
    ]
    return Table(columns.split(","), rows, "windows")


def _clock(moment_ms: int, zone: tzinfo) -> str:
    """As ISO 8601 by the clock of ``zone``; what no calendar has, as a number."""
    try:
        moment = (_EPOCH + timedelta(milliseconds=moment_ms)).astimezone(zone)
    except OverflowError:
        return iso(moment_ms)
    text = moment.isoformat(timespec="seconds" if moment_ms % 60_000 else "minutes")
    return text.replace("+00:00", "Z") if str(zone) == "UTC" else text
