# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""``max_records``: how much of the ranges one run reads, and ``shard``: which partitions a pipeline reads.

A cap is shared fairly: small partitions are read whole, and what they leave over goes to the larger ones in equal
parts. A cap below the number of partitions goes round: a partition that gets nothing in one run comes first in a later
one. (Limits that read nothing, or negative ranges under skew: HUDI-918, HUDI-7506.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.body import PlannedRange


def cap_ranges(
    ranges: Mapping[TopicPartition, PlannedRange], max_records: int | None
) -> dict[TopicPartition, PlannedRange]:
    """The same ranges with lower ends. Offsets are counted, which are an upper bound of records."""
    if max_records is None:
        return dict(ranges)
    partitions = sorted(ranges)
    sizes = [ranges[tp].end - ranges[tp].start for tp in partitions]
    # The starts move on by what each run reads, so their sum says which partition gets one more next.
    shares = fair_shares(sizes, max_records, sum(ranges[tp].start for tp in partitions))
    return {tp: ranges[tp]._replace(end=ranges[tp].start + share) for tp, share in zip(partitions, shares, strict=True)}


def fair_shares(wanted: Sequence[int], total: int, first: int) -> list[int]:
    """Shares of ``total``, none above what is wanted, as equal as that allows.

    :param first: where those begin, round the list, that get one of what cannot be divided.
    """
    shares = [0] * len(wanted)
    left = total
    hungry = [index for index, want in enumerate(wanted) if want]
    while hungry and left >= len(hungry):
        equal = left // len(hungry)
        for index in hungry:
            more = min(equal, wanted[index] - shares[index])
            shares[index] += more
            left -= more
        hungry = [index for index in hungry if shares[index] < wanted[index]]
    for index in sorted(hungry, key=lambda index: (index - first) % len(wanted))[:left]:
        shares[index] += 1
    return shares


def flink_owner(tp: TopicPartition, parallelism: int) -> int:
    """Flink's ``KafkaTopicPartitionAssigner.assign``: the subtask that reads a partition.

    :raises ValueError: ``parallelism`` is not positive (H4).
    """
    if parallelism < 1:
        raise ValueError(f"parallelism {parallelism} is not positive")
    start_index = ((java_string_hash(tp.topic) * 31) & 0x7FFFFFFF) % parallelism
    return (start_index + tp.partition) % parallelism


def java_string_hash(text: str) -> int:
    """Java's ``String.hashCode`` of a topic's name, which is ASCII: 32 bits that wrap, unsigned."""
    result = 0
    for character in text:
        result = (result * 31 + ord(character)) & 0xFFFFFFFF
    return result
