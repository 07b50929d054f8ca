"""Kafka's side of a page, asked by a thread of its own: whoever reads the page waits a moment for it, and no longer.

One pipeline is asked at most every ten seconds, however many people look, and never twice at once. First come the ends
of the logs, then how old the unread records are: each of them is read for it. What is there when the moment is over is
shown; the rest is there on the next look.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from airflow_kafka_offsets.batch.look_ups import topics_that_exist
from airflow_kafka_offsets.batch.measured_lag import Measured, measure, next_offsets, partition_states
from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import ADDRESS, KafkaOffsetsError, NothingToDiscover, named
from airflow_kafka_offsets.kafka_values import PartitionSnapshot, TopicPartition
from airflow_kafka_offsets.log.batch_lines import BatchLine
from airflow_kafka_offsets.log.entries import BatchLog
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.plan.lag_and_margin import lag_and_margin, log_starts_of

OpenCluster = Callable[[], AbstractContextManager[OffsetReader]]
NOT_OFTENER_S = 10.0
WAIT_S = 0.5
_MOST = 500  # pipelines that are remembered
MANY = 1_000  # partitions: what they take of the processor would hold up the page's own requests to the store
MOVED = "The position has moved since Kafka was asked, a moment ago. It is asked again ten seconds after that."


@dataclass(frozen=True, slots=True)
class KafkaAnswer:
    """What Kafka has said so far.

    :ivar logs: both ends of each partition; one without a leader is absent.
    :ivar offsets: the pipeline's position in each; ``None``: it has moved since Kafka was asked.
    :ivar measured: the lag of each partition, and as far as it is known by now, ages and margins.
    :ivar not_known: what it could not say, and why: a sentence each.
    """

    looked_at_ms: int
    logs: Mapping[TopicPartition, PartitionSnapshot] = field(default_factory=dict)
    offsets: Mapping[TopicPartition, int] | None = None
    measured: Measured | None = None
    not_known: tuple[str, ...] = ()


@dataclass(slots=True)
class _Look:
    """One round of questions.

    :ivar about: the position that it is about.
    :ivar batch: the newest, once it is read; a plan of 10,000 partitions takes a fifth of a second.
    """

    about: object
    began_s: float
    batch: StoredBatch | None = None
    answer: KafkaAnswer | None = None
    is_waited_for: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)


class KafkaLooks:
    """The looks of this process."""

    def __init__(self, wait_s: float = WAIT_S, clock: Callable[[], float] = time.monotonic) -> None:
        """:param wait_s: how long after Kafka was asked its answer is waited for."""
        self._wait_s, self._clock = wait_s, clock
        self._lock = threading.Lock()
        self._looks: OrderedDict[tuple[str, str], _Look] = OrderedDict()

    def answer(self, log: PipelineLog, newest: BatchLine, open_cluster: OpenCluster) -> KafkaAnswer | None:
        """What Kafka says of the pipeline; ``None`` where it has not answered yet.

        Where the position has moved since Kafka was asked, the lag is not known before it may be asked again.
        """
        look = self.begin(log, newest, open_cluster)
        look.is_waited_for.set()
        look.over.wait(max(0.0, look.began_s + self._wait_s - self._clock()))
        found = look.answer
        if found is None or look.about == _about(newest):
            return found
        return replace(found, offsets=None, measured=None, not_known=(*found.not_known, MOVED))

    def begin(self, log: PipelineLog, newest: BatchLine, open_cluster: OpenCluster) -> _Look:
        """Let Kafka be asked, if it may be asked again; about many partitions once :meth:`answer` is called."""
        who = log.store.uri, log.pipeline_id
        with self._lock:
            look = self._looks.get(who)
            if look is None or (look.over.is_set() and self._clock() - look.began_s >= NOT_OFTENER_S):
                look = self._looks[who] = _Look(_about(newest), self._clock(), look.batch if look else None)
                threading.Thread(target=_ask, args=(look, log, newest, open_cluster), daemon=True).start()
            self._looks.move_to_end(who)
            while len(self._looks) > _MOST:
                self._looks.popitem(last=False)
        return look


LOOKS = KafkaLooks()


def _about(newest: BatchLine) -> object:
    return newest.summary.key, newest.summary.plan, newest.committed is not None


def _ask(look: _Look, log: PipelineLog, newest: BatchLine, open_cluster: OpenCluster) -> None:
    try:
        look.batch = log.batch(newest.summary.number, look.batch) if newest.summary.number else None
        if look.batch is not None:
            if len(look.batch.log.plan.partitions) >= MANY:
                look.is_waited_for.wait(2 * WAIT_S)
            with open_cluster() as cluster:
                _ask_cluster(look, look.batch.log, cluster)
    except Exception as error:  # any: it is shown, and the page stays; what is not ours may hold a secret
        what = error if isinstance(error, KafkaOffsetsError) else type(error).__name__
        known = look.answer or KafkaAnswer(now_ms())
        look.answer = replace(known, not_known=(*known.not_known, f"Kafka could not be asked: {what}"))
    finally:
        look.over.set()


def _ask_cluster(look: _Look, newest: BatchLog, cluster: OffsetReader) -> None:
    plan, position = newest.plan, newest.position
    topics = {tp.topic for tp in position.offsets} if position else plan.topics
    found = topics_that_exist(cluster, topics)
    if found is None:
        raise NothingToDiscover([f"{topic} does not exist" for topic in sorted(topics)], f"Correct {named(ADDRESS)}.")
    partitions = [tp for tp in found.partitions() if tp.topic in topics]
    states = partition_states(cluster, found, partitions, plan.asked.isolation_level)
    looked_at_ms = now_ms()
    logs = {state.topic_partition: state.log for state in states if state.log is not None}
    offsets, anew = next_offsets(position, found, plan.pipeline or "", states)
    not_known = [f"Topic {topic} was deleted and created again: the position is of the old one." for topic in anew]
    no_leader = len(states) - len(logs)
    if no_leader:
        not_known.append(f"{no_leader} partitions have no leader: what they hold is not known.")
    lags = {tp: lag_and_margin(offsets.get(tp), log, looked_at_ms) for tp, log in logs.items()}
    look.answer = KafkaAnswer(looked_at_ms, logs, offsets, Measured(lags), tuple(not_known))
    measured = measure(states, offsets, log_starts_of(plan, found), cluster, plan.asked.isolation_level, looked_at_ms)
    more = tuple(f"{why[:1].upper()}{why[1:]}." for why in measured.not_known)
    look.answer = replace(look.answer, measured=measured, not_known=(*not_known, *more))
