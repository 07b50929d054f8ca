# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""A person's act: the conf of one run makes the next identity (STATE.md, *Acts*). The name of that identity decides.

Its values have to match request, cluster, group and output, and nothing else may differ, in any shard.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from shlex import quote
from typing import Any

from airflow_kafka_offsets.acts import Acknowledged, Conf, Reset
from airflow_kafka_offsets.engine.identity import NO_OUTPUT, Difference, acknowledged_value, differences
from airflow_kafka_offsets.engine.look import Look
from airflow_kafka_offsets.engine.state import Decided, Shard, Turn
from airflow_kafka_offsets.errors import ActRefused, ActStale, OverlappingRun
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.entries import highest
from airflow_kafka_offsets.log.identity import Identity, Skip, Start
from airflow_kafka_offsets.plan.body import Offset
from airflow_kafka_offsets.request import Request

_LOG = logging.getLogger(__name__)


def is_done(turn: Turn, act: Conf) -> bool:
    """Whether this DAG run has carried out the act before: a retry, or a clear weeks later.

    :raises ActStale: the identity that it replaces is not the current one.
    """
    log, identity = turn.log, turn.identity
    if act.after is not None and identity.number > act.after:
        then = log.identity(act.after + 1)
        if then is not None and then.is_by(turn.run):
            return True
    if act.after != identity.number:
        raise ActStale(
            f"The act of this run is not carried out on pipeline {log.name!r}.",
            f"It replaces identity {act.after}, and the current one is {identity.number}, by run {identity.by}."
            if act.after is not None
            else "It does not say which identity it replaces.",
            f"See what has changed: kafka-offsets show {quote(log.pipeline_id)} "
            f"--checkpoint-location {quote(log.store.uri)}\n"
            f"If the act is still right, {turn.way_on(**_acts(turn.request.said))}",
        )
    return False


def _acts(said: Mapping[str, Any]) -> dict[str, Any]:
    """The acts of a conf with their reason, for another conf."""
    return {name: value for name, value in said.items() if name in ("reason", "acknowledge", "reset", "skip")}


def carry_out(turn: Turn, act: Conf) -> None:
    """Create the next identity, unless another run did so first.

    :raises OverlappingRun: a run that owns an unfinished batch is running; nothing was created.
    :raises ActRefused: values do not match, or a reset would lose records or read some again.
    """
    shards = turn.shards()
    for shard in shards if turn.request.window is None else ():
        batch = shard.head.unfinished
        if batch is not None and batch.plan.by != turn.run and turn.airflow.is_running(batch.plan.by):
            raise OverlappingRun(str(batch.plan.by), str(batch))
    decided = decide(turn, act, shards)
    new, body = decided.identity, decided.body(turn.log)
    if body != turn.decided.body(turn.log):
        new = replace(new, ranges=turn.log.write_identity_body(new.number, body))
    if turn.log.create_identity(new):
        who = f" for {new.user}" if new.user else ""
        _LOG.info("Identity %d of pipeline %s, by run %s%s: %s", new.number, new.pipeline, new.by, who, act.reason)


def decide(turn: Turn, act: Conf, shards: Sequence[Shard]) -> Decided:
    """The next identity, not created yet."""
    request, look, old = turn.request, turn.look, turn.identity
    named, body, problems = act.acknowledge or Acknowledged(), turn.decided.body(turn.log), list[str]()
    new = old.next(turn.run, request.now_ms, turn.airflow.triggering_user(), dict(request.said))

    def left() -> list[Difference]:
        return differences(replace(turn, decided=Decided(new, body)), shards)

    there = look.description.cluster_id
    if named.cluster not in (None, there):
        problems.append(f"cluster {named.cluster!r} is named, and the connection leads to {there!r}")
    if named.cluster not in (None, old.cluster_id):
        known = {tp for s in shards for tp in turn.decided.resumed(s.log, *s.head).position}
        ids = look.topic_ids({*known, *body.starts, *look.description.partitions})  # not only of what this run reads
        topics = {name: topic_id for name, topic_id in ids.items() if topic_id is not None}
        new = replace(new, cluster_id=str(named.cluster), cluster_at=new.number, topics=topics)
    found = {d.word: d for d in left()}
    problems += _wrong_values(named, request, found)
    group = found.get("group")
    if group is not None and (named.group is not None or (act.reset is not None and act.reset.start == "group")):
        body = replace(body, group={**body.group, **group.value})
    new = _acknowledge(new, named)
    if named.log and old.kind == "window" and new.windows_from is None:
        problems.append('a table is adopted from a window on: name "windows_from"; earlier windows are refused then')
    problems += [line for difference in left() for line in difference.lines]
    if act.reset is not None and not problems:
        if named.cluster is not None and not act.reset.allow_duplicates:
            problems.append('a reset on another cluster may read records again: set "allow_duplicates": true')
        starts = _starts(look, Decided(new, body), shards, act.reset, problems)
        body = replace(body, starts={**body.starts, **starts})
        new = replace(new, reset_at=new.number, starts_at=new.number if starts else new.starts_at)
    new = replace(new, skips=(*new.skips, *_skips(look, act, problems)))
    if problems:
        everything = {d.word: acknowledged_value(d) for d in found.values() if d.word}
        remedy = "Nothing was changed. Correct the run's conf, the DAG or the connection."
        if everything:
            acts = _acts(request.said)
            acts["acknowledge"] = {**acts.get("acknowledge", {}), **everything}
            remedy += f" To acknowledge all that differs, {turn.way_on(**acts)}"
        raise ActRefused(problems, remedy)
    return Decided(new, body)


def _wrong_values(named: Acknowledged, request: Request, found: Mapping[str | None, Difference]) -> Iterator[str]:
    """The values of the act that do not match."""
    if named.output is not None and named.output != (request.output or NO_OUTPUT):
        yield f"output {named.output!r} is named, and the DAG writes {request.output or NO_OUTPUT!r}"
    group = found.get("group")
    if named.group is not None and (group is None or acknowledged_value(group) != named.group):
        yield f"group {named.group!r} is named, and the group holds other offsets by now"
    ended = {} if "topic" not in found else found["topic"].value
    for topic, topic_id in named.topic.items():
        if ended.get(topic) != topic_id:
            yield f"the end of topic {topic} with id {topic_id} is named, and that topic did not end"


def _acknowledge(new: Identity, named: Acknowledged) -> Identity:
    """The identity with the act's values, except the cluster."""
    behind = highest((*named.batch, *named.log.values()))
    return replace(
        new,
        output=new.output if named.output is None else None if named.output == NO_OUTPUT else named.output,
        ended={**new.ended, **{topic_id: topic for topic, topic_id in named.topic.items()}},
        rows=tuple(dict.fromkeys((*new.rows, *named.rows))),
        batches=tuple(dict.fromkeys((*new.batches, *named.batch))),
        adopted={**new.adopted, **named.log},
        bases=(*new.bases, behind) if behind > new.bases[-1] else new.bases,
        windows_from=_windows_from(new, named),
    )


def _windows_from(old: Identity, named: Acknowledged) -> int | None:
    """For the table of the same log it may become earlier, and not later. Another log's table has one of its own."""
    is_another = bool(old.adopted) and not named.log.keys() <= old.adopted.keys()
    times = [time for time in (None if is_another else old.windows_from, named.windows_from) if time is not None]
    return min(times, default=None)


def _starts(
    look: Look, decided: Decided, shards: Sequence[Shard], reset: Reset, problems: list[str]
) -> dict[TopicPartition, Start]:
    """The starts that the reset sets; other partitions keep their position."""
    if look.request.window is not None:
        problems.append("A pipeline by window has no position to reset: clear a window's run to write it again.")
        return {}
    if reset.start == "current":
        return {}
    position = dict[TopicPartition, Offset]()
    for shard in shards:
        position |= decided.resumed(shard.log, shard.head.committed).position
    partitions = look.description.partitions
    if isinstance(reset.start, Mapping):
        problems += [f"{tp} is not subscribed to." for tp in sorted(reset.start) if tp not in set(partitions)]
        partitions = tuple(tp for tp in partitions if tp in reset.start)
    logs, ids = look.snapshots(partitions), look.description.topic_ids
    at_time = look.at_time(partitions, reset.start) if isinstance(reset.start, int) else {}
    starts: dict[TopicPartition, Start] = {}
    for tp in partitions:
        match reset.start:
            case "earliest":
                offset = logs[tp].log_start_offset
            case "latest":
                offset = logs[tp].end_offset
            case "group" if tp in look.group:
                offset = look.group[tp].offset
            case "group":
                continue
            case int():
                offset = min(at_time.get(tp, logs[tp].end_offset), logs[tp].end_offset)
            case offsets:
                offset = offsets[tp]
        at = position.get(tp)
        if not logs[tp].log_start_offset <= offset <= logs[tp].high_watermark:
            problems.append(
                f"{tp}: start {offset} is outside of the log, {logs[tp].log_start_offset} to {logs[tp].high_watermark}"
            )
        elif at is not None and offset < at.offset and not reset.allow_duplicates:
            problems.append(
                f"{tp}: offsets {offset} to {at.offset} would be read again, and their rows are in the output already: "
                'delete these first, and set "allow_duplicates": true'
            )
        starts[tp] = Start(offset, ids.get(tp.topic), decided.identity.number, reset.allow_duplicates)
    return starts


def _skips(look: Look, act: Conf, problems: list[str]) -> Iterator[Skip]:
    partitions = set(look.description.partitions)
    logs = look.snapshots(sorted({tp for tp, _ in act.skip if tp in partitions}))
    for tp, skipped in act.skip:
        if tp not in logs:
            problems.append(f"{tp} is not subscribed to, so none of its offsets can be skipped")
        elif not logs[tp].log_start_offset <= skipped.start_offset < skipped.end_offset <= logs[tp].high_watermark:
            problems.append(
                f"{tp}: offsets {skipped.start_offset} to {skipped.end_offset - 1} are outside of the log, "
                f"{logs[tp].log_start_offset} to {logs[tp].high_watermark}"
            )
        else:
            topic_id = look.description.topic_ids.get(tp.topic)
            yield Skip(tp, skipped.start_offset, skipped.end_offset, topic_id)
