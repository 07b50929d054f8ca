"""The options, once for both command lines: every parameter of the operator by its name in kebab case.

Light: ``airflow`` reads this on each of its calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_offsets.offsets.spec import BOUNDED_MODES, STARTUP_MODES


@dataclass(frozen=True)
class Option:
    """One option as ``argparse`` takes it: ``--name`` and keyword arguments."""

    name: str
    help: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


_NUMBER = {"type": int, "metavar": "N"}
_JSON = {"metavar": "JSON"}
_FLAG = {"action": "store_true", "default": None}

CLUSTER = (
    Option("bootstrap_servers", "the cluster, as host:port[,host:port]"),
    Option("client_config", "a file of librdkafka settings, JSON or key=value lines", {"metavar": "FILE"}),
    Option("kafka_config_id", "an Airflow connection of type kafka (needs Airflow)"),
)

REQUEST = (
    Option("topics", "topics to read, separated by commas", {"metavar": "A,B"}),
    Option("topic_pattern", "a regular expression for whole topic names", {"metavar": "REGEX"}),
    Option("partitions", 'partitions to read, such as {"orders": [0, 2]}', _JSON),
    Option("include_internal_topics", "let the pattern match internal topics too", _FLAG),
    Option("group_id", "the consumer group; default: the client configuration's group.id"),
    Option("startup_mode", f"{', '.join(STARTUP_MODES)}; default: group-offsets", {"metavar": "MODE"}),
    Option("startup_timestamp", "epoch milliseconds or ISO 8601", {"metavar": "TIME"}),
    Option(
        "specific_offsets",
        'next record to read: {"orders": {"0": 42}}, Flink\'s partition:0,offset:42;… or @FILE with either or the '
        "CSV of kafka-consumer-groups --export",
        {"metavar": "OFFSETS"},
    ),
    Option("auto_offset_reset", "earliest, latest or none; default: the client configuration's, else latest"),
    Option("bounded_mode", f"{', '.join(BOUNDED_MODES)}; default: latest-offset", {"metavar": "MODE"}),
    Option("bounded_timestamp", "epoch milliseconds or ISO 8601, exclusive", {"metavar": "TIME"}),
    Option("bounded_offsets", "first record not to read, of every partition", _JSON),
    Option("isolation_level", "read_uncommitted or read_committed"),
    Option("on_data_loss", "fail (default), reset or advance"),
    Option("on_recreated", "fail (default) or earliest"),
    Option("on_group_moved", "fail (default), adopt-group or keep-checkpoint"),
    Option("on_topic_vanished", "fail (default) or ignore"),
    Option("restart", "apply the startup mode once more, under this word", {"metavar": "WORD"}),
    Option("max_records", "cap of the run, in offsets", _NUMBER),
    Option("max_records_per_partition", "cap of each partition, in offsets", _NUMBER),
    Option("splits", "how many Spark jobs read the plan", _NUMBER),
    Option("split_by", "size (default) or flink"),
    Option("require_complete_window", "refuse a window that may still grow", _FLAG),
    Option("checkpoint_id", "go on from this pipeline's position; without it the startup mode decides"),
)

OUTPUT = (
    Option(
        "output",
        "table (default), json (the plan), csv; or the start offsets for kafka-consumer-groups --from-file "
        "(offsets-csv) or Flink's SQL (offsets-flink)",
        {"choices": ("table", "json", "csv", "offsets-csv", "offsets-flink")},
    ),
)

PLAN = (*CLUSTER, *REQUEST, *OUTPUT)
