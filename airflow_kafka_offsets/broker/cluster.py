"""A real Kafka cluster behind :mod:`airflow_kafka_offsets.broker.protocol`: its connection, and all that it is asked.

Every answer is checked partition by partition, because the client library's calls succeed without it, and questions go
out in chunks: see ``topic_discovery``, ``lookups`` and ``group_offsets``.
"""

from __future__ import annotations

from airflow_kafka_offsets.broker import group_offsets, lookups, records, topic_discovery


class KafkaCluster(lookups.LookUps):
    """``OffsetReader`` and ``OffsetCommitter`` over confluent-kafka's clients. Use it as a context manager.

    :param config: librdkafka settings, as in the Kafka connection's extra.
    :param deadline_s: how long one question may take with all its retries.
    """

    discover = topic_discovery.discover
    describe = topic_discovery.describe
    topic_settings = topic_discovery.topic_settings
    ends_of_epochs = lookups.ends_of_epochs
    records_from = records.records_from
    first_times = records.first_times
    committed = group_offsets.read_committed_offsets
    all_committed = group_offsets.read_group
    describe_group = group_offsets.describe_group
    commit_offsets = group_offsets.write_offsets
