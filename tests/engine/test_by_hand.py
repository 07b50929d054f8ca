"""What a person does: reset and skip, and what each records."""

import pytest

from airflow_kafka_offsets.engine import by_hand
from airflow_kafka_offsets.engine.by_hand import Moved
from airflow_kafka_offsets.engine.look import Look
from airflow_kafka_offsets.engine.work import Nothing
from airflow_kafka_offsets.errors import ReadNotVerified, ResetRefused
from airflow_kafka_offsets.kafka_values import Actor, CommittedOffset, OffsetRange
from airflow_kafka_offsets.log.reports import Counts
from airflow_kafka_offsets.offsets import GroupOffsets, SpecificOffsets
from airflow_kafka_offsets.store.memory import MemoryStore
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import HOUR, Pipeline, produce, ranges_of, tp

ME = Actor(person="ada")


def reset(pipeline: Pipeline, start: object, *, allow: bool = False) -> Moved:
    return by_hand.reset(pipeline.request(start=start), ME, pipeline.log, pipeline.cluster, allow_duplicates=allow)


def skip(pipeline: Pipeline, partition: int, start: int, end: int) -> None:
    by_hand.skip(pipeline.request(), ME, pipeline.log, pipeline.cluster, tp(partition), OffsetRange(start, end))


def decisions(pipeline: Pipeline) -> list[tuple[int, str, int, int | None]]:
    found = pipeline.log.body(pipeline.log.newest()).decisions
    return [(d.partition.partition, d.kind, d.start, d.end) for d in found]


def test_a_reset_forward_is_a_batch_that_records_what_it_skips(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 10)
    moved = reset(pipeline, "latest")
    assert (moved.batch, decisions(pipeline)) == (2, [(0, "skipped", 10, 20)])
    assert cluster.groups["lake"][tp(0)].offset == 20
    assert isinstance(pipeline.resolve(), Nothing)
    assert pipeline.log.newest().output == pipeline.output  # another one is noticed after it, too


def test_a_reset_backward_needs_leave_to_read_again(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    with pytest.raises(ResetRefused, match=r"(?s)offsets 0 to 10 would be read again.*--allow-duplicates"):
        reset(pipeline, "earliest")
    reset(pipeline, SpecificOffsets({"orders": {"0": 4}}, "earliest"), allow=True)
    assert decisions(pipeline) == [(0, "again", 4, 10)]
    assert ranges_of(pipeline.whole_run())[0] == (4, 10)


def test_a_reset_of_an_unfinished_batch_plans_it_again_under_its_key(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    work = pipeline.work("a")
    pipeline.drive(work)
    produce(cluster, 0, 5)
    reset(pipeline, SpecificOffsets({"orders": {"0": 6}}, "earliest"))
    again = pipeline.work("b")
    assert (again.key, ranges_of(again)[0]) == (work.key, (6, 10))
    with pytest.raises(ReadNotVerified, match="no longer count"):
        pipeline.commit(again)
    pipeline.drive(again)
    pipeline.commit(again)
    assert ranges_of(pipeline.whole_run())[0] == (10, 15)


def test_a_reset_of_an_unfinished_batch_keeps_the_skips_that_it_still_reads(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    pipeline.work("a")
    for start in (2, 6, 8):
        skip(pipeline, 0, start, start + 1)
    reset(pipeline, SpecificOffsets({"orders": {"0": 6}}, "earliest"))
    assert pipeline.work("b").body.planned(tp(0)) == 2
    assert decisions(pipeline) == [(0, "skipped", 6, 7), (0, "skipped", 8, 9)]


def test_offsets_that_the_log_does_not_have_are_refused(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.whole_run()
    with pytest.raises(ResetRefused, match="offset 99 is outside of the log, 0 to 0"):
        reset(pipeline, SpecificOffsets({"orders": {"0": 99}}, "earliest"))


def test_after_a_lost_log_only_the_groups_offsets_are_a_start(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 5)
    pipeline.store = MemoryStore()
    with pytest.raises(ResetRefused, match="--start group-offsets"):
        reset(pipeline, "earliest", allow=True)
    with pytest.raises(ResetRefused, match=r"(?s)offset 10 or a later one.*Delete these rows"):
        reset(pipeline, GroupOffsets())
    reset(pipeline, GroupOffsets(), allow=True)
    assert ranges_of(pipeline.whole_run())[0] == (10, 15)


def test_the_groups_offsets_can_be_adopted(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    cluster.commit_as_somebody_else("lake", {tp(0): CommittedOffset(3)})
    reset(pipeline, GroupOffsets(), allow=True)
    assert ranges_of(pipeline.whole_run())[0] == (3, 10)


def test_a_reset_moves_a_pipeline_to_another_cluster(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    cluster.cluster_id = "another"
    cluster.recreate_topic("orders")
    produce(cluster, 0, 3)
    with pytest.raises(ResetRefused, match="allow-duplicates"):
        reset(pipeline, "earliest")
    reset(pipeline, "earliest", allow=True)
    assert ranges_of(pipeline.whole_run())[0] == (0, 3)


def test_an_acknowledged_cluster_is_read_from_the_same_offsets_of_its_own_topics(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    cluster.cluster_id = "another"
    cluster.recreate_topic("orders")
    produce(cluster, 0, 15)
    look = Look(pipeline.request(), cluster)
    assert by_hand.acknowledge(look, pipeline.log, pipeline.log.newest(), ME)
    position = pipeline.log.position_after(pipeline.log.newest())
    assert position[tp(0)] == (10, None, look.description.topic_ids["orders"])
    assert ranges_of(pipeline.whole_run())[0] == (10, 15)


def test_an_acknowledgement_of_an_unfinished_batch_keeps_what_another_client_wrote_and_no_more(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 10)
    pipeline.work("b")
    moved = {tp(0): CommittedOffset(3)}
    cluster.commit_as_somebody_else("lake", moved)
    assert by_hand.acknowledge(Look(pipeline.request(), cluster), pipeline.log, pipeline.log.newest(), ME)
    skip(pipeline, 0, 12, 13)
    assert pipeline.log.seen(pipeline.log.newest()) == moved
    assert ranges_of(pipeline.whole_run("b"))[0] == (10, 20)


def test_a_position_of_windows_cannot_be_reset(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.whole_run("w", pipeline.window(cluster.now_ms - HOUR, cluster.now_ms))
    with pytest.raises(ResetRefused, match="--window"):
        reset(pipeline, "earliest")


def test_a_skip_takes_offsets_out_of_the_unfinished_batch(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    work = pipeline.work("a")
    skip(pipeline, 0, 4, 5)
    again = pipeline.work("b")
    assert (again.key, ranges_of(again)[0], again.body.planned(tp(0))) == (work.key, (0, 10), 9)
    assert again.offset_options() == {}  # only a job that filters can do it
    assert decisions(pipeline) == [(0, "skipped", 4, 5)]
    attempt = pipeline.begin(again)
    pipeline.report(again, attempt, {tp(0): Counts(rows=9, offsets=9, first=0, last=9)})
    assert pipeline.commit(again).figures["skipped"] == 1


@pytest.mark.parametrize("offsets", [(8, 12), (4, 6)])
def test_a_skip_outside_of_the_batch_or_twice_is_refused(
    cluster: InMemoryCluster, pipeline: Pipeline, offsets: tuple[int, int]
) -> None:
    produce(cluster, 0, 10)
    pipeline.work("a")
    skip(pipeline, 0, 4, 5)
    with pytest.raises(ResetRefused):
        skip(pipeline, 0, *offsets)


def test_a_skip_of_a_window(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    want = pipeline.window(cluster.now_ms - HOUR, cluster.now_ms)
    cluster.produce(tp(0), [cluster.now_ms - 5] * 3)
    pipeline.work("w", want)
    by_hand.skip(want, ME, pipeline.log, cluster, tp(0), OffsetRange(1, 2))
    assert pipeline.work("w", want).batch.plan.given_up["skipped"] == 1


def test_an_acknowledgement_of_a_window_lets_later_attempts_verify_alone(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    want = pipeline.window(cluster.now_ms - HOUR, cluster.now_ms)
    cluster.produce(tp(0), [cluster.now_ms - 5] * 3)
    work = pipeline.work("w", want)
    pipeline.drive(work, output="files:/lake/old")
    assert by_hand.acknowledge(Look(want, cluster), pipeline.log, pipeline.log.newest(), ME)
    with pytest.raises(ReadNotVerified, match="no longer count"):
        pipeline.commit(work)
    pipeline.drive(work)
    pipeline.commit(work)
    with pytest.raises(ResetRefused, match="is committed"):
        by_hand.acknowledge(Look(want, cluster), pipeline.log, pipeline.log.newest(), ME)
