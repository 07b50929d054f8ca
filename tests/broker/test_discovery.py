"""Topics are described in small chunks: large ones take Python longer than Kafka."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.broker.topic_discovery import DESCRIBE_CHUNK, _in_chunks


@given(st.lists(st.integers(1, 2 * DESCRIBE_CHUNK), max_size=50))
def test_each_topic_is_in_one_chunk_and_no_chunk_that_has_two_has_too_many_partitions(sizes: list[int]) -> None:
    topics = {f"t{number:02}": size for number, size in enumerate(sizes)}
    found = list(_in_chunks(topics))
    assert [name for chunk in found for name in chunk] == list(topics)
    assert all(chunk for chunk in found)
    assert all(len(chunk) == 1 or sum(map(topics.__getitem__, chunk)) <= DESCRIBE_CHUNK for chunk in found)
    for one, after in itertools.pairwise(found):
        assert sum(map(topics.__getitem__, [*one, after[0]])) > DESCRIBE_CHUNK, "two chunks where one would do"
