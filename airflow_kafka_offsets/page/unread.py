# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Kafka's side of the page, asked by another thread: a reader of the page waits for it a moment only.

Kafka is asked about a pipeline at most every ten seconds, however many readers a page has.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import AbstractContextManager
from threading import Lock
from typing import NamedTuple

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.engine.lag import lag_of_pipeline
from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog

NOT_OFTENER_S, WAIT_S = 10.0, 0.5
_MOST = 200  # pipelines that are remembered
_FEW = 1_000  # partitions: the time of the first unread record of each takes a read


class Unread(NamedTuple):
    """
    :ivar records: offsets up to the ends of the topics; ``None``: not known, and ``why`` says so.
    :ivar in_transaction: offsets behind the ends, which open transactions hold back.
    :ivar oldest_ms: the time of the oldest of them; ``None``: none is unread, or it was not asked.
    :ivar notes: partitions by what is wrong with their position.
    """

    records: int | None = None
    in_transaction: int = 0
    oldest_ms: int | None = None
    notes: Mapping[str, int] = {}
    why: str = ""


_STILL_ASKED = Unread(why="Kafka has not answered yet; load this page again.")
_OTHER_CLUSTER = Unread(why="The Kafka connection leads to another cluster than the one that was read.")
_pool = ThreadPoolExecutor(4, "kafka-offsets-page")
_lock = Lock()


class Asked(NamedTuple):
    """A question to Kafka, and when it was asked, by the clock that never goes back."""

    at_s: float
    future: Future[Unread]


_asked: dict[tuple[str, str, int, int], Asked] = {}


def ask(log: PipelineLog, newest: Batch, open_cluster: Callable[[], AbstractContextManager[Cluster]]) -> Asked:
    """Begin to ask, unless it was done a moment ago for the same position."""
    about, now = (log.store.uri, log.pipeline_id, newest.number, len(newest.entries)), time.monotonic()
    with _lock:
        asked = _asked.pop(about, None)
        if asked is None or (asked.future.done() and now - asked.at_s >= NOT_OFTENER_S):
            asked = Asked(now, _pool.submit(_unread, log, newest, open_cluster))
        _asked[about] = asked
        for old in list(_asked)[:-_MOST]:
            del _asked[old]
    return asked


def answer(asked: Asked) -> Unread:
    """Waits until half a second after the question, and not at all for one that has waited before."""
    try:
        return asked.future.result(max(0.0, asked.at_s + WAIT_S - time.monotonic()))
    except NotYet:
        return _STILL_ASKED


def _unread(log: PipelineLog, newest: Batch, open_cluster: Callable[[], AbstractContextManager[Cluster]]) -> Unread:
    try:
        with open_cluster() as cluster:
            lag = lag_of_pipeline(log, newest, cluster, with_times=newest.plan.partitions <= _FEW)
    except KafkaOffsetsError as error:
        return Unread(why=str(error))
    except Exception as error:  # of any kind, and its text may hold a secret
        return Unread(why=f"Kafka could not be asked: {type(error).__name__}.")
    if lag is None:
        return _OTHER_CLUSTER
    notes = Counter(str(one.note) for one in lag.values() if one.note not in ("", "no position"))
    oldest = min((one.oldest_ms for one in lag.values() if one.oldest_ms is not None), default=None)
    held = sum(one.in_transaction for one in lag.values())
    return Unread(sum(one.unread for one in lag.values()), held, oldest, notes)
