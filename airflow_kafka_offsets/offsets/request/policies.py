"""Policies: what a run does where there is a choice. Words: what a person orders for one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from airflow_kafka_offsets.offsets.model import TopicPartition
from airflow_kafka_offsets.offsets.problems import Problems
from airflow_kafka_offsets.offsets.request.offset_maps import natural, partition_named
from airflow_kafka_offsets.offsets.request.scope import one_line, one_of, parse_flag, plain_text

ResetStrategy = Literal["earliest", "latest", "none"]
OnDataLoss = Literal["fail", "reset", "advance"]
OnRecreated = Literal["fail", "earliest"]
OnClusterChanged = Literal["fail", "earliest", "adopt-group"]
OnGroupMoved = Literal["fail", "adopt-group", "keep-checkpoint"]
OnTopicVanished = Literal["fail", "ignore"]
OnAnotherAirflow = Literal["fail", "take-over"]
OnOutputChanged = Literal["fail", "accept"]
CommitMode = Literal["on-success", "checkpoint-only"]

NO_REASON = "no reason was given"
_RESET_SYNONYMS: Mapping[str, ResetStrategy] = {
    "earliest": "earliest",
    "smallest": "earliest",
    "beginning": "earliest",
    "latest": "latest",
    "largest": "latest",
    "end": "latest",
    "none": "none",
    "error": "none",
}


@dataclass(frozen=True, slots=True)
class Policies:
    """The chosen answer for each policy.

    :ivar auto_offset_reset: ``None``: nobody has said what a partition without a commit means (A1).
    :ivar commit_mode: ``checkpoint-only``: the group is neither looked at nor written (Flink's DISABLED).
    """

    auto_offset_reset: ResetStrategy | None = None
    on_data_loss: OnDataLoss = "fail"
    on_recreated: OnRecreated = "fail"
    on_cluster_changed: OnClusterChanged = "fail"
    on_group_moved: OnGroupMoved = "fail"
    on_topic_vanished: OnTopicVanished = "fail"
    on_another_airflow: OnAnotherAirflow = "fail"
    on_output_changed: OnOutputChanged = "fail"
    commit_mode: CommitMode = "on-success"
    filter_restored_partitions: bool = True


@dataclass(frozen=True, slots=True)
class Skip:
    """Records that a person gives up: all of one batch, or what one partition has of it up to an offset.

    :ivar batch: the key of the batch, or the name of a window.
    :ivar past: of each partition, the last offset that is left out; empty: everything is.
    """

    batch: str
    past: tuple[tuple[TopicPartition, int], ...] = ()
    reason: str = NO_REASON

    @property
    def words(self) -> str:
        past = " past " + ", ".join(f"{tp}:{offset}" for tp, offset in self.past) if self.past else ""
        return f"skip{past}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Words:
    """What a person orders for one run, in its conf or at the command line.

    :ivar re_plan: plan an unfinished batch anew, or a window that is committed.
    :ivar redo: do this run's batch again, although another run has committed it.
    :ivar restart: apply the startup mode once more, under this word; a word is applied once in a pipeline's life.
    """

    re_plan: bool = False
    redo: bool = False
    restart: str | None = None
    skip: Skip | None = None


def take_policies(problems: Problems, asked: Any) -> Policies:
    """The policies among ``asked``'s attributes; each problem goes to ``problems``."""

    def choice(name: str, allowed: Any) -> Any:
        return problems.take(name, lambda: one_of(getattr(asked, name), get_args(allowed)), get_args(allowed)[0])

    return Policies(
        problems.take("auto_offset_reset", lambda: parse_reset(asked.auto_offset_reset), None),
        choice("on_data_loss", OnDataLoss),
        choice("on_recreated", OnRecreated),
        choice("on_cluster_changed", OnClusterChanged),
        choice("on_group_moved", OnGroupMoved),
        choice("on_topic_vanished", OnTopicVanished),
        choice("on_another_airflow", OnAnotherAirflow),
        choice("on_output_changed", OnOutputChanged),
        problems.take("commit_mode", lambda: _commit_mode(asked.commit_mode), "on-success"),
        problems.take("filter_restored_partitions", lambda: parse_flag(asked.filter_restored_partitions), True),
    )


def take_words(problems: Problems, asked: Any) -> Words:
    return Words(
        problems.take("re_plan", lambda: parse_flag(asked.re_plan), False),
        problems.take("redo", lambda: parse_flag(asked.redo), False),
        problems.take("restart", lambda: _word(asked.restart), None),
        problems.take("skip", lambda: parse_skip(asked.skip), None),
    )


def parse_reset(value: str | None) -> ResetStrategy | None:
    """Kafka's three strategies, by librdkafka's names for them too."""
    if value is None:
        return None
    strategy = _RESET_SYNONYMS.get(str(value).strip().lower())
    if strategy is None:
        raise ValueError(f"is {value!r}; use one of earliest, latest, none")
    return strategy


def parse_skip(value: Any) -> Skip | None:
    """A batch's key; or ``{"batch": key, "past": "orders-3:4711", "reason": "…"}``.

    :raises ValueError: what is wrong with it.
    """
    if value is None or isinstance(value, Skip):
        return value
    if isinstance(value, str):
        value = {"batch": value}
    unknown = sorted(map(str, value.keys() - {"batch", "past", "reason"})) if isinstance(value, Mapping) else ["?"]
    batch = value.get("batch") if isinstance(value, Mapping) else None
    if unknown or not isinstance(batch, str) or not batch.strip():
        raise ValueError(f'is {value!r}; expected {{"batch": KEY, "past": "orders-3:4711", "reason": "…"}}')
    reason = value.get("reason")
    if reason is not None and not isinstance(reason, str):
        raise ValueError(f"has the reason {reason!r}, which is no text")
    return Skip(one_line(batch.strip()), _past(value.get("past")), one_line(reason or NO_REASON))


def _past(value: Any) -> tuple[tuple[TopicPartition, int], ...]:
    if value is None:
        return ()
    found: dict[TopicPartition, int] = {}
    for item in value.split(",") if isinstance(value, str) else [None]:
        where, _, offset = (item or "").strip().rpartition(":")
        topic, _, number = where.rpartition("-")
        if not topic or not (number.isascii() and number.isdecimal()):
            raise ValueError(f"has past {value!r}; expected <topic>-<partition>:<offset>, such as orders-3:4711")
        tp = partition_named(topic, natural(number, f"has past {value!r}"))
        if tp in found:
            raise ValueError(f"names {tp} twice")
        found[tp] = natural(offset, f"has offset {offset!r} for {tp}")
    return tuple(sorted(found.items()))


def _commit_mode(value: Any) -> Any:
    if isinstance(value, str) and "periodic" in value.lower():
        raise ValueError(
            f"is {value!r}: a batch has no periodic commit. Flink's KAFKA_PERIODIC commits what was polled, on a "
            "timer, read or not; here offsets are committed once, after the reads were verified. "
            f"Use one of {', '.join(get_args(CommitMode))}"
        )
    return one_of(value, get_args(CommitMode))


def _word(value: Any) -> str | None:
    if not isinstance(value, str | None):
        raise ValueError(f'is {value!r}; it must be a word, such as "2026-11-20"')
    word = (value or "").strip()
    if "\n" in word:
        raise ValueError(f"is {value!r}; it must be a word, without line ends")
    return plain_text(word) or None
