"""The lag of many watches of one cluster, by one round of questions.

A watch asks for the position of its pipeline first, then all are asked together, so that a commit in between cannot lie
beyond an end. The round's questions, however many watches there are: what each group holds; the log starts; the ends,
by isolation level; and where the allowed ages lie. What is wrong with one watch (a group that this client may not read,
a log that was cut) is its answer alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.errors import CONNECTION, ClusterUnavailable, InvalidRequest, KafkaOffsetsError, named
from airflow_kafka_offsets.offsets.batch.mark import Signature, position_of_marks
from airflow_kafka_offsets.offsets.lag import Lag, LagLimits, partition_lag, position_mark
from airflow_kafka_offsets.offsets.model import (
    ClusterDescription,
    CommittedOffset,
    IsolationLevel,
    PartitionSnapshot,
    TopicPartition,
)
from airflow_kafka_offsets.offsets.plan.discovery import missing_for
from airflow_kafka_offsets.offsets.plan.position import Position
from airflow_kafka_offsets.offsets.request.subscription import Scope
from airflow_kafka_offsets.pipeline.clock import now_ms as clock_ms
from airflow_kafka_offsets.pipeline.status import position_of
from airflow_kafka_offsets.stores.pipeline_log import PipelineLog

_ALONE_MS = 60_000  # how long watches are asked for one by one, where they cannot be asked for together

Committed = Mapping[TopicPartition, CommittedOffset]


@dataclass(frozen=True, slots=True)
class LagQuestion:
    """One watch's question, with what the pipeline's log answers already.

    :ivar group_id: the group that is asked, where it has the position; ``None``: the log has it.
    :ivar position: by the log.
    :ivar pipeline_id: the pipeline, whose marks in a group tell where the log is lost.
    """

    scope: Scope
    limits: LagLimits
    group_id: str | None
    position: Position | None = None
    pipeline_id: str | None = None


@dataclass(frozen=True, slots=True)
class _Facts:
    """The cluster's answers for all watches.

    :ivar held: by group; an error where that group could not be read.
    :ivar logs: of the partitions that have a leader; one whose log was cut meanwhile is absent.
    :ivar young: by partition, isolation level and time: the first offset that is not older.
    """

    held: Mapping[str, Committed | KafkaOffsetsError]
    logs: Mapping[tuple[TopicPartition, IsolationLevel], PartitionSnapshot]
    young: Mapping[tuple[TopicPartition, IsolationLevel, int], int]


def lag_question(scope: Scope, limits: LagLimits, pipeline: PipelineLog | None) -> LagQuestion:
    """What has to be asked of the cluster, after a look at the log.

    :param pipeline: whose position it is measured from; ``None``: from what the group holds.
    :raises InvalidRequest: there is no group.
    """
    if scope.group_id is None:
        raise InvalidRequest((f"Whose lag? Give {named('group_id')}, or set group.id in {named(CONNECTION)}.",))
    if pipeline is None:
        return LagQuestion(scope, limits, scope.group_id)
    position = position_of(pipeline)
    is_lost = position is None and pipeline.newest() is None
    return LagQuestion(scope, limits, scope.group_id if is_lost else None, position, pipeline.pipeline_id)


def look_at_lag(question: LagQuestion, cluster: OffsetReader, description: ClusterDescription, now_ms: int) -> Lag:
    """How far one pipeline is behind: at most five batch questions, and the group has no new member.

    :param description: what there is of the subscription.
    :raises ClusterUnavailable: the cluster could not be asked.
    """
    (answer,) = look_at_lags([question], cluster, [description], now_ms)
    if isinstance(answer, KafkaOffsetsError):
        raise answer
    return answer


def look_at_lags(
    questions: Sequence[LagQuestion],
    cluster: OffsetReader,
    descriptions: Sequence[ClusterDescription],
    now_ms: int,
) -> list[Lag | KafkaOffsetsError]:
    """The answer to each question, or why it has none."""
    try:
        facts = _ask(questions, cluster, descriptions, now_ms)
    except KafkaOffsetsError as error:
        if len(questions) == 1:
            return [error]
        return _one_by_one(questions, cluster, descriptions, error)
    return [_answer(*of_one, facts, now_ms) for of_one in zip(questions, descriptions, strict=True)]


def _one_by_one(
    questions: Sequence[LagQuestion],
    cluster: OffsetReader,
    descriptions: Sequence[ClusterDescription],
    error: KafkaOffsetsError,
) -> list[Lag | KafkaOffsetsError]:
    """One partition's error is the whole question's: so each watch is asked for alone, for as long as that may take.

    :param error: of those that it has lasted too long for.
    """
    answers: list[Lag | KafkaOffsetsError] = []
    begun_ms = clock_ms()
    for question, description in zip(questions, descriptions, strict=True):
        in_time = clock_ms() - begun_ms < _ALONE_MS
        answers += look_at_lags([question], cluster, [description], clock_ms()) if in_time else [error]
    return answers


# ── asking ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _ask(
    questions: Sequence[LagQuestion],
    cluster: OffsetReader,
    descriptions: Sequence[ClusterDescription],
    now_ms: int,
) -> _Facts:
    of_group: dict[str, set[TopicPartition]] = {}
    of_level: dict[IsolationLevel, set[TopicPartition]] = {}
    times: set[tuple[TopicPartition, IsolationLevel, int]] = set()
    for question, description in zip(questions, descriptions, strict=True):
        level, led = question.scope.isolation_level, _led(description)
        of_level.setdefault(level, set()).update(led)
        if question.group_id is not None:
            of_group.setdefault(question.group_id, set()).update(description.partitions())
        oldest_ms = _oldest_ms(question, now_ms)
        if oldest_ms is not None:
            times |= {(tp, level, oldest_ms) for tp in led}
    held = {group_id: _held(cluster, group_id, sorted(tps)) for group_id, tps in of_group.items()}
    return _Facts(held, _logs(cluster, of_level), _young(cluster, times))


def _led(description: ClusterDescription) -> set[TopicPartition]:
    return {
        TopicPartition(name, number)
        for name, topic in description.topics.items()
        for number, leader in topic.leaders.items()
        if leader is not None
    }


def _oldest_ms(question: LagQuestion, now_ms: int) -> int | None:
    """An unread record from before is too old; ``None`` where any age is allowed."""
    age_ms = question.limits.max_age_ms
    return None if age_ms is None else max(0, now_ms - age_ms)


def _held(cluster: OffsetReader, group_id: str, partitions: list[TopicPartition]) -> Committed | KafkaOffsetsError:
    try:
        return cluster.committed(group_id, partitions, stable=False) if partitions else {}
    except KafkaOffsetsError as error:
        return error


def _logs(
    cluster: OffsetReader, of_level: Mapping[IsolationLevel, set[TopicPartition]]
) -> dict[tuple[TopicPartition, IsolationLevel], PartitionSnapshot]:
    """Both ends of each log, the start first: what is deleted in between makes it no shorter than it is."""
    everything = sorted(set().union(*of_level.values()))
    starts = cluster.log_start_offsets(everything)
    stable = cluster.end_offsets(sorted(of_level.get("read_committed", ())), "read_committed")
    high_watermarks = cluster.end_offsets(everything, "read_uncommitted")
    logs = {}
    for level, partitions in of_level.items():
        ends = stable if level == "read_committed" else high_watermarks
        for tp in partitions:
            if ends[tp].offset >= starts[tp]:
                end, highest = ends[tp], high_watermarks[tp].offset
                logs[tp, level] = PartitionSnapshot(starts[tp], end.offset, highest, end.leader_epoch)
    return logs


def _young(
    cluster: OffsetReader, times: set[tuple[TopicPartition, IsolationLevel, int]]
) -> dict[tuple[TopicPartition, IsolationLevel, int], int]:
    """One question for each isolation level, and a further one where one partition is asked for several times."""
    found = {}
    left = sorted(times)
    while left:
        level = left[0][1]
        together = {tp: oldest_ms for tp, of, oldest_ms in left if of == level}
        for tp, offset in cluster.offsets_for_times(together, level).items():
            found[tp, level, together[tp]] = offset
        left = [(tp, of, oldest_ms) for tp, of, oldest_ms in left if of != level or together[tp] != oldest_ms]
    return found


# ── answering ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _answer(
    question: LagQuestion, description: ClusterDescription, facts: _Facts, now_ms: int
) -> Lag | KafkaOffsetsError:
    scope, limits, level = question.scope, question.limits, question.scope.isolation_level
    held = facts.held[question.group_id] if question.group_id is not None else {}
    if isinstance(held, KafkaOffsetsError):
        return held
    led = _led(description)
    cut = sorted(tp for tp in led if (tp, level) not in facts.logs)
    if cut:
        return ClusterUnavailable(
            "Cannot tell the lag",
            f"{cut[0]} ends below the log start of a moment ago",
            "The log was cut while it was looked at. Try again; a sensor does.",
            retriable=True,
        )
    offsets, mark = _position(question, description, held)
    oldest_ms = _oldest_ms(question, now_ms)
    lags = [
        partition_lag(
            tp,
            facts.logs.get((tp, level)),
            offsets.get(tp),
            None if oldest_ms is None else facts.young.get((tp, level, oldest_ms)),
            ages=oldest_ms is not None,
        )
        for tp in sorted(description.partitions())
    ]
    missing = tuple(missing_for(scope.subscription, description.topics, 1))
    return Lag(scope.group_id or "", description.cluster_id, limits, now_ms, tuple(lags), mark, missing)


def _position(
    question: LagQuestion, description: ClusterDescription, held: Committed
) -> tuple[dict[TopicPartition, int], str]:
    """The next offsets of the pipeline and what tells this position from another.

    A pipeline whose first batch is not committed has no position yet: its first run has read nothing.
    """
    position = question.position
    if question.pipeline_id is None:
        of_group = {tp: held[tp].offset for tp in description.partitions() if tp in held}
        return of_group, position_mark(of_group)
    if question.group_id is not None:  # a lost work store: the group's marks tell
        mine = {tp: held[tp] for tp in description.partitions() if tp in held}
        own = Signature.of(question.pipeline_id, "").own(mine)
        position = position_of_marks(mine, own, description.cluster_id, {})
    kept = {tp: offset.offset for tp, offset in position.offsets.items()} if position else {}
    return kept, position_mark(kept)
