# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The identity of a pipeline: what people have decided about it. ``pipeline/<k>.json``, k = 1, 2, …

The highest number is current. The first resolve creates number 1. A person's run creates the next one, which says what
it changes and why. An identity is never edited, and its name decides which run was first. Request, cluster, group and
output are compared with it, never with the last batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from airflow_kafka_offsets.json_columns import as_json, from_columns, read_as, to_columns
from airflow_kafka_offsets.kafka_values import OffsetRange, RunKey, TopicPartition
from airflow_kafka_offsets.log.entries import BodyName, Kind
from airflow_kafka_offsets.plan.body import Decision, DecisionKind, Offset, Offsets, offsets_from_list, offsets_to_list


@dataclass(frozen=True, slots=True)
class Skip:
    """Offsets of one partition that a person skips: ``[start, end)``, in the topic with this id."""

    partition: TopicPartition
    start: int
    end: int
    topic_id: str | None


@dataclass(frozen=True, slots=True)
class Start:
    """Where a partition resumes from, by a reset.

    :ivar identity: the number of the identity that set it: it is applied by the one batch that follows.
    :ivar allow_duplicates: whether it may move the partition back.
    """

    offset: int
    topic_id: str | None
    identity: int
    allow_duplicates: bool


@dataclass(frozen=True, slots=True)
class IdentityBody:
    """The per-partition half.

    :ivar first: the startup position of every partition that was there: the position before batch 1.
    :ivar group: what the consumer group held at the start, and what a person has accepted since.
    :ivar starts: by resets.
    """

    first: Offsets = field(default_factory=dict)
    group: Mapping[TopicPartition, int] = field(default_factory=dict)
    starts: Mapping[TopicPartition, Start] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """
    :ivar number: k. :ivar pipeline: the name, which the folder may have cut.
    :ivar log: a random id of this log, the same in all its identities.
    :ivar by: the run that created it; ``user``: who triggered that run; ``None``: a schedule, or unknown.
    :ivar act: what the run's conf said; ``None``: the pipeline's begin, or ``on_data_loss="advance"``.
    :ivar shards: 1 without ``shard=``.
    :ivar output: ``None``: jobs of the user's own, or by window a templated output.
    :ivar subscription: by window, in words; in sequence it may change from run to run.
    :ivar cluster_at: the number of the identity that named the cluster, and the ids that its topics had then.
    :ivar reset_at: the number of the last identity with a reset: unfinished batches of earlier ones are planned again.
    :ivar starts_at: the number of the last identity that set starts; 0: none.
    :ivar ended: topics that were deleted or re-created: names by id.
    :ivar batches: keys of batches that the log has lost; ``rows``: keys that the output has lost.
    :ivar adopted: other logs whose table this pipeline took over, each with its highest key.
    :ivar bases: see :class:`~airflow_kafka_offsets.log.entries.Plan`.
    :ivar windows_from: by window, in milliseconds: earlier windows are refused, because a lost log may have had them.
    """

    number: int
    pipeline: str
    log: str
    by: RunKey
    at_ms: int
    kind: Kind
    cluster_id: str
    ranges: BodyName
    user: str | None = None
    act: Any = None
    shards: int = 1
    output: str | None = None
    subscription: str | None = None
    cluster_at: int = 1
    topics: Mapping[str, str] = field(default_factory=dict)
    reset_at: int = 1
    starts_at: int = 0
    ended: Mapping[str, str] = field(default_factory=dict)
    skips: tuple[Skip, ...] = ()
    batches: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    adopted: Mapping[str, str] = field(default_factory=dict)
    bases: tuple[int, ...] = (0,)
    windows_from: int | None = None

    def next(self, by: RunKey, at_ms: int, user: str | None = None, act: Any = None, **changed: Any) -> Identity:
        """The identity that replaces it."""
        return replace(self, number=self.number + 1, by=by, at_ms=at_ms, user=user, act=act, **changed)

    def is_by(self, run: RunKey) -> bool:
        """Whether a task of this DAG run created it: mapped shards share one act."""
        return (self.by.dag_id, self.by.run_id) == (run.dag_id, run.run_id)

    def is_ended(self, offset: Offset) -> bool:
        return offset.topic_id is not None and offset.topic_id in self.ended

    def on_its_cluster(self, tp: TopicPartition, at: Offset, under: int) -> Offset:
        """An offset means the same on a new cluster, in the topics that were found when it was named.

        :param under: the number of the identity that the offset is of.
        """
        if under >= self.cluster_at or self.is_ended(at):  # it had ended before the cluster was replaced
            return at
        return Offset(at.offset, None, self.topics.get(tp.topic, at.topic_id))

    def skipped(self, tp: TopicPartition, topic_id: str | None) -> list[OffsetRange]:
        return [OffsetRange(s.start, s.end) for s in self.skips if (s.partition, s.topic_id) == (tp, topic_id)]


class Resumed(NamedTuple):
    """Where a batch resumes from, and what is skipped or read again."""

    position: dict[TopicPartition, Offset]
    decisions: tuple[Decision, ...]


def resume(
    identity: Identity,
    starts: Mapping[TopicPartition, Start],
    before: Offsets,
    planned_under: int,
    log_end: Callable[[TopicPartition], int | None],
    found: Mapping[TopicPartition, tuple[Offset, int]] | None = None,
) -> Resumed:
    """The position that a batch resumes from (STATE.md, *Resume*).

    :param starts: by resets, of this shard's partitions.
    :param before: the position after the batch before it; before the first batch, the first starts.
    :param planned_under: the number of the identity of the batch before it; 1 before the first batch.
    :param log_end: where a log ended when the batch before it was planned: what was unread in a topic that ended.
    :param found: new partitions of the batch itself, which is planned again: where its plans had them, each with the
        number of the identity that it was planned under. Nothing of them is committed.
    """
    found = found or {}
    if not starts and not found and not identity.ended and planned_under >= identity.cluster_at:
        return Resumed(dict(before), ())  # as most often: no partition has to be looked at
    position, decisions = dict[TopicPartition, Offset](), list[Decision]()

    for tp in sorted({*before, *found, *starts}):
        start, at, under = starts.get(tp), before.get(tp), planned_under
        if at is not None:
            at = identity.on_its_cluster(tp, at, under)
        if at is not None and identity.is_ended(at):
            end = log_end(tp)
            if end is None or end > at.offset:
                decisions.append(Decision(tp, at.offset, end, "lost", f"the topic ended, identity {identity.number}"))
            at = None
        is_unread = at is None and tp in found
        if is_unread:
            at, under = found[tp]
            at = identity.on_its_cluster(tp, at, under)
        if start is not None and start.identity > under and start.topic_id not in identity.ended:
            to = identity.on_its_cluster(tp, Offset(start.offset, None, start.topic_id), start.identity)
            is_same = at is not None and at.topic_id == to.topic_id
            if at is None or not is_same or to.offset > at.offset or start.allow_duplicates or is_unread:
                if at is not None and is_same and (to.offset > at.offset or (to.offset < at.offset and not is_unread)):
                    kind: DecisionKind = "skipped" if to.offset > at.offset else "again"
                    low, high = sorted((at.offset, to.offset))
                    decisions.append(Decision(tp, low, high, kind, f"reset, identity {start.identity}"))
                at = to  # else what was committed meanwhile stays read
        if at is not None and not identity.is_ended(at):
            position[tp] = at
    return Resumed(position, tuple(decisions))


def identity_to_dict(identity: Identity) -> dict[str, Any]:
    return {"version": 1, **as_json(identity)}


def identity_from_dict(data: Mapping[str, Any]) -> Identity:
    """:raises ValueError, LookupError, TypeError: it is no identity."""
    identity: Identity = read_as(Identity, data)
    return identity


def identity_body_to_dict(body: IdentityBody) -> dict[str, Any]:
    return {
        "version": 1,
        "first": offsets_to_list(body.first),
        "group": to_columns(("offset",), {tp: (offset,) for tp, offset in body.group.items()}),
        "starts": as_json(body.starts),
    }


def identity_body_from_dict(data: Mapping[str, Any]) -> IdentityBody:
    """:raises ValueError, LookupError, TypeError: it is no such half."""
    group = {tp: row["offset"] for tp, row in from_columns(data["group"], {"offset": (int, False)})}
    return IdentityBody(
        offsets_from_list(data["first"]), group, read_as(Mapping[TopicPartition, Start], data["starts"])
    )
