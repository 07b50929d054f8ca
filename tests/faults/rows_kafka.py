"""What happens to Kafka, and what others do there, between two requests of a run."""

import base64
import shutil
import time
import uuid
from collections.abc import Callable

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec

from testbed import kafka_answers, kafka_proxy
from testbed.checks import rows_by_batch
from testbed.kafka_proxy import LIST_OFFSETS, Moment, NotFired
from testbed.topics import quiet
from tests.faults import moments
from tests.faults.rows import row
from tests.faults.scene import BATCHES, DEADLINE_S, FIRST_PLAN, PromiseBroken, Scene
from tests.faults.spying import when_file


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
    made="SIGKILL of the broker when the write to the group comes, and another start",
)
def crashed_in_commit(s: Scene) -> str:
    s.produce()
    rule = s.arm("broker killed", moments.MIRROR_WRITES, kafka_proxy.before(lambda: _restart(s, crash=True)))
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
    rule = s.arm("answer lost", moments.MIRROR_WRITES, kafka_proxy.cut_after)
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
    made="the commit task's first three looks at the group are answered COORDINATOR_LOAD_IN_PROGRESS",
)
def coordinator_loading(s: Scene) -> str:
    s.produce()
    deed = kafka_proxy.changed(kafka_answers.offset_fetch_error(kafka_answers.COORDINATOR_LOAD_IN_PROGRESS))
    rule = s.arm("coordinator loads", moments.COMMIT_LOOKS, deed, times=3)
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
    remedy='a run with policies={"data_loss": "advance"} in its conf: it plans the batch anew, and counts 30 lost',
)
def records_deleted(s: Scene) -> str:
    s.produce()
    deletion = lambda _: s.broker.delete_records({(s.topic, 0): 30})  # noqa: E731
    with when_file(s.store, FIRST_PLAN, deletion) as seen:
        run = s.start("fault_batch_once").wait("failed")
    start = s.broker.offset_bounds(s.topic)[0][0]
    if s.numbers():
        raise PromiseBroken("half a read became output")
    run.clear("resolve")
    s.refused(run, "resolve", "DataLoss", "30 offsets are gone", 'policies={"data_loss": "advance"}')
    s.gone = set(range(0, 60, 2))  # partition 0 has the even ones
    after = s.run(orders={"policies": {"data_loss": "advance"}})
    if after.batch != run.batch or ", lost 30" not in after.log("orders.resolve", 1):
        raise PromiseBroken(f"{after.batch} was done, not {run.batch}: {after.log('orders.resolve', 1)[-2000:]}")
    return f"{seen.proof()}, the log of partition 0 started at {start}"


@row(
    "Kafka",
    "topic re-created between plan and commit",
    ends="refused",
    made="the topic is deleted and created, with other records, when the commit task sends its first request: the "
    "batch is committed in the log, the group is left alone, and the next run is refused",
    cause="TopicRecreated",
    remedy='a run with policies={"topic_recreated": "earliest"} in its conf',
    scene={"logs_replaced": True},
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
    s.run()
    if len(set(ids)) != 2 or s.committed():
        raise NotFired(f"topic ids {ids}, the group is at {s.committed()}")
    run = s.start("fault_batch_once")
    s.refused(run, "resolve", "TopicRecreated", 'policies={"topic_recreated": "earliest"}')
    s.run(orders={"policies": {"topic_recreated": "earliest"}})
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
    with when_file(s.store, FIRST_PLAN, add) as seen:
        s.run()
    if len(s.numbers()) != 200:
        raise PromiseBroken("the run read more than its plan")
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
    "group with a live consumer before Spark works",
    ends="refused",
    made="a consumer has the group's partitions when a pipeline has its first run",
    cause="GroupActive",
    remedy="stop the consumer, clear the resolve task",
)
def joined_before_the_run(s: Scene) -> str:
    s.produce()
    consumer = _consumer(s)
    try:
        _joins(s, consumer)()
        run = s.start("fault_batch_once")
        s.refused(run, "resolve", "GroupActive", "Stop that consumer")
    finally:
        consumer.close()
    if s.rows():
        raise PromiseBroken(f"Spark has worked: {s.rows()}")
    run.clear("resolve").wait()
    return "a consumer was a member of the group, and no Spark job was started"


@row(
    "Kafka",
    "group joined by a live consumer right before the write",
    ends="healed",
    made="a consumer subscribes and gets its partitions when the write to the group comes: the broker refuses that. "
    "The run publishes its asset event; the next one lets the group follow",
)
def joined_before_the_write(s: Scene) -> str:
    s.produce()
    consumer = _consumer(s)
    rule = s.arm("a consumer joined", moments.MIRROR_WRITES, kafka_proxy.before(_joins(s, consumer)))
    try:
        run = s.run("fault_batch_once")
        if s.committed():
            raise NotFired(f"the group has followed: {s.committed()}")
    finally:
        consumer.close()
    after = s.run("fault_batch_once")  # nothing has come since: it lets the group follow
    published = s.airflow.asset_events("fault-orders", run.run_id), s.airflow.asset_events("fault-orders", after.run_id)
    if [[event["batch"] for event in events] for events in published] != [[run.batch], []]:
        raise PromiseBroken(f"the asset events of {run.batch}, and of a run without records: {published}")
    return f"{rule.proof()}; one asset event, of {run.batch}"


def _set_by_hand(s: Scene, offsets: dict[int, int]) -> None:
    """What kafka-consumer-groups --reset-offsets does."""
    admin = s.broker.admin()
    request = ConsumerGroupTopicPartitions(s.group, [TopicPartition(s.topic, p, o) for p, o in offsets.items()])
    for future in admin.alter_consumer_group_offsets([request]).values():
        bad = [tp.error for tp in future.result(30).topic_partitions if tp.error]
        if bad:
            raise NotFired(f"the reset was refused: {bad}")
    s.by_hand |= set(offsets.items())


@row(
    "Kafka",
    "group reset by a person before the commit",
    ends="refused",
    made="a partition is set back to 10 by an admin client when the commit task sends its first request",
    cause="GroupMoved",
    remedy='the next run, with policies={"group_moved": "keep-checkpoint"} in its conf: it does the batch again',
)
def reset_before_the_commit(s: Scene) -> str:
    s.produce()
    s.run()
    s.produce(50)
    rule = s.arm("the group was reset", moments.COMMIT_FIRST, kafka_proxy.before(lambda: _set_by_hand(s, {0: 10})))
    run = s.start("fault_batch_once")
    rule.wait(DEADLINE_S)
    s.refused(run, "commit", "GroupMoved", "the group is at 10", "group_moved")
    if len(s.objects(f"{BATCHES}/2.json")) != 1:
        raise PromiseBroken("the batch was committed in the log")
    s.run(orders={"policies": {"group_moved": "keep-checkpoint"}})
    return rule.proof()


@row(
    "Kafka",
    "group reset by a person between commit and the write to the group",
    ends="refused",
    made="a partition is set back to 10 by an admin client when the log has the commit, and the group is looked at",
    cause="GroupMoved",
    remedy='the next run, with policies={"group_moved": "keep-checkpoint"} in its conf',
)
def reset_between_commit_and_mirror(s: Scene) -> str:
    s.produce()
    rule = s.arm("the group was reset", moments.MIRROR_LOOKS, kafka_proxy.before(lambda: _set_by_hand(s, {0: 10})))
    run = s.start("fault_batch_once")
    rule.wait(DEADLINE_S)
    said = "The batch is committed in the log; only the group was left as it is"
    s.refused(run, "commit", "GroupMoved", said, "keep-checkpoint")
    s.produce(30)
    stays = s.start("fault_batch_once")
    s.refused(stays, "resolve", "GroupMoved")
    s.run(orders={"policies": {"group_moved": "keep-checkpoint"}})
    return f"{rule.proof()}; the group stayed at 10 until a run was told what counts"


@row(
    "Kafka",
    "group reset by a person between look and write",
    ends="healed",
    made="a partition is set back to 10 by an admin client when the write to the group comes: Kafka has no "
    "compare-and-set, and the reset is overwritten",
)
def reset_between_look_and_write(s: Scene) -> str:
    s.produce()
    s.run()
    s.produce(50)
    rule = s.arm("the group was reset", moments.MIRROR_WRITES, kafka_proxy.before(lambda: _set_by_hand(s, {0: 10})))
    s.run()
    return rule.proof()


@row(
    "Kafka",
    "cluster replaced by an empty one",
    ends="refused",
    made="the broker is killed, its data removed, and another cluster formatted at the same address; a topic of the "
    "same name gets other records",
    cause="ClusterChanged",
    remedy='a run with policies={"cluster_changed": "earliest"} in its conf',
    scene={"logs_replaced": True},
)
def cluster_replaced(s: Scene) -> str:
    s.produce()
    s.run()
    was = s.broker.cluster_id
    s.broker.kill()
    shutil.rmtree(s.broker.data_dir / "data")
    s.broker.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    s.broker.start()
    s.broker.create_topic(s.topic, s.partitions)
    s.produce(60)
    run = s.start("fault_batch_once")
    s.refused(run, "resolve", "ClusterChanged", was, 'policies={"cluster_changed": "earliest"}')
    s.run(orders={"policies": {"cluster_changed": "earliest"}})
    return "a group without offsets, and a topic with 60 records where there had been 200"


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
    producer = Producer({**s.broker.client_config, "transactional.id": s.topic}, logger=quiet)
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(40):
        producer.produce(s.topic, b"%d" % (s.produced + number), partition=number % 2)
    producer.flush(30)
    open_end = {p: high for p, (_, high) in s.broker.offset_bounds(s.topic).items()}
    s.run(orders={"isolation_level": "read_committed"})
    stable = s.committed()
    if not all(stable[p] < open_end[p] for p in open_end) or len(s.numbers()) != 200:
        raise NotFired(f"the log ended at {open_end}, and {stable} were committed")
    producer.commit_transaction(30)
    s.produced += 40
    s.run(orders={"isolation_level": "read_committed"})
    return f"the log ended at {sorted(open_end.values())}; the run at {sorted(stable.values())}"


_ANY_TIME = {"topic_config": {"message.timestamp.after.max.ms": str(2**63 - 1)}}  # as Kafka before 4.0 takes it


@row(
    "Kafka",
    "one record with a time in the future",
    ends="refused",
    made="record 6 of 40 has microseconds for milliseconds; a window that ends behind it; then a run from the "
    "position to now, before the last 20 come, and one after",
    cause="has a time in the future",
    remedy='read by position: `startup_mode="group-offsets"`, `bounded_mode="timestamp"`',
    scene=_ANY_TIME,
)
def a_time_in_the_future(s: Scene) -> str:
    begin = int(time.time() * 1000) - 3_600_000

    def microseconds(number: int) -> int:
        return begin * 1000 if number == 6 else begin + number * 60_000

    s.produce(20, timestamp_ms=microseconds)
    window = s.start("fault_window", since=str(begin), until=str(begin + 1_200_000))
    s.refused(window, "resolve", "has a time in the future", f"{s.topic}[0]: the record at offset 3", str(begin * 1000))
    first = s.run("fault_until")
    s.produce(20, timestamp_ms=lambda number: begin + (20 + number) * 60_000)
    s.run("fault_until")
    said = first.log(first.task("resolve").task_id, 1)
    if "this plan goes on to the end of the log" not in said:
        raise PromiseBroken(f"no warning of it in the log:\n{said[-4000:]}")
    if sorted(s.rows().values()) != [20, 20]:
        raise PromiseBroken(f"the output is {s.rows()}")
    return f"its time is {begin * 1000} ms; two runs by position read 20 records each"


@row(
    "Kafka",
    "topic added to a DAG of windows, the past done again, and retention",
    ends="refused",
    made="a window of 60 records is committed; a topic with 40 of that time is added and the window done again, "
    "and with re_plan; DeleteRecords takes 5 of the first topic, and re_plan comes once more",
    cause="(5 offsets are gone)",
    remedy="leave out `re_plan`: the rows that are written stay",
)
def topic_added_to_windows(s: Scene) -> str:
    begin, added, output = int(time.time() * 1000) - 7_200_000, f"{s.topic}-added", s.folder / "windows"
    s.produce(60, timestamp_ms=lambda number: begin + number * 1000)
    s.run()  # the log, into an output of its own: the promise is held there too
    conf = {"since": str(begin), "until": str(begin + 3_600_000), "output": str(output)}
    s.run("fault_window", **conf)
    s.broker.create_topic(added, 1)
    s.broker.produce_many(added, 40, timestamp_ms=lambda number: begin + number * 1000)
    conf["topic"] = f"{s.topic},{added}"
    again = s.run("fault_window", **conf)
    said = again.log(again.task("resolve").task_id, 1)
    status, listed = s.command("show", "--windows")
    if f"{added}[0] 40. " not in said or "warning: 1 of them lack" not in listed:
        raise PromiseBroken(f"nobody is told of the 40 records: {status}, {listed}\n{said[-4000:]}")
    before = rows_by_batch(output)
    s.run("fault_window", orders={"re_plan": True}, **conf)
    after = rows_by_batch(output)
    if (list(before.values()), list(after.values())) != ([60], [100]):
        raise PromiseBroken(f"the window holds {before}, and planned anew {after}")
    s.broker.delete_records({(s.topic, 0): 5})
    once_more = s.start("fault_window", orders={"re_plan": True}, **conf)
    s.refused(once_more, "resolve", "(5 offsets are gone)", "Leave out re_plan to keep the rows that are written")
    if rows_by_batch(output) != after:
        raise PromiseBroken(f"the window holds {rows_by_batch(output)} now")
    return "40 records were warned of and read by re_plan; a re_plan after retention left all 100 rows"
