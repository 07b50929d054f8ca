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
_TIME = 'epoch milliseconds, ISO 8601, now-2h, or one for each topic: {"orders": "now-2h"}'
_FLAG = {"action": "store_true", "default": None}

CLUSTER = (
    Option("bootstrap_servers", "the cluster, as host:port[,host:port]"),
    Option("client_config", "a file of librdkafka settings, JSON or key=value lines", {"metavar": "FILE"}),
    Option("kafka_config_id", "an Airflow connection of type kafka (needs Airflow)"),
)

SUBSCRIPTION = (
    Option("topics", "topics, separated by commas", {"metavar": "A,B"}),
    Option("topic_pattern", "a regular expression for whole topic names", {"metavar": "REGEX"}),
    Option("partitions", 'partitions, such as {"orders": [0, 2]}', _JSON),
    Option("include_internal_topics", "let the pattern match internal topics too", _FLAG),
)
ISOLATION = Option("isolation_level", "read_uncommitted or read_committed; default: the client configuration's")
GROUP = Option("group_id", "the consumer group; default: the client configuration's group.id")
ON_GROUP_MOVED = Option("on_group_moved", "fail (default), adopt-group or keep-checkpoint")

REQUEST = (
    *SUBSCRIPTION,
    GROUP,
    Option("startup_mode", f"{', '.join(STARTUP_MODES)}; default: group-offsets", {"metavar": "MODE"}),
    Option("startup_timestamp", _TIME, {"metavar": "TIME"}),
    Option(
        "specific_offsets",
        'next record to read: {"orders": {"0": 42}}, Flink\'s partition:0,offset:42;… or @FILE with either or the '
        "CSV of kafka-consumer-groups --export",
        {"metavar": "OFFSETS"},
    ),
    Option("auto_offset_reset", "earliest, latest or none; default: the client configuration's, else latest"),
    Option("bounded_mode", f"{', '.join(BOUNDED_MODES)}; default: latest-offset", {"metavar": "MODE"}),
    Option("bounded_timestamp", f"{_TIME}; exclusive", {"metavar": "TIME"}),
    Option("bounded_offsets", "first record not to read, of every partition", _JSON),
    ISOLATION,
    Option("on_data_loss", "fail (default), reset or advance"),
    Option("on_recreated", "fail (default) or earliest"),
    ON_GROUP_MOVED,
    Option("on_topic_vanished", "fail (default) or ignore"),
    Option("restart", "apply the startup mode once more, under this word", {"metavar": "WORD"}),
    Option("max_records", "cap of the run, in offsets", _NUMBER),
    Option("max_records_per_partition", "cap of each partition, in offsets", _NUMBER),
    Option("splits", "how many Spark jobs read the plan", _NUMBER),
    Option("split_by", "size (default) or flink"),
    Option("require_complete_window", "refuse a window that may still grow", _FLAG),
    Option("idle_timeout", "how long after the end a silent partition is waited for: PT5M (default), or seconds"),
    Option("checkpoint_id", "go on from this pipeline's position; without it the startup mode decides"),
)

WINDOWS = (
    Option("windows", "many windows at once: hourly, daily, or ISO 8601 such as PT15M", {"metavar": "WIDTH"}),
    Option("from", "where the first window starts; with --windows", {"metavar": "TIME"}),
    Option("to", "where the last window ends, exclusive; with --windows", {"metavar": "TIME"}),
    Option("timezone", "of the days of --windows, and of times without a zone; default: UTC", {"metavar": "ZONE"}),
)

OUTPUT = Option("output", "table (default), json or csv", {"choices": ("table", "json", "csv")})
PLAN_OUTPUT = Option(
    "output",
    "table (default), json (the plan), csv; or the start offsets for kafka-consumer-groups --from-file "
    "(offsets-csv) or Flink's SQL (offsets-flink)",
    {"choices": ("table", "json", "csv", "offsets-csv", "offsets-flink")},
)
WORK_STORE = Option("work_store", "the work store's URI or folder; default: [kafka_offsets] work_store of Airflow")
CHECKPOINT_ID = Option("checkpoint_id", "the pipeline, by default group_id/dag_id/task_id")
STORED_PLAN = (
    Option("dag_id", "the run's DAG; with run_id and task_id"),
    Option("run_id", "the run"),
    Option("task_id", "the resolve task, with its task group: orders.resolve"),
    Option("map_index", "of a mapped resolve task", _NUMBER),
    Option("plan_id", "the plan itself, in the place of its run"),
)
FENCING = Option("fencing", "transaction (default), or compare: as the pipeline's commit task has it")
EXECUTE = Option("execute", "do it; without this, what would be done is shown and nothing is written", _FLAG)


@dataclass(frozen=True)
class Command:
    """One command: its name, what it does in a line, its options."""

    name: str
    help: str
    options: tuple[Option, ...]


COMMANDS = (
    Command("plan", "Make a plan and print it; nothing is written", (*CLUSTER, *REQUEST, *WINDOWS, PLAN_OUTPUT)),
    Command(
        "partitions",
        "Each partition of topics: its leader and both ends of its log",
        (*CLUSTER, *SUBSCRIPTION, ISOLATION, OUTPUT),
    ),
    Command(
        "lag",
        "How far a group is, in each partition, and who wrote its commits; of all its topics where none are named",
        (*CLUSTER, GROUP, *SUBSCRIPTION, ISOLATION, CHECKPOINT_ID, WORK_STORE, OUTPUT),
    ),
    Command(
        "checkpoint",
        "Where a pipeline goes on: its newest checkpoint",
        (
            *CLUSTER,
            CHECKPOINT_ID,
            WORK_STORE,
            Option("cluster_id", "the cluster's id, in the place of asking the cluster for it"),
            Option("history", "the last N checkpoints instead, newest first", _NUMBER),
            OUTPUT,
        ),
    ),
    Command(
        "verify",
        "Whether a stored plan was read, by its read reports; nothing is written",
        (*STORED_PLAN, WORK_STORE, OUTPUT),
    ),
    Command(
        "commit",
        "Commit a stored plan as its commit task does; a dry run unless --execute",
        (
            *CLUSTER,
            *STORED_PLAN,
            WORK_STORE,
            Option("commit_mode", "on-success (default), checkpoint-only or never"),
            FENCING,
            Option("no_require_report", "for jobs that make no read report: you vouch for the read", _FLAG),
            EXECUTE,
            OUTPUT,
        ),
    ),
    Command(
        "unblock",
        "Step over records that can never be read; a dry run unless --execute",
        (
            *CLUSTER,
            CHECKPOINT_ID,
            WORK_STORE,
            Option("group_id", "the pipeline's group, to be sure; default: the checkpoint's"),
            Option("to", 'the next record to read: {"orders": {"0": 480}}; or as --specific-offsets of plan', _JSON),
            ON_GROUP_MOVED,
            Option("commit_mode", "on-success (default), or checkpoint-only for a pipeline that moves no group"),
            FENCING,
            EXECUTE,
            OUTPUT,
        ),
    ),
    Command(
        "clean",
        "Remove what is old from the work store; a dry run unless --execute",
        (
            WORK_STORE,
            Option(
                "keep",
                "90d, or ISO 8601 such as P90D; default: [kafka_offsets] retention_days",
                {"metavar": "DURATION"},
            ),
            EXECUTE,
            OUTPUT,
        ),
    ),
)
