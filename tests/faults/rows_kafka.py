"""What happens to Kafka, and what others do there, between two requests of a run."""

from collections.abc import Callable

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec

from testbed import kafka_answers, kafka_proxy
from testbed.kafka_proxy import LIST_OFFSETS, Moment, NotFired
from testbed.topics import quiet
from tests.faults import moments
from tests.faults.rows import row
from tests.faults.scene import Scene
from tests.faults.spying import when_file

PLAN_STORED = "plans/*/*/*/*/plan.1.json"


def _restart(s: Scene, crash: bool) -> str:
    before = s.broker.pid
    if crash:
        s.broker.kill()
        s.broker.start()
    else:
        s.broker.restart()
    return f"process {'killed' if crash else 'stopped'}, {'another' if s.broker.pid != before else 'the same'} started"


@row(
    "Kafka",
    "broker restarted during resolve",
    ends="healed",
    made="the broker is stopped in order and started when the first look-up comes",
)
def restarted_in_resolve(s: Scene) -> str:
    s.produce()
    rule = s.arm("broker restarted", moments.RESOLVE_LOOKS_UP, kafka_proxy.before(lambda: _restart(s, crash=False)))
    s.run()
    return rule.proof()


@row(
    "Kafka",
    "broker crashes during commit",
    ends="healed",
    made="SIGKILL of the broker when the write comes, and another start; the offsets are pending then",
)
def crashed_in_commit(s: Scene) -> str:
    s.produce()
    rule = s.arm("broker killed", moments.COMMIT_WRITE, kafka_proxy.before(lambda: _restart(s, crash=True)))
    s.run()
    return rule.proof()


@row(
    "Kafka",
    "write done and its answer lost",
    ends="healed",
    made="the broker has done the write, and the connection is cut instead of the answer",
    in_every_test_run=True,
)
def answer_lost(s: Scene) -> str:
    s.produce()
    rule = s.arm("answer lost", moments.COMMIT_WRITE, kafka_proxy.cut_after)
    s.run()
    return rule.proof()


@row(
    "Kafka",
    "leader gone",
    ends="healed",
    made="four look-ups are answered NOT_LEADER_OR_FOLLOWER for each partition",
)
def leader_gone(s: Scene) -> str:
    s.produce()
    deed = kafka_proxy.changed(kafka_answers.list_offsets_error(kafka_answers.NOT_LEADER_OR_FOLLOWER))
    rule = s.arm("no leader", moments.RESOLVE_LOOKS_UP, deed, times=4)
    s.run()
    return rule.proof()


@row(
    "Kafka",
    "coordinator loading",
    ends="healed",
    made="the commit's first three reads of the group are answered COORDINATOR_LOAD_IN_PROGRESS",
)
def coordinator_loading(s: Scene) -> str:
    s.produce()
    deed = kafka_proxy.changed(kafka_answers.offset_fetch_error(kafka_answers.COORDINATOR_LOAD_IN_PROGRESS))
    rule = s.arm("coordinator loads", moments.COMMIT_READS_GROUP, deed, times=3)
    s.run()
    return rule.proof()


@row(
    "Kafka",
    "look-up that hangs",
    ends="healed",
    made="the read of the group in resolve is never answered",
)
def look_up_hangs(s: Scene) -> str:
    s.produce()
    rule = s.arm("no answer", moments.RESOLVE_READS_GROUP, kafka_proxy.hang)
    s.run()
    return rule.proof()


@row(
    "Kafka",
    "look-up that answers -1001",
    ends="healed",
    made="the look-up of the log starts is not answered in time, for which librdkafka returns -1001 and no error; a "
    "client of the row's own sees that first",
)
def look_up_answers_minus_1001(s: Scene) -> str:
    s.produce()
    probe = s.arm("probe", Moment("probe", LIST_OFFSETS), kafka_proxy.hang)
    admin = AdminClient({"bootstrap.servers": s.proxy.bootstrap_servers, "client.id": "probe"}, logger=quiet)
    admin.list_topics(timeout=10)
    asked = {TopicPartition(s.topic, 0): OffsetSpec.earliest()}
    seen = [f.result(30).offset for f in admin.list_offsets(asked, request_timeout=2.0).values()]
    del admin
    if seen != [-1001]:
        raise NotFired(f"{probe.proof()}; librdkafka answers {seen}")
    rule = s.arm("look-up not answered", moments.RESOLVE_LOOKS_UP, kafka_proxy.hang, times=2)
    s.run()
    return f"librdkafka answers {seen[0]}; {rule.proof()}"


@row(
    "Kafka",
    "records deleted between plan and read",
    ends="refused",
    made="DeleteRecords of a partition's first 30 offsets when the plan is stored; Spark fails, the run is cleared",
    cause="DataLoss",
    remedy='a run with on_data_loss="advance": the plan counts 30 lost',
)
def records_deleted(s: Scene) -> str:
    s.produce()
    deletion = lambda _: s.broker.delete_records({(s.topic, 0): 30})  # noqa: E731
    with when_file(s.store, PLAN_STORED, deletion) as seen:
        run = s.start("fault_batch_once").wait("failed")
    start = s.broker.offset_bounds(s.topic)[0][0]
    if s.numbers():
        raise AssertionError("half a read became output")
    run.clear("resolve")
    s.refused(run, "resolve", "DataLoss", "30 offsets are gone", 'on_data_loss="advance"')
    s.gone = set(range(0, 60, 2))  # partition 0 has the even ones
    s.run("fault_batch_advancing")
    return f"{seen.proof()}, the log of partition 0 started at {start}"


@row(
    "Kafka",
    "topic re-created between plan and commit",
    ends="refused",
    made="the topic is deleted and created, with other records, when the commit task sends its first request",
    cause="TopicRecreated",
    remedy='a new run with on_recreated="earliest"',
)
def topic_recreated(s: Scene) -> str:
    ids: list[str] = []

    def topic_id() -> str:
        from confluent_kafka import TopicCollection

        admin = s.broker.admin()
        return str(admin.describe_topics(TopicCollection([s.topic]))[s.topic].result(30).topic_id)

    def recreate() -> None:
        ids.append(topic_id())
        s.broker.delete_topic(s.topic)
        s.broker.create_topic(s.topic, s.partitions)
        s.produce(40)
        ids.append(topic_id())

    s.produce()
    rule = s.arm("topic re-created", moments.COMMIT_FIRST, kafka_proxy.before(recreate))
    run = s.start()
    rule.wait()
    if len(set(ids)) != 2:
        raise NotFired(f"topic ids {ids}")
    s.refused(run, "commit", "TopicRecreated", 'on_recreated="earliest"')
    s.run("fault_batch_recreated")
    return rule.proof()


@row(
    "Kafka",
    "partition added between plan and read",
    ends="healed",
    made="a third partition, with records, when the plan is stored",
    scene={"watched_partitions": 3},
)
def partition_added(s: Scene) -> str:
    def add(_: object) -> None:
        admin = s.broker.admin()
        for future in admin.create_partitions([NewPartitions(s.topic, 3)]).values():
            future.result(30)
        s.wait_for("there are three", lambda: len(s.broker.offset_bounds(s.topic)) == 3)
        s.partitions = 3
        s.produce(60)

    s.produce()
    with when_file(s.store, PLAN_STORED, add) as seen:
        s.run()
    if len(s.numbers()) != 200:
        raise AssertionError("the run read more than its plan")
    s.run()
    return f"{seen.proof()}, there were {len(s.broker.offset_bounds(s.topic))} partitions"


def _consumer(s: Scene) -> Consumer:
    return Consumer({**s.broker.client_config, "group.id": s.group, "enable.auto.commit": False}, logger=quiet)


def _joins(s: Scene, consumer: Consumer) -> Callable[[], None]:
    """The consumer becomes a member, and has its partitions."""

    def join() -> None:
        consumer.subscribe([s.topic])
        s.wait_for("it has its partitions", lambda: bool(consumer.poll(0.1) is None and consumer.assignment()), 30.0)

    return join


@row(
    "Kafka",
    "group joined by a live consumer between the two looks",
    ends="refused",
    made="a consumer subscribes and gets its partitions when the commit has read the group once",
    cause="GroupActive",
    remedy="stop the consumer, clear the commit task",
)
def joined_between_the_looks(s: Scene) -> str:
    s.produce()
    consumer = _consumer(s)
    rule = s.arm("a consumer joined", moments.COMMIT_DESCRIBES, kafka_proxy.before(_joins(s, consumer)))
    try:
        run = s.start()
        s.refused(run, "commit", "GroupActive", "Stop that consumer")
    finally:
        consumer.close()
    run.clear("commit").wait()
    return rule.proof()


@row(
    "Kafka",
    "group joined by a live consumer right before the write",
    ends="healed",
    made="a consumer, which commits nothing, gets its partitions when the write comes, after both looks: the broker "
    "takes a transaction's offsets all the same",
)
def joined_before_the_write(s: Scene) -> str:
    s.produce()
    consumer = _consumer(s)
    rule = s.arm("a consumer joined", moments.COMMIT_WRITE, kafka_proxy.before(_joins(s, consumer)))
    try:
        s.run()
    finally:
        consumer.close()
    return rule.proof()


def _set_by_hand(s: Scene, offsets: dict[int, int]) -> None:
    """What kafka-consumer-groups --reset-offsets does."""
    admin = s.broker.admin()
    request = ConsumerGroupTopicPartitions(s.group, [TopicPartition(s.topic, p, o) for p, o in offsets.items()])
    for future in admin.alter_consumer_group_offsets([request]).values():
        bad = [tp.error for tp in future.result(30).topic_partitions if tp.error]
        if bad:
            raise NotFired(f"the reset was refused: {bad}")
    s.by_hand |= set(offsets.items())


def _reset_at(s: Scene, moment: Moment) -> str:
    s.produce()
    s.run()
    base = s.committed()
    s.produce(50)
    rule = s.arm("the group was reset", moment, kafka_proxy.before(lambda: _set_by_hand(s, {0: 10})))
    run = s.start()
    rule.wait()
    s.refused(run, "commit", "CommitConflict")
    _set_by_hand(s, {0: base[0]})
    run.clear("commit").wait()
    return rule.proof()


@row(
    "Kafka",
    "group reset by a person before the commit looks",
    ends="refused",
    made="a partition is set back to 10 by an admin client when the commit task sends its first request",
    cause="CommitConflict",
    remedy="set the group back to where it was, clear the commit task",
)
def reset_before_the_look(s: Scene) -> str:
    return _reset_at(s, moments.COMMIT_FIRST)


@row(
    "Kafka",
    "group reset by a person between the two looks",
    ends="refused",
    made="a partition is set back to 10 by an admin client when the commit has read the group once",
    cause="CommitConflict",
    remedy="set the group back to where it was, clear the commit task",
)
def reset_between_the_looks(s: Scene) -> str:
    return _reset_at(s, moments.COMMIT_DESCRIBES)


@row(
    "Kafka",
    "offsets expired",
    ends="healed",
    made="the group is deleted, which is what expiry leaves, before a run's resolve and again before its commit looks",
)
def offsets_expired(s: Scene) -> str:
    def forget() -> None:
        admin = s.broker.admin()  # kept until it has answered
        admin.delete_consumer_groups([s.group])[s.group].result(30)

    s.produce()
    s.run()
    s.produce(50)
    forget()
    if s.committed():
        raise NotFired(f"the group still holds {s.committed()}")
    s.run()
    s.produce(50)
    rule = s.arm("the group was deleted", moments.COMMIT_FIRST, kafka_proxy.before(forget))
    s.run()
    return rule.proof()


@row(
    "Kafka",
    "open transaction over the end",
    ends="healed",
    made="a transaction is open over the end of the log under read_committed, and committed after the run",
)
def open_transaction(s: Scene) -> str:
    s.produce()
    s.deploy("persists.py")
    producer = Producer({**s.broker.client_config, "transactional.id": s.topic}, logger=quiet)
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(40):
        producer.produce(s.topic, b"%d" % (s.produced + number), partition=number % 2)
    producer.flush(30)
    open_end = {p: high for p, (_, high) in s.broker.offset_bounds(s.topic).items()}
    s.run("fault_batch_committed")
    stable = s.committed()
    if not all(stable[p] < open_end[p] for p in open_end) or len(s.numbers()) != 200:
        raise NotFired(f"the log ended at {open_end}, and {stable} were committed")
    producer.commit_transaction(30)
    s.produced += 40
    s.run("fault_batch_committed")
    return f"the log ended at {sorted(open_end.values())}; the run at {sorted(stable.values())}"
