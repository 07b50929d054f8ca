# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""``plan``: what the next run would read, or what an act would change: its own turn, over a store and a cluster that
keep their writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_kafka_offsets.cli.call import BOUND, CHECKPOINT, CLUSTER, OTHERWISE, PIPELINE, Call, command, option
from airflow_kafka_offsets.cli.printing import Answer, Row, Table
from airflow_kafka_offsets.engine.dry_run import resolve_and_compare
from airflow_kafka_offsets.engine.history import state_of
from airflow_kafka_offsets.engine.surroundings import NoAirflow
from airflow_kafka_offsets.engine.work import NoBatch, ResolvedBatch
from airflow_kafka_offsets.errors import InvalidRequest, shown
from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.kafka_values import RunKey, grouped
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.offsets import Timestamp
from airflow_kafka_offsets.plan.body import Decision

_OF_RUN = ("max_records", "on_data_loss", "exclude")


def plan(call: Call) -> Answer:
    """What the next run would read, and why. Nothing is written.

    --conf takes the conf of a run, as an error prints it, and shows what its act would change. A pipeline without a
    batch needs --topics. One by window needs the window's times: --start and --end, or a window in --conf.
    """
    conf = _conf(call["conf"])
    with call.cluster() as kafka:
        identity, newest = call.log.identity(), call.log.newest()
        bounds = _bounds(call, conf, newest, by_window=identity is not None and identity.kind == "window")
        request = call.request(identity, newest, conf, **bounds, **{name: call[name] for name in _OF_RUN})
        dag_id = call.log.name.partition(".")[0] if identity is None else identity.by.dag_id
        run = RunKey(dag_id, "kafka-offsets plan", "plan")
        done, changes = resolve_and_compare(request, run, call.log, kafka, NoAirflow(), dry=True)
        was = call.log.batch(done.batch.number) if isinstance(done, ResolvedBatch) else None
    facts: Row = {"pipeline": request.pipeline_id, "asked": request.asked, "summary": done.summary, "changes": changes}
    if isinstance(done, NoBatch):
        return Answer(f"The next run: {done.summary}", {**facts, "batch": None, "offsets": 0}, notes=request.warnings)
    lines = [_in_words(done, was), *(changes if request.act else [])]
    facts |= {"batch": done.batch.number, "is_new": was is None, "offsets": done.body.offsets}
    facts |= {"identity": done.batch.plan.identity, "given_up": done.body.given_up}
    table = Table("partitions", _rows(done), "partition resumes_from start end offsets decisions")
    return Answer("\n".join(lines), facts, [table], request.warnings)


def _conf(text: str | None) -> Mapping[str, Any]:
    """What a run's conf has under ``kafka_offsets``."""
    if text is None:
        return {}
    try:
        conf = read_json(text)["kafka_offsets"]
    except (ValueError, LookupError, TypeError):
        conf = None
    if not isinstance(conf, Mapping):
        raise InvalidRequest((f"--conf is {shown(text)}; give it as the error prints it: "
                              '\'{"kafka_offsets": {"pipeline": "orders", …}}\'.',))  # fmt: skip
    return conf


def _bounds(call: Call, conf: Mapping[str, Any], newest: Batch | None, *, by_window: bool) -> dict[str, Any]:
    start, end = call["start"], call["end"]
    if (by_window or newest is None) and "window" in conf:
        return {"start": Timestamp(), "end": Timestamp()}
    if by_window and not (start and end.startswith("timestamp:")):
        problem = f"Pipeline {call.log.pipeline_id!r} reads by window: give --start timestamp:… and --end timestamp:…"
        raise InvalidRequest((problem,))
    if start is None:  # it decides the first batch only
        has_group = newest is None or call["group_id"] or newest.plan.group_id
        start = "group-offsets" if has_group else "earliest"
    return {"start": call.bound("--start", start, call["otherwise"]), "end": call.bound("--end", end)}


def _in_words(done: ResolvedBatch, was: Batch | None) -> str:
    job = "" if done.starts_job else " Spark has nothing to do: the commit follows."
    if was is None:
        return f"The next run plans batch {done.batch.number}: {done.reads}.{job}"
    how = "with the same offsets" if was.plan.plan_id == done.batch.plan.plan_id else "planned again"
    what = f"Batch {was.number} is {state_of(was)}, by run {was.plan.by}."
    return f"{what} The next run reads it, {how}: {done.reads}.{job}"


def _rows(done: ResolvedBatch) -> list[Row]:
    decisions = grouped((d.partition, _decided(d)) for d in done.body.decisions)
    return [
        {
            "partition": str(tp),
            "resumes_from": done.body.resume_from[tp].offset,
            "start": planned.start,
            "end": planned.end,
            "offsets": done.body.planned(tp),
            "decisions": "; ".join(decisions.get(tp, [])),
        }
        for tp, planned in sorted(done.body.ranges.items())
    ]


def _decided(decision: Decision) -> str:
    end = "" if decision.end is None else f" to {decision.end}"
    return f"offsets from {decision.start}{end} {decision.effect} ({decision.by})"


plan_command = command(
    plan,
    "plan orders --kafka-config-id kafka_default",
    PIPELINE,
    option("--conf", "The conf of a run, as an error prints it.", metavar="JSON"),
    option("--topics", "orders,payments or ^orders-.* or JSON; default: as read so far.", metavar="TOPICS"),
    option("--group-id", "The consumer group; default: that of the last batch.", metavar="GROUP"),
    option("--start", f"Where the first batch starts: {BOUND}.", metavar="BOUND"),
    option("--end", "Where the batch ends, exclusive.", metavar="BOUND", default="latest"),
    OTHERWISE,
    option("--max-records", "Limit of a batch, in offsets.", metavar="N"),
    option("--on-data-loss", "fail, advance or reset.", metavar="WORD", default="fail"),
    option("--exclude", "Partitions that keep their position: orders-3,orders-5.", metavar="LIST", default=""),
    *CLUSTER,
    CHECKPOINT,
)
