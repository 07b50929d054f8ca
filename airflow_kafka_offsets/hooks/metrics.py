# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Figures of a pipeline through Airflow's own metrics: StatsD, Datadog or OpenTelemetry, as Airflow is set up.

The pipeline is a tag. They are the figures of ``kafka-offsets show`` and ``lag``, from the same functions.

- What is not known is not sent, and never 0.
- A batch is counted once, by the commit task's try that has created the commit. A worker that dies just then has
  counted nothing: the log has the exact numbers.
- Alerts need gauges alone. Counters have other names by OpenTelemetry, where each task's process counts from 0.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from airflow.providers.common.compat.sdk import Stats

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.engine.history import batch_row
from airflow_kafka_offsets.engine.lag import lag_of_pipeline
from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog

_LOG = logging.getLogger(__name__)

Gauge = Literal[
    "lag",
    "in_transaction",
    "lag_looked_at_seconds",
    "committed_at_seconds",
    "lost_at_seconds",
    "bad_at_seconds",
    "resolve_seconds",
    "commit_seconds",
]
Counter = Literal[
    "resolves",
    "commits",
    "records_planned",
    "records_rows",
    "records_bad",
    "records_filtered",
    "records_lost",
    "records_skipped",
]


@contextmanager
def measured(step: Literal["resolve", "commit"], pipeline: str) -> Iterator[int]:
    """Send how long the step took, and how it ended: ``done``, or the error's name. Gives the time of its begin."""
    outcome, began = "done", time.monotonic()
    duration: Gauge = "resolve_seconds" if step == "resolve" else "commit_seconds"
    ended: Counter = "resolves" if step == "resolve" else "commits"
    try:
        yield now_ms()
    except Exception as error:  # of any kind: it is named and goes on
        outcome = type(error).__name__
        raise
    finally:
        _gauges(pipeline, {duration: time.monotonic() - began})
        _counts(pipeline, {ended: 1}, outcome=outcome)


@contextmanager
def measured_commit(log: PipelineLog, number: int, kafka: Cluster) -> Iterator[dict[str, int]]:
    """Send the figures of a commit, also if the task fails after it.

    The dictionary has ``lag`` afterwards, where it is known.
    """
    began_ms, found = now_ms(), dict[str, int]()
    try:
        with measured("commit", log.pipeline_id):
            yield found
    finally:
        with _no_reason_to_fail(log):
            batch = log.batch(number)
            if batch is not None and _send_batch(batch, began_ms) and len(batch.commits) == 1:
                found |= _send_lag(log, kafka, batch)


def send_nothing(log: PipelineLog, kafka: Cluster, began_ms: int) -> None:
    """Send the figures of a run without a Spark job: its lag, and an empty batch that resolve has committed itself."""
    with _no_reason_to_fail(log):
        newest = log.newest()
        if newest is not None:
            _send_batch(newest, began_ms)
            _send_lag(log, kafka, newest)


@contextmanager
def _no_reason_to_fail(log: PipelineLog) -> Iterator[None]:
    try:
        yield
    except KafkaOffsetsError as error:
        _LOG.warning("Figures of pipeline %s are not in the metrics: %s", log.pipeline_id, error)


def _send_lag(log: PipelineLog, kafka: Cluster, newest: Batch) -> dict[str, int]:
    """``{"lag": records, "in_transaction": records}``; empty by window and on another cluster."""
    lag = lag_of_pipeline(log, newest, kafka, with_times=False)
    if lag is None:
        return {}
    unread, held = sum(one.unread for one in lag.values()), sum(one.in_transaction for one in lag.values())
    _gauges(log.pipeline_id, {"lag": unread, "in_transaction": held, "lag_looked_at_seconds": now_ms() / 1000})
    return {"lag": unread, "in_transaction": held}


def _send_batch(batch: Batch, began_ms: int) -> bool:
    """``False``: it was not committed since then."""
    if not batch.is_closed or batch.commits[-1].at_ms < began_ms:
        return False
    row, at_s = batch_row(batch), batch.commits[-1].at_ms / 1000
    lost, skipped = (row["given_up"].get(kind, 0) for kind in ("lost", "skipped"))
    gauges: dict[Gauge, float] = {"committed_at_seconds": at_s}
    gauges |= {"lost_at_seconds": at_s} if lost else {}
    gauges |= {"bad_at_seconds": at_s} if row["bad"] else {}
    _gauges(batch.plan.pipeline, gauges)
    if len(batch.commits) > 1:  # a batch that is done again is the same records
        return True
    counts: dict[Counter, int] = {"records_planned": row["offsets"], "records_lost": lost, "records_skipped": skipped}
    if batch.plan.require_report:
        counts |= {"records_rows": row["rows"], "records_bad": row["bad"], "records_filtered": row["filtered"]}
    _counts(batch.plan.pipeline, counts)
    return True


def _gauges(pipeline: str, values: Mapping[Gauge, float]) -> None:
    for name, value in values.items():
        Stats.gauge(f"kafka_offsets.{name}", value, tags=_tags(pipeline=pipeline))


def _counts(pipeline: str, values: Mapping[Counter, int], **more: str) -> None:
    for name, value in values.items():
        Stats.incr(f"kafka_offsets.{name}", value, tags=_tags(pipeline=pipeline, **more))


def _tags(**tags: str) -> dict[str, str]:
    """With a tag of other characters, Airflow sends nothing to StatsD."""
    return {name: re.sub(r"[^A-Za-z0-9_./-]", "_", value) for name, value in tags.items()}
