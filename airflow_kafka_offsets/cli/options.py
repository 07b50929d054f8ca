"""The options, once for both command lines: every field of ``RequestParameters`` by its name in kebab case.

Light: ``airflow`` reads this on each of its calls.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args

from airflow_kafka_offsets.offsets.request.modes import BOUNDED_MODES, STARTUP_MODES
from airflow_kafka_offsets.offsets.request.parameters import RequestParameters
from airflow_kafka_offsets.offsets.request.parse import SplitBy
from airflow_kafka_offsets.offsets.request.policies import (
    CommitMode,
    Fencing,
    OnAnotherAirflow,
    OnClusterChanged,
    OnDataLoss,
    OnGroupMoved,
    OnRecreated,
    OnTopicVanished,
    ResetStrategy,
)


@dataclass(frozen=True)
class Option:
    """One option as ``argparse`` takes it: ``--name`` and keyword arguments."""

    name: str
    help: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    positional: bool = False

    @property
    def flag(self) -> str:
        return self.name if self.positional else "--" + self.name.replace("_", "-")

    @property
    def keywords(self) -> dict[str, Any]:
        """What ``argparse`` is told beside the flag; it refuses ``dest`` for an argument without one."""
        return {"help": self.help, **self.arguments, **({} if self.positional else {"dest": self.name})}


_NUMBER = {"type": int, "metavar": "N"}
_FLAG = {"action": "store_true", "default": None}
_TIME = 'epoch milliseconds, ISO 8601, now-2h, or one for each topic: {"orders": "now-2h"}'

# ── the request ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _words(literal: object) -> str:
    return ", ".join(get_args(literal))


_HELP: Mapping[str, tuple[str, str]] = {
    "topics": ("A,B", "topics, separated by commas"),
    "topic_pattern": ("REGEX", "a regular expression for whole topic names"),
    "partitions": ("JSON", 'partitions, such as {"orders": [0, 2]}'),
    "include_internal_topics": ("", "let the pattern match internal topics too"),
    "group_id": ("GROUP", "the consumer group; default: the client configuration's group.id"),
    "isolation_level": ("LEVEL", "read_uncommitted or read_committed; default: the client configuration's"),
    "checkpoint_id": ("PIPELINE", "go on from this pipeline's position; without it the startup mode decides"),
    "startup_mode": ("MODE", ", ".join(STARTUP_MODES)),
    "startup_timestamp": ("TIME", _TIME),
    "specific_offsets": (
        "OFFSETS",
        'next record to read: {"orders": {"0": 42}}, Flink\'s partition:0,offset:42;… or @FILE with either or the '
        "CSV of kafka-consumer-groups --export",
    ),
    "auto_offset_reset": (
        "WORD",
        f"what a partition without a commit means: {_words(ResetStrategy)}; default: the client configuration's",
    ),
    "bounded_mode": ("MODE", ", ".join(BOUNDED_MODES)),
    "bounded_timestamp": ("TIME", f"{_TIME}; exclusive"),
    "bounded_offsets": ("OFFSETS", "first record not to read, of every partition; as --specific-offsets"),
    "partition_width": ("WIDTH", "how long the partitions of a partitioned DAG are, such as PT1H"),
    "require_complete_window": ("", "refuse a window that may still grow"),
    "idle_timeout": ("DURATION", "how long after the end a silent partition is waited for: PT5M (default), or seconds"),
    "max_records": ("N", "limit of the run, in offsets"),
    "max_records_per_partition": ("N", "limit of each partition, in offsets"),
    "splits": ("N", "how many Spark jobs read the batch"),
    "split_by": ("WORD", _words(SplitBy)),
    "output_name": ("NAME", "what the Spark job writes, a path or a table"),
    "commit_mode": ("WORD", f"whether the group follows the position: {_words(CommitMode)}"),
    "fencing": ("WORD", f"how the group is written: {_words(Fencing)}"),
    "filter_restored_partitions": ("", "leave out what the position holds and is no longer subscribed to"),
    "on_data_loss": ("WORD", f"records are gone: {_words(OnDataLoss)}"),
    "on_recreated": ("WORD", f"a topic has another id than the position's: {_words(OnRecreated)}"),
    "on_cluster_changed": ("WORD", f"another cluster answers: {_words(OnClusterChanged)}"),
    "on_group_moved": ("WORD", f"somebody else wrote to the group: {_words(OnGroupMoved)}"),
    "on_topic_vanished": ("WORD", f"the pattern does not find a topic any more: {_words(OnTopicVanished)}"),
    "on_another_airflow": ("WORD", f"another Airflow wrote the log or the group: {_words(OnAnotherAirflow)}"),
    "restart": ("WORD", "apply the startup mode once more, under this word"),
    "re_plan": ("", "plan the unfinished batch anew"),
    "redo": ("", "of a run: do its batch again, although another run has committed it"),
    "skip": ("KEY", 'leave out the unfinished batch: its key, or {"batch": KEY, "past": "orders-3:4711"}'),
}


def _option_of(name: str, default: object) -> Option:
    metavar, words = _HELP.get(name, (None, "see ResolveStartupOffsetsOperator"))
    if isinstance(default, bool):
        shown = "; default: yes" if default else ""
        return Option(name, words + shown, {"action": argparse.BooleanOptionalAction, "default": None})
    shown = "" if default is None else f"; default: {default}"
    return Option(name, words + shown, {"metavar": metavar})


OF_FIELD: Mapping[str, Option] = {f.name: _option_of(f.name, f.default) for f in fields(RequestParameters)}
"""The option of each field of a request."""


def request_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those fields of a request that were given."""
    return {name: options[name] for name in OF_FIELD if options.get(name) is not None}


# ── the commands ──────────────────────────────────────────────────────────────────────────────────────────────────────

_CLUSTER = (
    Option("bootstrap_servers", "the cluster, as host:port[,host:port]"),
    Option("client_config", "a file of librdkafka settings, JSON or key=value lines", {"metavar": "FILE"}),
    Option("kafka_config_id", "an Airflow connection of type kafka (needs Airflow)"),
)
SUBSCRIPTION = ("topics", "topic_pattern", "partitions", "include_internal_topics")
_SUBSCRIPTION = tuple(OF_FIELD[name] for name in SUBSCRIPTION)
_ISOLATION = OF_FIELD["isolation_level"]
_WINDOWS = (
    Option("windows", "many windows at once: hourly, daily, or ISO 8601 such as PT15M", {"metavar": "WIDTH"}),
    Option("from", "where the first window starts; with --windows", {"metavar": "TIME"}),
    Option("to", "where the last window ends, exclusive; with --windows", {"metavar": "TIME"}),
    Option("timezone", "of the days of --windows, and of times without a zone; default: UTC", {"metavar": "ZONE"}),
)
_OUTPUT = Option("output", "table (default), json or csv", {"choices": ("table", "json", "csv")})
_PLAN_OUTPUT = Option(
    "output",
    "table (default), json (the plan), csv; or the start offsets for kafka-consumer-groups --from-file "
    "(offsets-csv) or Flink's SQL (offsets-flink)",
    {"choices": ("table", "json", "csv", "offsets-csv", "offsets-flink")},
)
_STORE = Option("work_store", "the work store's URI or folder; default: [kafka_offsets] work_store of Airflow")
_PIPELINE = replace(OF_FIELD["checkpoint_id"], help="the pipeline; kafka-offsets pipelines lists them")
_BATCH_OF_RUN = (
    replace(_PIPELINE, help="the pipeline; default: group_id/dag_id/task_id"),
    Option("batch", "the batch: its number, its key, or a window's name", {"metavar": "KEY"}),
    Option("dag_id", "in the place of --batch: the run that did it, with --run-id and --task-id"),
    Option("run_id", "the run"),
    Option("task_id", "the resolve task, with its task group: orders.resolve"),
    Option("map_index", "of a mapped resolve task", _NUMBER),
    replace(OF_FIELD["group_id"], help="the pipeline's group, in the place of --checkpoint-id"),
    _STORE,
)
_EXECUTE = Option("execute", "do it; without this, what would be done is shown and nothing is written", _FLAG)


@dataclass(frozen=True)
class Command:
    """One command.

    :ivar module: below ``cli/``; it has a function of the command's name.
    :ivar help: what it does, in a line.
    """

    name: str
    module: str
    help: str
    options: tuple[Option, ...]


COMMANDS = (
    Command(
        "plan",
        "planning",
        "What the next run would read, and why; nothing is written",
        (*_CLUSTER, *OF_FIELD.values(), *_WINDOWS, _STORE, _PLAN_OUTPUT),
    ),
    Command(
        "partitions",
        "standing",
        "Each partition of topics: its leader and both ends of its log",
        (*_CLUSTER, *_SUBSCRIPTION, _ISOLATION, _OUTPUT),
    ),
    Command(
        "lag",
        "standing",
        "How far a group is, in each partition, and who wrote its commits; of all its topics where none are named",
        (
            *_CLUSTER,
            OF_FIELD["group_id"],
            *_SUBSCRIPTION,
            _ISOLATION,
            replace(_PIPELINE, help="count from this pipeline's position, and not from the group's commits"),
            _STORE,
            _OUTPUT,
        ),
    ),
    Command(
        "pipelines",
        "history",
        "Every pipeline of a work store: its newest batch, who did it, and whether it is committed",
        (_STORE, _OUTPUT),
    ),
    Command(
        "show",
        "history",
        "A batch and its log in words: the newest, the one that is named, or the last few",
        (
            _PIPELINE,
            Option("batch", "its number, its key, or a window's name; default: the newest", {"metavar": "KEY"}),
            Option("history", "the last N in a line each", _NUMBER),
            Option("windows", "the pipeline's windows in a line each, in the place of its batches", _FLAG),
            _STORE,
            _OUTPUT,
        ),
    ),
    Command(
        "verify",
        "verifying",
        "Whether a batch was read, by its read reports; nothing is written",
        (*_BATCH_OF_RUN, _OUTPUT),
    ),
    Command(
        "commit",
        "verifying",
        "Commit a batch as its commit task does; a dry run unless --execute",
        (
            *_CLUSTER,
            *_BATCH_OF_RUN,
            Option("no_require_report", "for jobs that make no read report: you vouch for the read", _FLAG),
            _EXECUTE,
            _OUTPUT,
        ),
    ),
    Command(
        "skip",
        "skipping",
        "Leave out records that cannot be processed: of the unfinished batch, or a window; a dry run unless --execute",
        (
            _PIPELINE,
            Option("batch", "the key of the unfinished batch", {"metavar": "KEY"}),
            Option("window", "the name or the key of a window, in the place of --batch", {"metavar": "NAME"}),
            Option(
                "past", "only up to this offset, inclusive: orders-3:4711,…; default: all", {"metavar": "T-P:OFFSET"}
            ),
            Option("reason", "why; the plan and kafka-offsets show say it", {"metavar": "TEXT"}),
            _STORE,
            _EXECUTE,
            _OUTPUT,
        ),
    ),
    Command(
        "clean",
        "cleaning",
        "Remove old batches and windows from the work store; a dry run unless --execute",
        (
            _STORE,
            Option(
                "keep",
                "90d, or ISO 8601 such as P90D; default: [kafka_offsets] retention_days",
                {"metavar": "DURATION"},
            ),
            _EXECUTE,
            _OUTPUT,
        ),
    ),
    Command(
        "release-output",
        "cleaning",
        "Let another pipeline write to an output; a dry run unless --execute",
        (_STORE, replace(OF_FIELD["output_name"], help="the output, as the pipeline names it"), _EXECUTE, _OUTPUT),
    ),
    Command(
        "explain",
        "explaining",
        "The page of an error: what it means, how to look, each way out; without a code, all of them in a line each",
        (Option("code", "AKO-101, or TopicRecreated", {"nargs": "?"}, positional=True),),
    ),
)
