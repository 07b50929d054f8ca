"""Which of some topics exist, and what cluster this is."""

from __future__ import annotations

import re
from collections.abc import Collection

from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.errors import NothingToDiscover
from airflow_kafka_offsets.offsets.model import ClusterDescription
from airflow_kafka_offsets.offsets.request.scope import TopicPattern


def describe_present(cluster: OffsetReader, topics: Collection[str]) -> ClusterDescription | None:
    """Those of ``topics`` that exist, and the cluster's id; ``None`` where nothing at all is found.

    The groups' own topic is asked for beside them, and is there wherever a group is: with it, also a cluster that has
    none of the topics tells its id.
    """
    pattern = "|".join(map(re.escape, [*sorted(topics), "__consumer_offsets"]))
    try:
        return cluster.describe(TopicPattern(pattern, include_internal=True))
    except NothingToDiscover:
        return None
