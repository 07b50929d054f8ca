# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""A real Kafka cluster behind :class:`airflow_kafka_offsets.broker.protocol.Cluster`: its connection and its questions.

Every answer is checked partition by partition, because confluent-kafka's calls succeed without it, and questions go out
in chunks: see ``discovery``, ``lookups``, ``assignments`` and ``group_offsets``.
"""

from __future__ import annotations

from airflow_kafka_offsets.broker import assignments, discovery, group_offsets, lookups
from airflow_kafka_offsets.broker.connection import Connection


class KafkaCluster(Connection):
    """``Cluster`` over confluent-kafka's clients. Use it as a context manager.

    :param config: librdkafka settings, as in the Kafka connection's extra.
    :param deadline_s: how long one question may take with all its retries.
    """

    describe = discovery.describe
    log_start_offsets = lookups.log_start_offsets
    end_offsets = lookups.end_offsets
    offsets_for_times = lookups.offsets_for_times
    newest_timestamps = lookups.newest_timestamps
    ends_of_epochs = assignments.ends_of_epochs
    first_times = assignments.first_times
    record_counts = assignments.record_counts
    committed = group_offsets.committed
    describe_group = group_offsets.describe_group
    commit_offsets = group_offsets.commit_offsets
