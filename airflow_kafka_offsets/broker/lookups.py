"""Where the logs start and end, and where a time lies in them: ``ListOffsets``, in chunks.

``offsets_for_times`` of a consumer that never joins a group takes -2 and -1 for a log's start and end, as the protocol
does. It is several times as fast as the admin client's ``list_offsets``, which makes a future for each partition; only
the newest timestamp needs that. librdkafka's cost grows with the square of the partitions in one call, hence chunks; a
client has one thread for its answers and one connection to each broker, hence two of them where there are many chunks.

An offset counts only if the partition's own error is absent and the broker did answer: where nobody does, the admin
client gives -1001 without an error (``rd_kafka_ListOffsets_response_merge`` drops it), and the consumer what was asked.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicCollection
from confluent_kafka import IsolationLevel as KafkaIsolationLevel
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from airflow_kafka_offsets.broker.config import look_up_settings
from airflow_kafka_offsets.broker.connection import Clients, Connection, NotYet, in_words
from airflow_kafka_offsets.broker.partition_errors import Refusals, chunks, epoch_of, to_kafka
from airflow_kafka_offsets.broker.protocol import EndOffset
from airflow_kafka_offsets.kafka_values import IsolationLevel, TopicPartition, by_topic
from airflow_kafka_offsets.progress_log import Progress

LOOK_UP_CHUNK = 500
LOG_START, LOG_END, NO_RECORD = -2, -1, -1  # of the protocol: two questions, and the answer of a time without a match
SECOND_LOOK_S = 1.0  # for the brokers that do answer, where one did not
_WHAT, _RIGHT = "look up offsets", "Describe"


class LookUpClient(Consumer):
    """A consumer that weak references can point to; see ``connection.Clients``.

    :ivar is_connected: a new one that is asked for offsets at once stops for 0.7 s, one time in twenty; a look at a
        topic does not, and none does after it.
    """

    is_connected = False


class LookUps(Connection):
    """A connection with two more clients for each isolation level, made when they are needed."""

    def __init__(self, config: Mapping[str, Any], **limits: float) -> None:
        super().__init__(config, **limits)
        levels: tuple[IsolationLevel, ...] = "read_uncommitted", "read_committed"
        self._clients = {level: self._make_clients(level) for level in levels}
        self._helpers = {level: self._make_clients(level) for level in levels}

    def ask_anew(self) -> None:
        for level in self._clients:
            self._drop(level)

    def close(self) -> None:
        self.ask_anew()
        super().close()

    def list_topics(self) -> Any:
        """All topics, as the client library gives them. The client that was asked knows their leaders from then on.

        A consumer: asked for a topic by name, a producer-like client could create it (G11).
        """

        def look(client: LookUpClient) -> Any:
            topics = client.list_topics(timeout=self.attempt_s)
            client.is_connected = True
            return topics

        return self.ask_with(self._clients["read_uncommitted"], "list the topics", look)

    def log_start_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        found = self._ask(dict.fromkeys(partitions, LOG_START), "read_uncommitted")
        return {tp: answer.offset for tp, answer in found.items()}

    def end_offsets(
        self, partitions: Collection[TopicPartition], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, EndOffset]:
        found = self._ask(dict.fromkeys(partitions, LOG_END), isolation_level)
        return {tp: EndOffset(answer.offset, epoch_of(answer.leader_epoch)) for tp, answer in found.items()}

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        """Absent where no record is."""
        found = self._ask(times_ms, isolation_level, by_time=True)
        return {tp: answer.offset for tp, answer in found.items() if answer.offset != NO_RECORD}

    def newest_timestamps(
        self, partitions: Collection[TopicPartition], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        """Absent where no record is."""
        specs, timeout_s = dict.fromkeys(partitions, OffsetSpec.max_timestamp()), self.attempt_s
        answers: dict[TopicPartition, Any] = {}
        causes: dict[TopicPartition, str] = {}

        def look(client: AdminClient) -> None:
            refusals = Refusals(_WHAT, self, _RIGHT, causes)
            left = {tp: specs[tp] for tp in _left(specs, answers)}
            answers.update(_one_by_one(client, left, isolation_level, timeout_s, refusals, by_time=True))
            self._settle(refusals)

        if partitions:
            self.ask(_WHAT, look)
        return {tp: answer.timestamp for tp, answer in answers.items() if answer.offset != NO_RECORD}

    def _ask(
        self, asked: Mapping[TopicPartition, int], isolation_level: IsolationLevel, *, by_time: bool = False
    ) -> dict[TopicPartition, Any]:
        answers: dict[TopicPartition, Any] = {}
        causes: dict[TopicPartition, str] = {}
        progress = Progress(_WHAT, len(asked))

        def look(client: LookUpClient) -> None:
            refusals = Refusals(_WHAT, self, _RIGHT, causes)
            before = len(answers)
            try:
                for chunk, found in self._in_turns(client, isolation_level, asked, _left(asked, answers)):
                    for tp, answer in zip(chunk, found, strict=True):
                        if answer.error is not None:
                            refusals.add(tp, answer.error)
                        elif _is_answer(answer, asked[tp], by_time=by_time):
                            answers[tp] = answer
                        else:
                            refusals.waiting[tp] = _nobody(answer)
                    progress.add(len(answers) - before)
                    before = len(answers)
            except KafkaException:
                # One broker that does not answer takes the others' answers along, of this chunk and of each later.
                specs = {tp: _spec(asked[tp]) for tp in _left(asked, answers)}
                admin = self.admin()
                answers.update(_one_by_one(admin, specs, isolation_level, SECOND_LOOK_S, refusals, by_time=by_time))
                self._settle(refusals)
                self._drop(isolation_level)  # they would go on asking who did not answer
                return
            self._settle(refusals)

        if asked:
            self.ask_with(self._clients[isolation_level], _WHAT, look)
        return answers

    def _in_turns(
        self,
        client: LookUpClient,
        isolation_level: IsolationLevel,
        asked: Mapping[TopicPartition, int],
        partitions: Collection[TopicPartition],
    ) -> Iterator[tuple[list[TopicPartition], list[KafkaTopicPartition]]]:
        """Each chunk with its answers, in their order; whichever client is free asks for the next one."""
        asking = list(chunks(partitions, LOOK_UP_CHUNK))
        free: SimpleQueue[LookUpClient] = SimpleQueue()
        free.put(client)
        if len(asking) > 1:
            free.put(self._helpers[isolation_level].current())

        def ask(chunk: list[TopicPartition]) -> list[KafkaTopicPartition]:
            question = [KafkaTopicPartition(tp.topic, tp.partition, asked[tp]) for tp in chunk]
            one = free.get()
            try:
                if not one.is_connected:
                    one.list_topics(chunk[0].topic, timeout=self.attempt_s)
                    one.is_connected = True
                found: list[KafkaTopicPartition] = one.offsets_for_times(question, timeout=self.attempt_s)
                return found
            finally:
                free.put(one)

        with ThreadPoolExecutor(free.qsize()) as pool:
            yield from zip(asking, pool.map(ask, asking), strict=True)

    def _drop(self, isolation_level: IsolationLevel) -> None:
        self._clients[isolation_level].drop()
        self._helpers[isolation_level].drop()

    def _settle(self, refusals: Refusals) -> None:
        refusals.raise_final()
        if refusals.waiting:
            _name_the_cause(self, refusals)
        refusals.settle()

    def _make_clients(self, isolation_level: IsolationLevel) -> Clients[LookUpClient]:
        settings = look_up_settings(isolation_level)
        return Clients(lambda: self.make(LookUpClient, {**self.settings, **settings}))


def _left(partitions: Iterable[TopicPartition], answers: Collection[TopicPartition]) -> list[TopicPartition]:
    return [tp for tp in sorted(partitions) if tp not in answers]


def _is_answer(answer: KafkaTopicPartition, asked: int, *, by_time: bool) -> bool:
    if answer.offset < 0:
        return by_time and answer.offset == NO_RECORD
    return answer.offset != asked or epoch_of(answer.leader_epoch) is not None


def _nobody(answer: Any) -> str:
    return f"nobody answered (offset {answer.offset} without an error)"


def _spec(asked: int) -> OffsetSpec:
    known: dict[int, OffsetSpec] = {LOG_START: OffsetSpec.earliest(), LOG_END: OffsetSpec.latest()}
    return known.get(asked) or OffsetSpec.for_timestamp(asked)


def _one_by_one(
    client: AdminClient,
    specs: Mapping[TopicPartition, OffsetSpec],
    isolation_level: IsolationLevel,
    timeout_s: float,
    refusals: Refusals,
    *,
    by_time: bool,
) -> dict[TopicPartition, Any]:
    """The answer of each partition that has one; the others are in ``refusals``."""
    level = KafkaIsolationLevel[isolation_level.upper()]
    futures: dict[TopicPartition, Future[Any]] = {}
    for chunk in chunks(specs, LOOK_UP_CHUNK):
        asked = {to_kafka(tp): specs[tp] for tp in chunk}
        found = client.list_offsets(asked, isolation_level=level, request_timeout=timeout_s)
        futures |= {TopicPartition(tp.topic, tp.partition): future for tp, future in found.items()}
    answers = {}
    until = time.monotonic() + timeout_s + 1
    for tp, future in futures.items():
        try:
            answer = future.result(max(0.0, until - time.monotonic()))
        except KafkaException as error:
            refusals.add(tp, error.args[0])
        except TimeoutError:
            refusals.waiting[tp] = f"no answer within {timeout_s:g} s"
        else:
            if answer.offset >= 0 or (by_time and answer.offset == NO_RECORD):
                answers[tp] = answer
            else:
                refusals.waiting[tp] = _nobody(answer)
    return answers


def _name_the_cause(connection: Connection, refusals: Refusals) -> None:
    """One partition without a leader makes librdkafka wait, and then fail the whole call: then name that one alone.

    Where each has a leader, the brokers that were asked are named.
    """
    client = connection.admin()
    try:
        metadata = client.list_topics(timeout=1.0)
    except KafkaException:  # it may have asked the one that does not answer
        try:
            metadata = client.list_topics(timeout=1.0)
        except KafkaException:
            return
    topics = metadata.topics
    unseen, causes = [], Refusals(_WHAT, connection, _RIGHT, refusals.causes)
    for tp in refusals.waiting:
        assert isinstance(tp, TopicPartition)
        if tp.topic not in topics:
            unseen.append(tp)
        elif tp.partition not in topics[tp.topic].partitions:
            causes.waiting[tp] = "it does not exist"
            refusals.causes.pop(tp, None)
        elif topics[tp.topic].partitions[tp.partition].leader < 0:
            causes.waiting[tp] = refusals.causes[tp] = "it has no leader"
        else:
            leader = topics[tp.topic].partitions[tp.partition].leader
            known = metadata.brokers.get(leader)
            where = f" at {known.host}:{known.port}" if known else ", which the cluster does not list"
            refusals.causes[tp] = f"{refusals.waiting[tp]}; its leader is broker {leader}{where}"
    if unseen:  # a topic that this client may not describe is not in the list; asked for by name, it says so
        _ask_by_name(connection, client, unseen, causes)
    causes.settle()


def _ask_by_name(
    connection: Connection, client: AdminClient, partitions: list[TopicPartition], causes: Refusals
) -> None:
    unseen = by_topic(partitions)
    futures = client.describe_topics(TopicCollection(list(unseen)), request_timeout=connection.attempt_s)
    for name, future in futures.items():
        try:
            future.result(connection.attempt_s + 1)
        except KafkaException as error:
            causes.add_all([TopicPartition(name, number) for number in unseen[name]], error.args[0])


def messages(
    client: LookUpClient, left: set[TopicPartition], attempt_s: float, refusals: Refusals
) -> Iterator[tuple[TopicPartition, Message]]:
    """What comes of the partitions that the client was assigned, as long as one of them is left; then what was refused.

    :param left: whoever iterates takes out of it what has been answered.
    """
    until = time.monotonic() + attempt_s
    while left and (wait_s := until - time.monotonic()) > 0:
        message = client.poll(wait_s)
        if message is None or (topic := message.topic()) is None:  # nothing yet, or an error that is of no partition
            continue
        tp = TopicPartition(topic, message.partition() or 0)
        if tp in left:
            yield tp, message
    refusals.waiting.update(dict.fromkeys(left, f"no answer within {attempt_s:g} s"))
    refusals.settle()


# ── how far a log has what it had under an earlier leader: OffsetForLeaderEpoch (KIP-320) ─────────────────────────────
# confluent-kafka has no such call. librdkafka asks it by itself after a ``seek`` to an offset with a leader epoch,
# before it fetches (after ``assign`` only where the metadata happens to come later). Here it seeks beyond any log. So
# each answer is the error that it has for a log that was cut: nothing is fetched, and the right Describe is enough.
# The offset is in that error's text alone, and its code is that of other errors, too: a text that is not known is an
# error.


_COMPARE = "compare leader epochs"
_BEYOND = 2**62
_ENDS_AT = re.compile(r"truncation detected at .*: broker end offset is (\d+) ")
# The log has no epochs, or the broker does not know the question: records of before Kafka 0.11, brokers of before 2.3.
_NOT_KNOWN = re.compile(r"No epoch found|Offset out of range")


def ends_of_epochs(connection: Connection, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The offset after the last one of this leader epoch, or of one before it; absent if the broker does not know."""
    settings = {**look_up_settings("read_uncommitted"), "auto.offset.reset": "error", "fetch.wait.max.ms": 10}
    answers: dict[TopicPartition, int | None] = {}

    def look(chunk: list[TopicPartition], client: LookUpClient) -> None:
        refusals = Refusals(_COMPARE, connection, _RIGHT)
        left = {tp for tp in chunk if tp not in answers}
        try:
            client.assign([KafkaTopicPartition(tp.topic, tp.partition, OFFSET_END) for tp in left])
            for tp in left:
                client.seek(KafkaTopicPartition(tp.topic, tp.partition, _BEYOND, leader_epoch=epochs[tp]))
        except KafkaException as raised:
            raise NotYet(in_words(raised.args[0])) from None
        for tp, message in messages(client, left, connection.attempt_s, refusals):
            error = message.error()
            if error is None:
                continue
            ends_at = _ENDS_AT.search(error.str())
            if error.code() == KafkaError._AUTO_OFFSET_RESET and (ends_at or _NOT_KNOWN.search(error.str())):
                answers[tp] = int(ends_at[1]) if ends_at else None
            else:
                refusals.add(tp, error)
            left.discard(tp)

    for chunk in chunks(sorted(epochs), LOOK_UP_CHUNK):
        # A client for each: one that was assigned other partitions before refuses to seek until they have stopped.
        clients = Clients(lambda: connection.make(LookUpClient, {**connection.settings, **settings}))
        connection.ask_with(clients, _COMPARE, partial(look, chunk))
    return {tp: end for tp, end in answers.items() if end is not None}
