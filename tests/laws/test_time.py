"""Windows that join, and a live schedule that ends by time: what holds whatever was produced, in whatever order.

Timestamps are drawn small and out of order, so that they often meet a boundary and often come late. Also the end of a
transaction has one, the broker's.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import DataLoss
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.request.parse_request import RunContext, parse_request
from airflow_kafka_offsets.request.times import Width
from tests.asked import request_parameters
from tests.cluster.memory import InMemoryCluster
from tests.engine import preview
from tests.laws import pipelines
from tests.laws.examples import of_examples
from tests.laws.pipelines import NOW, ranges, run_key

law = of_examples(100)

T = 1_704_103_200_000
FUTURE = 10**9  # minutes: a producer that takes microseconds for milliseconds
PLACES = [TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("payments", 0)]
TIMES = st.lists(st.integers(-5, 65), max_size=30)  # minutes after T: also before the first window, and after the last
LOGS = st.tuples(*[TIMES for _ in PLACES])
BOUNDARIES = st.lists(st.integers(0, 60), min_size=2, max_size=8, unique=True).map(sorted)


def minute(number: int) -> int:
    return T + number * 60_000


def cluster_of(logs, deleted=(0, 0, 0), control=False) -> InMemoryCluster:
    cluster = pipelines.cluster(now_ms=minute(30))
    cluster.create_topic("orders", 2)
    cluster.create_topic("payments", 1)
    for tp, minutes in zip(PLACES, logs, strict=True):
        cluster.produce(tp, [minute(number) for number in minutes])
        if control:
            transaction = cluster.begin_transaction()
            transaction.produce(tp, [minute(20)])
            transaction.commit()
    for tp, count in zip(PLACES, deleted, strict=True):
        cluster.delete_records(tp, min(count, cluster.topics[tp.topic].logs[tp.partition].high_watermark))
    return cluster


def window(cluster: InMemoryCluster, start: object, end: object, **more: object) -> Plan:
    asked = request_parameters(
        topics="orders,payments",
        startup_mode="timestamp",
        startup_timestamp=start,  # type: ignore[arg-type]
        bounded_mode="timestamp",
        bounded_timestamp=end,  # type: ignore[arg-type]
        **more,  # type: ignore[arg-type]
    )
    return preview(parse_request(asked, RunContext(NOW)), cluster, None)


# ── windows ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@law
@given(LOGS, BOUNDARIES, st.tuples(*[st.integers(0, 10)] * 3), st.booleans())
def test_adjacent_windows_share_no_record_and_skip_none(logs, cuts, deleted, control):
    cluster = cluster_of(logs, deleted, control)
    parts = [ranges(window(cluster, minute(a), minute(b))) for a, b in pairwise(cuts)]
    whole = ranges(window(cluster, minute(cuts[0]), minute(cuts[-1])))
    for tp in PLACES:
        assert [part[tp][1] for part in parts[:-1]] == [part[tp][0] for part in parts[1:]]
        assert (parts[0][tp][0], parts[-1][tp][1]) == whole[tp]


@law
@given(LOGS, BOUNDARIES, st.integers(-20, 20))
def test_adjacent_windows_of_each_topic_join_also_where_the_topics_times_differ(logs, cuts, later):
    cluster = cluster_of(logs)

    def times(cut):
        return {"orders": minute(cut), "payments": minute(cut + later)}

    parts = [ranges(window(cluster, times(a), times(b))) for a, b in pairwise(cuts)]
    for tp in PLACES:
        assert [part[tp][1] for part in parts[:-1]] == [part[tp][0] for part in parts[1:]]


@law
@given(LOGS, st.integers(0, 60), st.integers(0, 60))
def test_a_window_reads_every_record_of_its_time_that_is_in_order(logs, one, other):
    """Sorted logs: then the window is exactly the records whose timestamps lie in it."""
    start, end = sorted((one, other))
    cluster = cluster_of([sorted(minutes) for minutes in logs])
    for tp, (first, past) in ranges(window(cluster, minute(start), minute(end))).items():
        entries = cluster.topics[tp.topic].logs[tp.partition].entries
        inside = [e.offset for e in entries if minute(start) <= e.timestamp_ms < minute(end)]
        assert list(range(first, past)) == inside


@law
@given(LOGS, BOUNDARIES, st.tuples(*[st.integers(0, 30)] * 3))
def test_a_window_that_would_end_at_a_record_of_the_future_is_refused_and_others_join(logs, cuts, where):
    """By policy it ends there, and the windows still join."""
    cluster = cluster_of([[*minutes[:at], FUTURE, *minutes[at:]] for minutes, at in zip(logs, where, strict=True)])
    firsts = {tp: min(at, len(minutes)) for tp, minutes, at in zip(PLACES, logs, where, strict=True)}
    parts = []
    for a, b in pairwise(cuts):
        parts.append(ranges(window(cluster, minute(a), minute(b), data_loss="advance")))
        poisoned = {tp for tp in PLACES if parts[-1][tp][1] == firsts[tp]}
        if not poisoned:
            assert ranges(window(cluster, minute(a), minute(b))) == parts[-1]
            continue
        with pytest.raises(DataLoss) as refused:
            window(cluster, minute(a), minute(b))
        assert {line.partition(":")[0] for line in refused.value.partitions} == set(map(str, poisoned))
    for tp in PLACES:
        assert [part[tp][1] for part in parts[:-1]] == [part[tp][0] for part in parts[1:]]


ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "America/Sao_Paulo"])
WIDTHS = st.sampled_from(
    [Width(1, 0), Width(7, 0), Width(0, 3_600_000), Width(0, 900_000), Width(0, 86_400_000), Width(1, 43_200_000)]
)


@law
@given(st.datetimes(datetime(2010, 1, 1), datetime(2027, 12, 31)), WIDTHS, ZONES)
@example(datetime(2026, 3, 28, 2, 30), Width(1, 0), "Europe/Berlin")
@example(datetime(2026, 10, 24, 2, 30), Width(1, 0), "Europe/Berlin")
@example(datetime(2026, 10, 25, 2, 30, fold=1), Width(0, 3_600_000), "Europe/Berlin")
@example(datetime(2018, 11, 3), Width(1, 0), "America/Sao_Paulo")  # the next day has no midnight
def test_a_window_has_a_length_on_every_day_of_the_year(start, width, zone):
    aware = start.replace(tzinfo=ZoneInfo(zone))
    start_ms = int(aware.timestamp()) * 1000
    longest = width.days * 86_400_000 + width.rest_ms + (2 * 3_600_000 if width.days else 0)
    assert 0 < width.after(start_ms, aware.tzinfo) - start_ms <= longest


# ── a live schedule ───────────────────────────────────────────────────────────────────────────────────────────────────

COMING = st.integers(-30, 70) | st.just(FUTURE)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("produce"),
            st.integers(0, 2),
            st.lists(COMING, min_size=1, max_size=5),
        ),
        st.tuples(st.just("run"), st.booleans(), st.just(None)),
        st.tuples(st.just("transaction"), st.integers(0, 2), st.booleans()),
    ),
    max_size=25,
)


@law
@given(STEPS, st.sampled_from(["read_uncommitted", "read_committed"]))
def test_from_the_position_to_a_time_no_record_is_lost_or_read_twice(steps, isolation_level):
    """DESIGN's pair for a live schedule: late records and such of the future, and runs that fail.

    Each run ends ten minutes after the one before; a batch that a run has left unfinished is the next one's, as it was
    planned. The last runs, long after, read what was still to come; what has a time of the far future, they are before.
    """
    pipeline = pipelines.Pipeline(
        cluster_of([[], [], []]),
        {
            "topics": "orders,payments",
            "startup_mode": "earliest-offset",
            "bounded_mode": "timestamp",
            "isolation_level": isolation_level,
        },
    )
    number = 0

    def run(commits: bool, end: int) -> None:
        run_context = {"interval": (minute(end - 10), minute(end))}
        assignment = pipeline.plan(run_key(number), run_context=run_context)
        if not commits:
            return
        if assignment.batch is not None:
            pipeline.read(assignment.batch, assignment.splits)
        pipeline.commit(run_key(number), assignment)

    for kind, what, more in steps:
        if kind == "produce":
            pipeline.cluster.produce(PLACES[what], [minute(number * 10 + at) for at in more])
        elif kind == "transaction":
            transaction = pipeline.cluster.begin_transaction()
            transaction.produce(PLACES[what], [minute(number * 10)])
            transaction.commit() if more else transaction.abort()
        else:
            number += 1
            run(what, number * 10)
    for _ in range(2):
        number += 1
        run(True, 1_000_000 * number)
        assert minute(1_000_000 * number) < minute(FUTURE)
    read: Counter[tuple[TopicPartition, int]] = Counter()
    for rows in pipeline.lake.values():
        read.update((tp, offset) for tp, offsets in rows.items() for offset in offsets)
    for tp in PLACES:
        end = pipeline.cluster.topics[tp.topic].logs[tp.partition].high_watermark
        assert [read[tp, offset] for offset in range(end)] == [1] * end
