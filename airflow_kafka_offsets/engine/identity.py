# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The pipeline's identity, compared with request, cluster, group and output. A difference is refused, with its conf.

Group and Airflow's memory are read before the log, so that neither is ever ahead of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_kafka_offsets.engine.history import unfinished
from airflow_kafka_offsets.engine.look import Look
from airflow_kafka_offsets.engine.marks import marks_of
from airflow_kafka_offsets.engine.state import Decided, Shard, Turn
from airflow_kafka_offsets.errors import (
    CheckpointBehind,
    ClusterChanged,
    DataLoss,
    GroupMoved,
    OtherPipeline,
    OutputChanged,
    PipelineDiffers,
    clean_text,
    counted,
)
from airflow_kafka_offsets.kafka_values import TopicPartition, values_by_topic
from airflow_kafka_offsets.log.entries import digits_of, highest, shard_in, shard_part
from airflow_kafka_offsets.log.identity import Identity
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.body import Offset, is_other_topic
from airflow_kafka_offsets.plan.ranges import Committed
from airflow_kafka_offsets.plan.window import Covered
from airflow_kafka_offsets.request import Request

NO_OUTPUT = "none"
"""In a conf: the job is the user's own. Outputs of packaged jobs begin with their format."""


@dataclass(frozen=True, slots=True)
class Difference:
    """
    :ivar word: in the conf that accepts it; ``None``: no conf does.
    :ivar value: what the conf has to name.
    :ivar lines: sentences with both values.
    :ivar way: what to do instead of the conf.
    """

    error: type[PipelineDiffers] | type[DataLoss]
    word: str | None
    value: Any
    lines: Sequence[str]
    way: str


def differences(turn: Turn, shards: Sequence[Shard]) -> list[Difference]:
    """The differences, in the order of STATE.md's table.

    :param shards: the logs to compare: the run's own; for an act, all; for a rewrite of a committed batch, none.
    """
    request, look, decided = turn.request, turn.look, turn.decided
    if first := [*_other_pipeline(request, look, decided, turn.log), *_cluster(request, look, decided)]:
        return first  # nothing else can be compared
    found = [*_output(request, decided.identity)]
    for shard in shards:
        found += mirror_differences(str(request.group_id), look.group, decided, shard)
        found += _topics(request, look, decided, shard)
    return list(_merged(found))


def _merged(found: Sequence[Difference]) -> Iterator[Difference]:
    """One difference of each word, of all shards."""
    for word in dict.fromkeys(d.word for d in found):
        first, *others = (d for d in found if d.word == word)
        for other in others:
            value = first.value | other.value if isinstance(first.value, dict | set) else first.value
            first = replace(first, value=value, lines=[*first.lines, *other.lines])
        yield first


def _other_pipeline(request: Request, look: Look, decided: Decided, log: PipelineLog) -> Iterator[Difference]:
    identity = decided.identity
    kind, shards = "sequence" if request.window is None else "window", request.shard[1] if request.shard else 1
    another = "Give one of them another pipeline_id and an output of its own."
    if kind != identity.kind:
        lines = [f"It reads {_KINDS[identity.kind]}, and this request {_KINDS[kind]}: both would write each record."]
        yield Difference(OtherPipeline, None, None, lines, another)
        return
    if shards != identity.shards:
        positions, is_open = dict[TopicPartition, int](), False
        for own in log.of_shards(identity.shards):
            head = Shard(own, None, own.newest()).head
            positions |= {tp: at.offset for tp, at in decided.resumed(own, head.committed).position.items()}
            is_open |= head.unfinished is not None
        start = f"start=SpecificOffsets({json.dumps(values_by_topic(positions))})"
        first = "let all batches commit with the old shard= first, then " if is_open else ""
        another = f"Correct shard=. To divide it otherwise, {first}use another pipeline_id, with {start}."
        lines = [f"It has {counted(identity.shards, 'shard')}, and this request {counted(shards, 'shard')}."]
        yield Difference(OtherPipeline, None, None, lines, another)
    if request.window is not None:
        if look.description.cluster_id != identity.cluster_id:
            lines = [
                f"It reads cluster {identity.cluster_id}, and the connection leads to {look.description.cluster_id}."
            ]
            yield Difference(OtherPipeline, None, None, lines, f"Correct the connection. {another}")
        if str(request.subscription) != identity.subscription:
            lines = [f"It reads {identity.subscription}, and this request {request.subscription}."]
            yield Difference(OtherPipeline, None, None, lines, another)


_KINDS = {"sequence": "in sequence", "window": "by window"}


def _cluster(request: Request, look: Look, decided: Decided) -> Iterator[Difference]:
    then, now = decided.identity.cluster_id, look.description.cluster_id
    if then != now and request.window is None:
        yield Difference(
            ClusterChanged,
            "cluster",
            now,
            [f"It has read cluster {then}, and the connection leads to cluster {now}."],
            "Correct the connection. If the cluster was replaced and offsets mean the same there, acknowledge it; else "
            "reset, too.",
        )


def _output(request: Request, identity: Identity) -> Iterator[Difference]:
    then, now = identity.output, request.output
    if then != now:
        yield Difference(
            OutputChanged,
            "output",
            now or NO_OUTPUT,
            [
                f"Its output is {then or NO_OUTPUT}, and this request writes {now or NO_OUTPUT} "
                f"({NO_OUTPUT}: a job of your own)."
            ],
            "Correct the sink. If the output has moved on purpose, acknowledge it: rows in the old one stay there.",
        )


def mirror_differences(group_id: str, group: Committed, decided: Decided, shard: Shard) -> list[Difference]:
    """Offsets of the group that this log did not write."""
    return [*_unknown_batches(group_id, group, decided.identity, shard), *_group(group_id, group, decided, shard)]


def _unknown_batches(group_id: str | None, group: Committed, identity: Identity, shard: Shard) -> Iterator[Difference]:
    """Batches of this pipeline that Airflow or the group knows and the log lacks: it is an older copy."""
    own = {mark.batch for tp, mark in marks_of(group).items()
           if shard.has(tp) and mark.pipeline == shard.log.pipeline_id}  # fmt: skip
    keys = {key for key in own if not shard.knows(key, identity.bases)}
    told = shard.memory
    if (
        told is not None
        and digits_of(told.key) > _acknowledged(identity, shard)  # the batches before these are acknowledged, too
        and not shard.knows(told.key, identity.bases, told.plan_id)
    ):
        keys.add(told.key)
    if keys := keys - {*identity.batches}:
        newest = "no batch" if shard.newest is None else f"batch {shard.newest.plan.key}"
        who = {key: f"group {group_id!r}" if key in own else "Airflow" for key in keys}
        yield Difference(
            CheckpointBehind,
            "batch",
            keys,
            [
                *(
                    f"{who[key]} knows more of batch {key} than this log, which ends with {newest}."
                    for key in sorted(keys)
                ),
                f"The rows of all batches that were committed later are those with {_later_rows(identity, shard)}.",
            ],
            "The checkpoint location is an older copy. Restore the newest one; or delete the rows of these "
            "batches from the output, then acknowledge: their records are read again.",
        )


def _acknowledged(identity: Identity, shard: Shard) -> int:
    """The highest digits of the shard's own acknowledged keys: another shard's say nothing of its batches."""
    return highest(key for key in identity.batches if shard_in(key) == shard_part(shard.log.shard))


def _later_rows(identity: Identity, shard: Shard) -> str:
    """In SQL. A key with the number of the newest batch and other random digits is of a later log, too."""
    newest = shard.newest
    open_keys = [] if newest is None else [batch.plan.key for batch in unfinished(shard.log, newest)]
    known = max(_acknowledged(identity, shard), highest(identity.adopted.values()))
    first = max("" if newest is None else newest.plan.key[:10], f"{known + 1:010}")
    which = f"kafka_batch >= '{first}'"
    if shard.log.shard:
        which += f" AND kafka_batch LIKE '%{shard_part(shard.log.shard)}%'"
    if newest is not None and newest.plan.key not in open_keys:
        which += f" AND kafka_batch <> '{newest.plan.key}'"
    # An unfinished batch may have been committed since, and the first attempt that this log knows of appends.
    return which + "".join(f" OR kafka_batch = '{key}'" for key in open_keys if key < first)


def _group(group_id: str | None, group: Committed, decided: Decided, shard: Shard) -> Iterator[Difference]:
    moved = unexpected_offsets(group, decided, shard)
    if moved:
        marks, position = marks_of(group), decided.position(shard.log, shard.head.committed)
        lines = [
            f"{tp}: group {group_id!r} holds {offset}, the position is {position[tp].offset}"
            + (f" (written by pipeline {clean_text(marks[tp].pipeline)!r})" if tp in marks else "")
            for tp, offset in moved.items()
        ]
        way = "Nothing was overwritten. Keep the position, and acknowledge what the group holds; or take its offsets."
        yield Difference(GroupMoved, "group", moved, lines, way)


def unexpected_offsets(group: Committed, decided: Decided, shard: Shard) -> dict[TopicPartition, int]:
    """Offsets of the group that no batch of this log has marked, that are not the position, and not in the identity."""
    marks, names = marks_of(group), {shard.log.pipeline_id}
    position = decided.position(shard.log, shard.head.committed) if group else {}
    moved = {
        tp: committed.offset
        for tp, committed in group.items()
        if tp in position
        and committed.offset != position[tp].offset
        and not (tp in marks and (marks[tp].pipeline in names or marks[tp].batch in decided.identity.batches))
    }
    accepted = decided.body(shard.log).group if moved else {}
    return {tp: moved[tp] for tp in sorted(moved) if accepted.get(tp) != moved[tp]}


def _topics(request: Request, look: Look, decided: Decided, shard: Shard) -> Iterator[Difference]:
    """Topics that the pipeline has offsets of, and that were deleted or re-created."""
    now, ended, names = look.description.topic_ids, dict[str, str](), set[str]()
    lines = list[str]()
    known = {
        tp: at
        for tp, at in _known_topics(decided, shard)
        if (tp.topic not in now or now[tp.topic] != at.topic_id)  # most are as they were
        and not decided.identity.is_ended(at)
    }
    for tp, at in sorted(known.items()):
        is_gone = tp.topic not in now and request.subscription.has(tp)
        if is_gone or is_other_topic(at, tp, now):
            how = "was deleted" if is_gone else f"was re-created: {at.topic_id} is now {now[tp.topic]}"
            lines.append(f"{tp}: the topic {how}; unread records from offset {at.offset} on are gone")
            names.add(tp.topic)
            if at.topic_id is not None:
                ended[tp.topic] = at.topic_id
    if lines:
        look.confirm(names)
        yield Difference(
            DataLoss,
            "topic" if ended else None,
            ended,
            lines,
            'Accept it: on_data_loss="advance", or acknowledge it. A new topic of that name is read from its log start.'
            if ended
            else "The brokers give no topic ids: leave the topic out of topics=, or use another pipeline_id.",
        )


def _known_topics(decided: Decided, shard: Shard) -> Iterator[tuple[TopicPartition, Offset]]:
    """An unfinished batch and a reset that came beside it may know a partition of different topics; so may the newest
    window, whose cuts have merged into its neighbours' stretch."""
    if decided.identity.kind == "window":
        if shard.newest is not None:
            first = shard.log.first_body(shard.newest)
            yield from first.resume_from.items()
            yield from Covered(first.covered, decided.identity.ended).topics().items()
        return
    unfinished = shard.head.unfinished
    if unfinished is not None and unfinished.plan.cluster_id == decided.identity.cluster_id:
        yield from shard.log.body(unfinished).position_after(unfinished.plan.topic_ids).items()
    yield from decided.resumed(shard.log, *shard.head).position.items()


def acknowledged_value(difference: Difference) -> Any:
    """What the conf has to name."""
    if difference.word == "group":
        rows = "\n".join(f"{tp} {offset}" for tp, offset in sorted(difference.value.items()))
        return hashlib.sha256(rows.encode()).hexdigest()[:16]
    return sorted(difference.value) if isinstance(difference.value, set) else difference.value


def refusal(name: str, found: Sequence[Difference], way_on: Callable[..., str]) -> Exception:
    """The refusal of these differences.

    :param way_on: words with the conf to copy, from its acts.
    """
    first, words = found[0], {d.word for d in found}
    acknowledge = {d.word: acknowledged_value(d) for d in found if d.word is not None}
    ways = [d.way for d in found]
    if None not in words:
        ways.append(f"To acknowledge, {way_on(acknowledge=acknowledge)}")
    if words == {"cluster"}:
        reset = {"start": "earliest", "allow_duplicates": True}
        ways.append(f"To read the new cluster from its log start, {way_on(acknowledge=acknowledge, reset=reset)}")
    if words == {"group"}:
        reset = {"start": "group", "allow_duplicates": True}
        ways.append(f"To take the group's offsets, even if records are read again, {way_on(reset=reset)}")
    lines, remedy = [line for d in found for line in d.lines], "\n".join(ways)
    if issubclass(first.error, DataLoss):
        return DataLoss(lines, remedy)
    return first.error(f"Pipeline {name!r} differs from its identity.", lines, remedy)
