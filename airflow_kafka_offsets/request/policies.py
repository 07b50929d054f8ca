"""Policies: what a run does in a situation that is not the usual one. Run orders: what a person wants of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypedDict, cast, get_args, get_type_hints

from airflow_kafka_offsets.errors import refuse
from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.kafka_values import OffsetRange, TopicPartition
from airflow_kafka_offsets.request.offset_maps import dashed_partition, each_once, mapping, record_named
from airflow_kafka_offsets.request.problems import Problems, one_line, one_of, parse_flag, plain_text
from airflow_kafka_offsets.request.times import parse_duration_ms

ResetStrategy = Literal["earliest", "latest", "none"]


@dataclass(frozen=True, slots=True)
class ByDuration:
    """Kafka's fourth strategy (KIP-1106): the first record that is no older than this when the plan is made."""

    duration_ms: int
    written: str


CommitMode = Literal["on-success", "checkpoint-only"]
NewPartition = Literal["earliest", "latest", "timestamp"]


class PolicyAnswers(TypedDict, total=False):
    """What ``policies`` takes: of each situation the answer. The first one is the default."""

    data_loss: Literal["fail", "advance", "reset"]
    topic_recreated: Literal["fail", "earliest"]
    cluster_changed: Literal["fail", "earliest", "adopt-group"]
    group_moved: Literal["fail", "adopt-group", "keep-checkpoint"]
    topic_vanished: Literal["fail", "drop"]
    another_airflow: Literal["fail", "take-over"]
    output_changed: Literal["fail", "accept"]
    unavailable: Literal["fail", "hold"]
    no_match: Literal["end", "earliest", "fail"]
    new_partition: NewPartition
    retention_margin: Literal["warn", "fail"]


def answers_of(situation: str) -> tuple[str, ...]:
    """All answers, the default first."""
    return get_args(get_type_hints(PolicyAnswers)[situation])


DEFAULTS = cast(PolicyAnswers, {situation: answers_of(situation)[0] for situation in get_type_hints(PolicyAnswers)})


@dataclass(frozen=True, slots=True)
class Policies:
    """The chosen answer for each situation, and what else decides where there is a choice.

    :ivar auto_offset_reset: ``None``: nobody has said what a partition without a commit means (A1).
    :ivar commit_mode: ``checkpoint-only``: the group is neither looked at nor written (Flink's DISABLED).
    :ivar hold: partitions that a person holds: they keep their position.
    """

    auto_offset_reset: ResetStrategy | ByDuration | None = None
    answers: PolicyAnswers = field(default_factory=lambda: DEFAULTS)
    commit_mode: CommitMode = "on-success"
    filter_restored_partitions: bool = True
    hold: frozenset[TopicPartition] = frozenset()

    def may_hold(self, tp: TopicPartition) -> bool:
        """Whether the partition may be left where it is while it has no leader."""
        return self.answers["unavailable"] == "hold" or tp in self.hold


@dataclass(frozen=True, slots=True)
class SituationRow:
    """A row of the table of situations, in Markdown.

    :ivar what: what has happened.
    :ivar answers: what each answer does besides the default. ``fail`` stops, and writes nothing.
    :ivar recorded: what the log holds of it afterwards.
    """

    what: str
    answers: Mapping[str, str]
    recorded: str


SITUATIONS: Mapping[str, SituationRow] = {
    "data_loss": SituationRow(
        "records that the batch would read are gone, or an unclean election has cut the log",
        {
            "advance": "start at the log start; where the log was cut, at the first offset that differs",
            "reset": "do as `auto_offset_reset` says",
        },
        "of each partition `lost` and `skipped`, and why",
    ),
    "topic_recreated": SituationRow(
        "a topic was deleted and created again",
        {"earliest": "read the new topic from its start"},
        "the new topic's id, and why each partition starts where it does",
    ),
    "cluster_changed": SituationRow(
        "another cluster answers at the same address",
        {
            "earliest": "read it from its log starts",
            "adopt-group": "continue from the group's offsets there, which mirroring tools translate",
        },
        "the new cluster's id, and why each partition starts where it does",
    ),
    "group_moved": SituationRow(
        "somebody else wrote to the consumer group",
        {
            "adopt-group": "continue from the group's offset; if it was set back, records are in the output twice",
            "keep-checkpoint": "continue from the saved position, and set the group to it, which can move it back",
        },
        "why each partition starts where it does",
    ),
    "topic_vanished": SituationRow(
        "a pattern does not find a topic any more that was read",
        {"drop": "go on without it"},
        "the topic's offsets, as they were",
    ),
    "another_airflow": SituationRow(
        "another Airflow wrote this pipeline's log or its group",
        {"take-over": "take its place"},
        "which Airflow each batch is of",
    ),
    "output_changed": SituationRow(
        "the unfinished batch would be written elsewhere than planned, or another task continues into another output",
        {"accept": "write to the new output; what the old one has under the batch's key is named"},
        "the output of each plan",
    ),
    "unavailable": SituationRow(
        "a partition has no leader, or none that answers until the deadline",
        {"hold": "read the others; it keeps its position, and a later run reads it from there"},
        "of each partition `held`, and why",
    ),
    "no_match": SituationRow(
        "a partition has no record at or after a time that a batch starts or ends at",
        {
            "earliest": "start at the log start; an end stays at the end of the log",
            "fail": "stop",
        },
        "why each partition starts and ends where it does",
    ),
    "new_partition": SituationRow(
        "the saved position lacks a partition: it was added, or its topic was",
        {
            "latest": "start at the end: what is there is skipped",
            "timestamp": "start at `startup_timestamp`, with `startup_mode` `timestamp`",
        },
        "of each new partition `skipped`, and why",
    ),
    "retention_margin": SituationRow(
        "within `min_retention_margin`, retention may delete records that the run reads, or that it leaves to a later "
        "one",
        {"fail": "stop; the records stay where they are, and their time runs on"},
        "the warning; of each partition `margin_ms`",
    ),
}


ANSWERS = tuple(f"{situation}={answer}" for situation in SITUATIONS for answer in answers_of(situation))
"""Every answer, as a terminal takes it."""

NO_REASON = "no reason was given"
MOST_SKIPPED = 20
"""Each range that is left out may need one more Spark job."""
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
class Skip:
    """Records that a person gives up: all of one batch, what partitions have of it up to an offset, or single ones.

    :ivar batch: the key of the batch, or the name of a window.
    :ivar past: of each partition, the last offset that is left out.
    :ivar only: what is left out, and nothing before it. Where neither is given, everything is.
    """

    batch: str
    past: tuple[tuple[TopicPartition, int], ...] = ()
    reason: str = NO_REASON
    only: tuple[tuple[TopicPartition, OffsetRange], ...] = ()

    @property
    def named(self) -> list[tuple[str, TopicPartition, int, int]]:
        """In words, and the first and the last offset that the batch must have had to read."""
        past = [(f"past {tp}:{last}", tp, last, last) for tp, last in self.past]
        return past + [
            (f"only {_named(tp, range_)}", tp, range_.start_offset, range_.end_offset - 1) for tp, range_ in self.only
        ]

    def of(self, tp: TopicPartition, all_of_it: OffsetRange) -> list[OffsetRange]:
        """What is left out of a range of a partition."""
        past = [OffsetRange(0, last + 1) for other, last in self.past if other == tp]
        return past + [one for other, one in self.only if other == tp] if self.named else [all_of_it]

    @property
    def words(self) -> str:
        past = " past " + ", ".join(f"{tp}:{offset}" for tp, offset in self.past) if self.past else ""
        only = " only " + ", ".join(_named(tp, range_) for tp, range_ in self.only) if self.only else ""
        return f"skip{past}{only}: {self.reason}"


def _named(tp: TopicPartition, range_: OffsetRange) -> str:
    return f"{tp}:{range_.start_offset}" + (f"-{range_.end_offset - 1}" if range_.size > 1 else "")


@dataclass(frozen=True, slots=True)
class RunOrders:
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
    given: dict[str, Any] = problems.take("policies", lambda: read_answers(asked.policies), {})
    answers: dict[str, Any] = {
        situation: problems.take("policies", partial(_answer, situation, answer), answer)
        for situation, answer in given.items()
    }
    return Policies(
        problems.take("auto_offset_reset", lambda: parse_reset(asked.auto_offset_reset), None),
        cast(PolicyAnswers, {name: answers.get(name, default) for name, default in DEFAULTS.items()}),
        commit_mode=problems.take("commit_mode", lambda: _commit_mode(asked.commit_mode), "on-success"),
        filter_restored_partitions=problems.take(
            "filter_restored_partitions", lambda: parse_flag(asked.filter_restored_partitions), True
        ),
        hold=problems.take("hold", lambda: parse_hold(asked.hold), frozenset()),
    )


def parse_policies(asked: Any) -> Policies:
    """:raises InvalidRequest: with every problem."""
    problems = Problems()
    found = take_policies(problems, asked)
    refuse(problems)
    return found


def read_answers(value: Any) -> dict[str, Any]:
    """The answers by situation, unchecked: of a mapping, its JSON, or ``data_loss=advance,topic_vanished=drop``.

    :raises ValueError: it is neither.
    """
    example = '{"data_loss": "advance"}'
    if value is None or isinstance(value, Mapping):
        return dict(value or {})
    if isinstance(value, str) and value.lstrip().startswith("{"):
        return dict(mapping(value, example))
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) and "=" in word for word in words):
        raise ValueError(f"is {value!r}; expected {example}, or data_loss=advance")
    pairs = [word.partition("=") for of_one in words for word in of_one.split(",")]
    return {situation.strip(): answer.strip() for situation, _, answer in pairs}


def _answer(situation: Any, answer: Any) -> Any:
    if situation not in SITUATIONS:
        raise ValueError(f"has {situation!r}; its keys are {', '.join(SITUATIONS)}")
    answers = answers_of(situation)
    if answer not in answers:
        raise ValueError(f"has {situation}={answer!r}; use one of {', '.join(answers)}")
    return answer


def take_run_orders(problems: Problems, asked: Any) -> RunOrders:
    return RunOrders(
        problems.take("re_plan", lambda: parse_flag(asked.re_plan), False),
        problems.take("redo", lambda: parse_flag(asked.redo), False),
        problems.take("restart", lambda: restart_word(asked.restart), None),
        problems.take("skip", lambda: parse_skip(asked.skip), None),
    )


def parse_reset(value: str | None) -> ResetStrategy | ByDuration | None:
    """Kafka's strategies, by librdkafka's names for them too."""
    if value is None:
        return None
    name, _, duration = str(value).strip().partition(":")
    if name.lower() == "by_duration":
        try:
            return ByDuration(parse_duration_ms(duration), f"by_duration:{duration.strip()}")
        except ValueError as error:
            raise ValueError(f"has a duration that {error}") from None
    strategy = _RESET_SYNONYMS.get(str(value).strip().lower())
    if strategy is None:
        raise ValueError(f"is {value!r}; use one of earliest, latest, none, by_duration:PT1H")
    return strategy


def parse_hold(value: Any) -> frozenset[TopicPartition]:
    """``["orders-3"]``, its JSON, or ``orders-3,orders-7``.

    :raises ValueError: it is neither.
    """
    example = '["orders-3"]'
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = read_json(value)
    names = [name for name in value.split(",") if name.strip()] if isinstance(value, str) else value
    if not isinstance(names, list | tuple | None) or not all(isinstance(name, str) for name in names or ()):
        raise ValueError(f"is {value!r}; expected {example}")
    return frozenset(dashed_partition(name, f"has {name!r}") for name in names or ())


def parse_skip(value: Any) -> Skip | None:
    """A batch's key; or ``{"batch": key, "past": "orders-3:4711", "reason": "…"}``, or ``only`` for ``past``.

    :raises ValueError: what is wrong with it.
    """
    if value is None or isinstance(value, Skip):
        return value
    if isinstance(value, str):
        value = {"batch": value}
    unknown = (
        sorted(map(str, value.keys() - {"batch", "past", "only", "reason"})) if isinstance(value, Mapping) else ["?"]
    )
    batch = value.get("batch") if isinstance(value, Mapping) else None
    if unknown or not isinstance(batch, str) or not batch.strip():
        raise ValueError(f'is {value!r}; expected {{"batch": KEY, "past": "orders-3:4711", "reason": "…"}}')
    reason = value.get("reason")
    if reason is not None and not isinstance(reason, str):
        raise ValueError(f"has the reason {reason!r}, which is no text")
    past, only = _past(value.get("past")), _only(value.get("only"))
    if past and only:
        raise ValueError("has past and only; give one of them")
    return Skip(one_line(batch.strip()), past, one_line(reason or NO_REASON), only)


def _past(value: Any) -> tuple[tuple[TopicPartition, int], ...]:
    items = [] if value is None else value.split(",") if isinstance(value, str) else [""]
    return tuple(sorted(each_once(record_named(item, f"has past {value!r}") for item in items).items()))


def _only(value: Any) -> tuple[tuple[TopicPartition, OffsetRange], ...]:
    """``orders-3:4711``, ``orders-3:4711-4720``, and several of them."""
    found = []
    for item in [] if value is None else value.split(",") if isinstance(value, str) else [""]:
        where, _, offsets = item.rpartition(":")
        first, to, last = offsets.partition("-")
        tp, start = record_named(f"{where}:{first}", f"has only {value!r}")
        end = record_named(f"{where}:{last if to else first}", f"has only {value!r}")[1]
        if end < start:
            raise ValueError(f"has only {item.strip()!r}, which ends before it begins")
        found.append((tp, OffsetRange(start, end + 1)))
    if len(found) > MOST_SKIPPED:
        raise ValueError(f"has only with {len(found)} ranges; {MOST_SKIPPED} are possible, and a range has two ends")
    return tuple(sorted(found, key=lambda one: (one[0], one[1].start_offset)))


def _commit_mode(value: Any) -> Any:
    if isinstance(value, str) and "periodic" in value.lower():
        raise ValueError(
            f"is {value!r}: a batch has no periodic commit. Flink's KAFKA_PERIODIC commits what was polled, on a "
            "timer, read or not; here offsets are committed once, after the reads were verified. "
            f"Use one of {', '.join(get_args(CommitMode))}"
        )
    return one_of(value, get_args(CommitMode))


def restart_word(value: Any) -> str | None:
    """:raises ValueError: it is none."""
    if not isinstance(value, str | None):
        raise ValueError(f'is {value!r}; it must be a word, such as "2026-11-20"')
    word = (value or "").strip()
    if "\n" in word:
        raise ValueError(f"is {value!r}; it must be a word, without line ends")
    return plain_text(word) or None
