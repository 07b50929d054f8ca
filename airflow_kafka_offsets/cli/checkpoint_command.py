"""``write-checkpoint``: a checkpoint from which a Structured Streaming query goes on where the pipeline is.

One file is all that Spark needs of one: ``sources/0/0``, which it writes itself before a query's first batch. What it
has wins over ``startingOffsets``. A checkpoint that pretends to have done a batch is worse: Spark then writes an output
folder that it cannot read itself, since the sink's own log lacks that batch.
"""

from __future__ import annotations

from airflow_kafka_offsets.batch.airflow_state import NoAirflow
from airflow_kafka_offsets.batch.look_ups import World
from airflow_kafka_offsets.batch.orders import Reset
from airflow_kafka_offsets.batch.preview import preview_reset
from airflow_kafka_offsets.batch.situation import Cuts
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.commands import Options
from airflow_kafka_offsets.cli.option_values import client_config, me, pipeline_asked_for, store_at
from airflow_kafka_offsets.cli.printing import Answer, Table, columns
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import DataLoss, InvalidRequest, names
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.position_moves import ToCurrent
from airflow_kafka_offsets.request.offset_maps import to_initial_offsets
from airflow_kafka_offsets.request.parameters import ScopeParameters
from airflow_kafka_offsets.request.policies import NO_REASON
from airflow_kafka_offsets.request.subscription import TopicList, parse_scope

_FIRST_SOURCE = "sources/0/0"


def offsets_of_query(order: Reset, world: World) -> dict[TopicPartition, int]:
    """Where the query begins: a checkpoint has no leader epochs, so Spark itself does not see that a log was cut.

    :raises DataLoss: the log of a partition is not the one any more that its position is of.
    """
    moves = preview_reset(order, world).moves
    cuts = world.answer(Cuts({one.topic_partition: one.after for one in moves}))
    gone = [f"{one.topic_partition}: {one.goes_on_at} is not in its log any more" for one in moves if one.changes]
    if gone:
        remedy = "kafka-offsets reset --to-current goes on at what is there, and says what is lost. Then write it."
        raise DataLoss(gone, remedy)
    if cuts:
        raise DataLoss(
            [f"{tp}: from offset {cuts[tp]} on, the log is another one (an unclean election)" for tp in sorted(cuts)],
            'Let one run with the conf {"kafka_offsets": {"policies": {"data_loss": "advance"}}} go on at the first '
            "offset that differs. Then write it.",
        )
    return {one.topic_partition: one.after.offset for one in moves}


def write_checkpoint(options: Options) -> Answer:
    """Each partition's position, as the query begins there.

    :raises DataLoss: records of a partition are gone, so that no query can begin at its position.
    :raises InvalidRequest: no place is given, or something is there.
    """
    place = options.get("checkpoint")
    if not place:
        raise InvalidRequest(("Where to? Give --checkpoint and a folder that is empty or not there yet.",))
    pipeline, topics = pipeline_asked_for(options), options.get("topics")
    subscription = parse_scope(ScopeParameters(topics=topics)).subscription if topics else None
    chosen = subscription.topics if isinstance(subscription, TopicList) else ()
    with KafkaCluster(client_config(options)) as cluster:
        order = Reset(ToCurrent(), NO_REASON, me(options), now_ms(), chosen)
        offsets = offsets_of_query(order, World(pipeline, cluster, NoAirflow()))
    with names(lambda name: "--checkpoint" if name == "work_store" else name):
        store = store_at(place)
        dry_run, data = not options.get("execute"), to_initial_offsets(offsets).encode()
        if store.list("") or not (dry_run or store.create(_FIRST_SOURCE, data)):
            raise InvalidRequest((f"--checkpoint {place} is not empty: a query's checkpoint is never changed.",))
    rows = [{"topic": tp.topic, "partition": tp.partition, "offset": offset} for tp, offset in offsets.items()]
    return Answer(
        [Table(columns("topic", "partition", "offset"), rows)],
        {"pipeline_id": pipeline.pipeline_id, "checkpoint": place, "dry_run": dry_run},
        f"A query with the checkpoint {place} {'would begin' if dry_run else 'begins'} at these offsets.",
        messages=[
            "Leave the DAG paused: its next run reads the same records.",
            "Give the query a new output folder. In one that has _spark_metadata, Spark leaves out each batch whose "
            "number stands there, without a word.",
        ],
        dry_run="writes the checkpoint",
    )
