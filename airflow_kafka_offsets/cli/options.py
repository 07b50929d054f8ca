"""The options, once for both command lines: every field of ``RequestParameters`` by its name in kebab case.

Light: ``airflow`` reads this on each of its calls. Which command has which options is in ``commands``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, get_args

from airflow_kafka_offsets.offsets.model import IsolationLevel
from airflow_kafka_offsets.offsets.request.modes import BOUNDED_MODES, STARTUP_MODES
from airflow_kafka_offsets.offsets.request.parameters import RequestParameters
from airflow_kafka_offsets.offsets.request.parse import SplitBy
from airflow_kafka_offsets.offsets.request.policies import (
    CommitMode,
    OnAnotherAirflow,
    OnClusterChanged,
    OnDataLoss,
    OnGroupMoved,
    OnRecreated,
    OnTopicVanished,
    ResetStrategy,
)

# ── the headings of --help ────────────────────────────────────────────────────────────────────────────────────────────

CLUSTER = "which cluster"
ABOUT = "which topics, group and pipeline"
START = "where the batch starts"
END = "where the batch ends"
SIZE = "how much, and by how many Spark jobs"
WRITTEN = "what is written"
POLICIES = "what to do if something has changed"
ORDERS = "orders for one run"
WHICH_BATCH = "which batch"
TARGET = "where the position goes (give exactly one)"
OTHER = "how"


@dataclass(frozen=True)
class Option:
    """One option as ``argparse`` takes it: ``--name`` and keyword arguments.

    :ivar group: the heading that ``--help`` shows it under.
    :ivar words: what it may be, for the shell's completion, where ``choices`` would be refused without its reason.
    """

    name: str
    help: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    group: str = OTHER
    words: tuple[str, ...] = ()
    positional: bool = False

    @property
    def flag(self) -> str:
        return self.name if self.positional else "--" + self.name.replace("_", "-")

    @property
    def keywords(self) -> dict[str, Any]:
        """What ``argparse`` is told beside the flag; it refuses ``dest`` for an argument without one."""
        return {"help": self.help, **self.arguments, **({} if self.positional else {"dest": self.name})}


NUMBER = {"type": int, "metavar": "N"}
FLAG = {"action": "store_true", "default": None}
_TIME = 'epoch milliseconds, ISO 8601, now-2h, or one for each topic: {"orders": "now-2h"}'

# ── the request ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _words(literal: object) -> str:
    return ", ".join(get_args(literal))


_HELP: Mapping[str, tuple[str, str]] = {
    "topics": ("A,B", "topics, separated by commas"),
    "topic_pattern": ("REGEX", "a regular expression for whole topic names"),
    "partitions": ("JSON", 'partitions, such as {"orders": [0, 2]}'),
    "group_id": ("GROUP", "the consumer group; default: the client configuration's group.id"),
    "isolation_level": ("LEVEL", "read_uncommitted or read_committed; default: the client configuration's"),
    "pipeline_id": ("PIPELINE", "go on from this pipeline's position; without it the startup mode decides"),
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


_GROUPS: Mapping[str, str] = {
    **dict.fromkeys(("startup_mode", "startup_timestamp", "specific_offsets", "auto_offset_reset"), START),
    **dict.fromkeys(
        (
            "bounded_mode",
            "bounded_timestamp",
            "bounded_offsets",
            "partition_width",
            "require_complete_window",
            "idle_timeout",
        ),
        END,
    ),
    **dict.fromkeys(("max_records", "max_records_per_partition", "splits", "split_by"), SIZE),
    **dict.fromkeys(("output_name", "commit_mode"), WRITTEN),
    **dict.fromkeys(("restart", "re_plan", "redo", "skip"), ORDERS),
    "filter_restored_partitions": POLICIES,
}  # what begins with on_ is a policy, and the rest is what the question is about
_WORDS: Mapping[str, tuple[str, ...]] = {
    "isolation_level": get_args(IsolationLevel),
    "startup_mode": tuple(STARTUP_MODES),
    "auto_offset_reset": get_args(ResetStrategy),
    "bounded_mode": tuple(BOUNDED_MODES),
    "split_by": get_args(SplitBy),
    "commit_mode": get_args(CommitMode),
    "on_data_loss": get_args(OnDataLoss),
    "on_recreated": get_args(OnRecreated),
    "on_cluster_changed": get_args(OnClusterChanged),
    "on_group_moved": get_args(OnGroupMoved),
    "on_topic_vanished": get_args(OnTopicVanished),
    "on_another_airflow": get_args(OnAnotherAirflow),
}


def _option_of(name: str, default: object) -> Option:
    metavar, words = _HELP.get(name, (None, "see ResolveStartupOffsetsOperator"))
    group = _GROUPS.get(name, POLICIES if name.startswith("on_") else ABOUT)
    if isinstance(default, bool):
        shown = "; default: yes" if default else ""
        return Option(name, words + shown, {"action": argparse.BooleanOptionalAction, "default": None}, group)
    shown = "" if default is None else f"; default: {default}"
    return Option(name, words + shown, {"metavar": metavar}, group, _WORDS.get(name, ()))


SUBSCRIPTION = ("topics", "topic_pattern", "partitions")
"""The fields of a request that say which topics."""

OF_FIELD: Mapping[str, Option] = {f.name: _option_of(f.name, f.default) for f in fields(RequestParameters)}
"""The option of each field of a request."""


def request_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those fields of a request that were given."""
    return {name: options[name] for name in OF_FIELD if options.get(name) is not None}


def add_option(parser: argparse.ArgumentParser, option: Option) -> None:
    """Add it under its heading."""
    groups = {group.title: group for group in parser._action_groups}  # argparse has no other way to ask for them
    group = groups.get(option.group) or parser.add_argument_group(option.group)
    action = group.add_argument(option.flag, **option.keywords)
    if option.words:
        action.completer = lambda **_: option.words  # type: ignore[attr-defined]  # argcomplete's, here and in Airflow
