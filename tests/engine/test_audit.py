"""Whatever runs and people do, an audit finds nothing that nobody has decided."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.engine import by_hand
from airflow_kafka_offsets.engine.audit import findings, read_log
from airflow_kafka_offsets.engine.look import Look
from airflow_kafka_offsets.errors import RefusedError
from airflow_kafka_offsets.kafka_values import Actor, OffsetRange
from airflow_kafka_offsets.offsets import SpecificOffsets
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import HOUR, TOPIC, Pipeline, tp

_ME = Actor(person="me")
_PARTITIONS = st.integers(0, 1)
_IN_SEQUENCE = st.one_of(
    st.tuples(st.just("produce"), _PARTITIONS, st.integers(1, 9)),
    st.tuples(st.just("delete"), _PARTITIONS, st.integers(0, 30)),
    st.tuples(st.just("cut"), _PARTITIONS, st.integers(0, 30)),
    st.tuples(st.just("run"), st.sampled_from(["advance", "fail"]), st.sampled_from([None, 3])),
    st.tuples(st.just("plan"), st.sampled_from(["advance", "fail"]), st.just(None)),
    st.tuples(st.just("reset"), _PARTITIONS, st.integers(0, 30)),
    st.tuples(st.just("skip"), _PARTITIONS, st.integers(0, 30)),
    st.tuples(st.sampled_from(["current", "grow", "recreate"]), st.just(0), st.just(0)),
)


def act(cluster: InMemoryCluster, pipeline: Pipeline, step: tuple[str, object, object]) -> None:
    match step:
        case ("produce", int(partition), int(count)):
            cluster.produce(tp(partition), [cluster.now_ms] * count)
        case ("delete" | "cut" as what, int(partition), int(offset)):
            log = cluster.topics[TOPIC].logs[partition]
            offset = max(log.log_start_offset, min(offset, log.high_watermark))
            (cluster.delete_records if what == "delete" else cluster.truncate)(tp(partition), offset)
        case ("run", policy, most):
            pipeline.whole_run(on_data_loss=policy, max_records=most)
        case ("plan", policy, _):
            pipeline.resolve(on_data_loss=policy)
        case ("reset", int(partition), int(offset)):
            offsets = {TOPIC: {str(n): offset for n in cluster.topics[TOPIC].logs}}
            want = pipeline.request(start=SpecificOffsets(offsets), topics={TOPIC: [partition]})
            by_hand.reset(want, _ME, pipeline.log, cluster, allow_duplicates=True)
        case ("skip", int(partition), int(offset)):
            want = pipeline.request(on_data_loss="advance")
            by_hand.skip(want, _ME, pipeline.log, cluster, tp(partition), OffsetRange(offset, offset + 2))
        case ("current", _, _):
            newest = pipeline.log.newest()
            if newest is not None:
                by_hand.acknowledge(Look(pipeline.request(), cluster), pipeline.log, newest, _ME)
        case ("grow", _, _):
            cluster.add_partitions(TOPIC, 1)
        case ("recreate", _, _):
            cluster.recreate_topic(TOPIC)


def undecided(pipeline: Pipeline) -> list[str]:
    newest = pipeline.log.newest()
    return [] if newest is None else [str(finding) for finding in findings(read_log(pipeline.log, newest))]


@given(st.lists(_IN_SEQUENCE, max_size=14))
def test_in_sequence(steps: list[tuple[str, object, object]]) -> None:
    cluster = InMemoryCluster()
    cluster.create_topic(TOPIC, 2)
    pipeline = Pipeline(cluster)
    for step in steps:
        with suppress(RefusedError):
            act(cluster, pipeline, step)
        assert undecided(pipeline) == [], step


_BY_WINDOW = st.one_of(
    st.tuples(st.just("produce"), _PARTITIONS, st.integers(0, 9)),
    st.tuples(st.just("delete"), _PARTITIONS, st.integers(0, 30)),
    st.tuples(st.just("window"), st.integers(0, 8), st.integers(1, 2)),
    st.tuples(st.just("open"), st.integers(0, 8), st.just(1)),
    st.tuples(st.just("skip"), _PARTITIONS, st.integers(0, 30)),
    st.tuples(st.just("grow"), st.just(0), st.just(0)),
    st.tuples(st.just("recreate"), st.just(0), st.just(0)),
)


@given(st.lists(_BY_WINDOW, max_size=14), st.sampled_from(["advance", "fail"]))
def test_by_window(steps: list[tuple[str, int, int]], policy: str) -> None:
    cluster = InMemoryCluster()
    cluster.create_topic(TOPIC, 2)
    pipeline = Pipeline(cluster, {"group_id": None})
    first = cluster.now_ms - 20 * HOUR
    for step in steps:
        what, at, more = step
        with suppress(RefusedError):
            if what == "produce":
                cluster.produce(tp(at), [first + more * HOUR + 5] * 3)
            elif what in ("window", "open"):
                want = pipeline.window(first + at * HOUR, first + (at + more) * HOUR, on_data_loss=policy)
                (pipeline.whole_run if what == "window" else pipeline.resolve)(f"run {at}", want)
            else:
                act(cluster, pipeline, step)
        assert undecided(pipeline) == [], step
