"""What a run asks for: another subscription, cap and policy in each, until the quiet end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.kafka_values import TopicPartition, by_topic
from airflow_kafka_offsets.offsets import Timestamp
from airflow_kafka_offsets.request import Request, RunContext, parse_request
from tests.model.deployment import Run
from tests.model.stepping import T0, UNIT_MS, SteppingCluster

if TYPE_CHECKING:
    from tests.model.world import World


def request_of(world: World, run: Run, *, is_quiet: bool) -> Request:
    rnd, pipeline = world.rnd, run.pipeline
    kafka = world.clusters[world.conn]
    window = None if run.window is None else tuple(T0 + t * UNIT_MS for t in run.window)
    shards = world.req_shards if pipeline is world.pipeline else pipeline.shards
    parameters: dict[str, Any] = {"topics": "^.*", "pipeline_id": pipeline.name}
    if window is not None:
        parameters |= {"start": Timestamp(), "end": Timestamp()}
    else:
        topics, exclude = _subscription(world, kafka, is_quiet)
        parameters |= {"topics": topics, "exclude": exclude, "start": pipeline.start, "group_id": pipeline.group}
        parameters["max_records"] = world.cap or (None if is_quiet else rnd.choice((None, None, 3)))
    if shards > 1:
        parameters["shard"] = (run.shard % shards, shards)
    parameters["on_data_loss"] = "advance" if is_quiet or rnd.random() < 0.6 else "fail"
    parameters |= {"require_report": world.has_reports, **world.asks}
    context = RunContext(T0 + world.clock * UNIT_MS, window, run.conf, [pipeline.name])
    return parse_request(parameters, context, {"isolation.level": world.isolation_level}, world.req_output)


def _subscription(world: World, kafka: SteppingCluster, is_quiet: bool) -> tuple[Any, Any]:
    """A list, a pattern, or partitions, and what is left out of them."""
    rnd, whole = world.rnd, "^.*"
    partitions = [TopicPartition(name, p) for name in sorted(kafka.topics) for p in sorted(kafka.topics[name].logs)]
    if is_quiet or not partitions or (world.losses and not world.identities()):
        return whole, ()
    topics: Any = whole
    if "subscriptions" in world.on and rnd.random() < 0.5:
        names = [name for name in sorted(kafka.topics) if rnd.random() < 0.7] or [partitions[0].topic]
        partitions = [tp for tp in partitions if tp.topic in names]
        topics = names
        if rnd.random() < 0.4:
            partitions = [tp for tp in partitions if rnd.random() < 0.7] or partitions[:1]
            topics = by_topic(partitions)
    return topics, [str(tp) for tp in partitions if rnd.random() < 0.07][: len(partitions) - 1]
