"""What drivers write and readers read: each output with the rows of each batch key and split.

A row is a record: cluster, topic id, partition, offset, and how often the log had been cut at or below that offset when
it was read, because after an unclean election other records are there. The sink keeps its contract: a swap replaces the
rows of one key and split at once, or nothing is changed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cache

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.plan.topic_outputs import TOPIC

Log = tuple[str, str, int]  # cluster, topic id, partition
Row = tuple[Log, int, int]  # offset, how often the log was cut
Rows = frozenset[Row]
NO_LOG = 10**9  # the log start of a log that is not there any more


def log_of(plan: Plan, tp: TopicPartition) -> Log:
    return plan.found.cluster_id, plan.found.topic_ids[tp.topic] or "", tp.partition


def planned_rows(plan: Plan) -> dict[int, set[tuple[Log, int]]]:
    """What each split of a plan reads: logs and offsets."""
    return {
        split: {
            (log_of(plan, p.topic_partition), offset) for p in found for offset in range(p.start_offset, p.end_offset)
        }
        for split, found in enumerate(plan.splits)
    }


class Lake:
    """Who reads an output by a pattern, ``/lake/{topic}``, reads those of all topics: also of one that is gone."""

    def __init__(self) -> None:
        self.outputs: dict[str, dict[str, dict[int, Rows]]] = defaultdict(lambda: defaultdict(dict))

    def swap(self, output: str, key: str, split: int, rows: Rows) -> None:
        self.outputs[output][key][split] = rows

    def splits(self, output: str, key: str) -> dict[int, Rows]:
        """The splits that hold rows: what has none leaves no trace."""
        found: dict[int, Rows] = {}
        for keys in self._of(output):
            for split, rows in keys.get(key, {}).items():
                if rows:
                    found[split] = found.get(split, frozenset()) | rows
        return found

    def keys(self, output: str) -> list[str]:
        """The keys that have rows, as a reader of the whole base finds them."""
        return list(
            dict.fromkeys(key for keys in self._of(output) for key, splits in keys.items() if any(splits.values()))
        )

    def remove(self, output: str, keys: Iterable[str]) -> None:
        """A person removes what ``UnknownOutput`` names."""
        for of_topic in self._of(output):
            for key in keys:
                of_topic.pop(key, None)

    def _of(self, output: str) -> list[dict[str, dict[int, Rows]]]:
        return [keys for name, keys in self.outputs.items() if _outputs(output).fullmatch(name)]


@cache
def _outputs(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(re.escape(TOPIC), "[a-z0-9_]+"))
