"""What happens to records, topics, clusters, the group, the tables and the checkpoint location."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.log.clean import clean as clean_log
from airflow_kafka_offsets.log.entries import Plan
from airflow_kafka_offsets.plan.body import Offsets
from tests.model.deployment import Pipeline, batches_in
from tests.model.driver import Row
from tests.model.stepping import T0, UNIT_MS, Program, SteppingStore, epoch_of

if TYPE_CHECKING:
    from tests.model.world import World

FOREVER_MS = 10**18


# ── records ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def produce_some(world: World) -> None:
    staging = world.clusters["Z"]
    if world.rnd.random() < 0.3:
        _append(world, staging, TopicPartition("orders", 0), T0 + world.clock * UNIT_MS, None)
    if not world.partitions:
        return
    tp, late = world.rnd.choice(world.partitions), world.rnd.choice((0, 0, 0, 3, 15, 40))
    times = [max(0, world.clock - world.rnd.randint(0, late)) for _ in range(world.rnd.randint(1, 3))]
    produce(world, tp, *(world.clock + 9999 if world.rnd.random() < 0.004 else time for time in times))


def produce(world: World, tp: TopicPartition, *times: int) -> None:
    transaction, rows = None, list[Row]()
    if "transactions" in world.on and not world.is_ending and world.rnd.random() < 0.4:
        transaction = world.kafka.begin_transaction()
    for time in times:
        rows.append(_append(world, world.kafka, tp, T0 + time * UNIT_MS, transaction))
    if "poison" in world.on and world.tables.poison is None and world.rnd.random() < 0.04 and not world.is_ending:
        world.tables.poison = rows[-1].place
    if "bad" in world.on and world.rnd.random() < 0.1:
        world.tables.decoded_from[rows[-1].place] = world.job_number + 1
    if transaction is not None:
        world.open.append((transaction, rows))


def _append(world: World, kafka: Any, tp: TopicPartition, time_ms: int, transaction: Any) -> Row:
    (offset,) = (transaction or kafka).produce(tp, [time_ms])
    row = Row(world.origins[kafka.topics[tp.topic].topic_id], tp, offset, epoch_of(kafka.log_of(tp), offset))
    world.records[row] = (time_ms - T0) // UNIT_MS
    return row


def end_transaction(world: World) -> None:
    if not world.open:
        return
    transaction, rows = world.open.pop(0)
    is_there = all(world.origin(row.partition) == row.origin and row not in world.destroyed for row in rows)
    world.kafka.now_ms = T0 + world.clock * UNIT_MS
    is_aborted = world.rnd.random() < 0.3
    if is_there:
        (transaction.abort if is_aborted else transaction.commit)()
    if is_aborted or not is_there:
        world.hidden |= set(rows)


def expire(world: World) -> None:
    if not world.partitions:
        return
    tp = world.rnd.choice(world.partitions)
    log = world.kafka.log_of(tp)
    end = log.end("read_committed")
    low = max(log.log_start_offset, end - 20)
    if low <= end:
        world.kafka.delete_records(tp, world.rnd.randint(low, end))


def compact(world: World) -> None:
    if not world.partitions:
        return
    tp = world.rnd.choice(world.partitions)
    log = world.kafka.log_of(tp)
    closed = [e for e in log.entries[:-1] if e.offset < log.end("read_committed") and not e.control]
    if closed:
        entry = world.rnd.choice(closed)
        log.entries.remove(entry)
        world.compacted.add(row_at(world, tp, entry.offset))


def row_at(world: World, tp: TopicPartition, offset: int) -> Row:
    return Row(str(world.origin(tp)), tp, offset, epoch_of(world.kafka.log_of(tp), offset))


# ── topics and clusters ───────────────────────────────────────────────────────────────────────────────────────────────


def add_topic(world: World) -> None:
    if len(world.kafka.topics) < 4 and _is_at_home(world):
        name = next(name for name in ("orders", "returns", "refunds", "labels") if name not in world.kafka.topics)
        world.new_topic(name, 1)


def add_partition(world: World) -> None:
    if "orders" in world.kafka.topics and len(world.kafka.topics["orders"].logs) < 4 and _is_at_home(world):
        world.kafka.add_partitions("orders", 1)


def _is_at_home(world: World) -> bool:
    """The pipeline has seen the cluster: what changes before a migration is named can be noticed by nobody."""
    identities = world.identities()
    return bool(identities) and identities[-1].cluster_id == world.true_conn


def end_topic(world: World) -> None:
    """A topic vanishes, or is re-created."""
    if len(world.kafka.topics) < 2 or not _is_at_home(world):
        return
    name = world.rnd.choice(sorted(world.kafka.topics))
    partitions = len(world.kafka.topics[name].logs)
    delete_topic(world, name)
    if world.rnd.random() < 0.5:
        world.new_topic(name, partitions)


def delete_topic(world: World, name: str) -> None:
    world.counts["ended topic"] += 1
    for _, rows in world.open:
        if any(row.partition.topic == name for row in rows):
            world.hidden |= set(rows)
    world.open = [(t, rows) for t, rows in world.open if not any(row.partition.topic == name for row in rows)]
    world.kafka.delete_topic(name)


def change_leader(world: World) -> None:
    """Elections, and unclean ones, after which the log is truncated."""
    if not world.partitions:
        return
    tp = world.rnd.choice(world.partitions)
    log = world.kafka.log_of(tp)
    if world.rnd.random() < 0.4 or log.open:
        world.kafka.elect(tp)
    else:
        truncate(world, tp, world.rnd.randint(max(log.log_start_offset, log.high_watermark - 6), log.high_watermark))


def truncate(world: World, tp: TopicPartition, end: int) -> None:
    world.counts["truncated log"] += 1
    log = world.kafka.log_of(tp)
    world.destroyed |= {row_at(world, tp, o) for o in range(end, log.high_watermark)}
    world.truncated.add(tp)
    world.kafka.truncate(tp, end)


def migrate(world: World) -> None:
    """The cluster is replaced: the same records at the same offsets, in topics with other ids."""
    if world.true_conn != "X" or not _is_at_home(world):
        return
    world.counts["migrated"] += 1
    while world.open:
        end_transaction(world)
    old, new = world.kafka, world.add_cluster("Y")
    for name, topic in old.topics.items():
        new.create_topic(name, len(topic.logs))
        new.topics[name].logs = {
            p: replace(log, entries=[*log.entries], epochs=dict(log.epochs)) for p, log in topic.logs.items()
        }
        world.origins[new.topics[name].topic_id] = world.origins[topic.topic_id]
    new.groups = {group: dict(offsets) for group, offsets in old.groups.items()}
    new.members = {group: [*members] for group, members in old.members.items()}
    world.true_conn = world.conn = "Y"


def take_staging(world: World) -> None:
    """The connection leads to staging by mistake, and back."""
    if world.identities():
        world.conn = world.rnd.choice(("Z", world.true_conn))
        world.counts["staging"] += world.conn == "Z"


# ── the group ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def move_group(world: World) -> None:
    held = world.kafka.groups.get("g", {})
    if held and world.identities():
        tp = world.rnd.choice(sorted(held))
        world.group_moves += 1
        moved = CommittedOffset(max(0, held[tp].offset - world.rnd.randint(0, 9)))
        world.kafka.commit_as_somebody_else("g", {tp: moved})


def forget_group(world: World) -> None:
    if world.identities():
        world.kafka.expire("g")


def change_members(world: World) -> None:
    world.kafka.members["g"] = [] if world.kafka.members.get("g") else ["a consumer"]


# ── the job, its output, and what is deployed ─────────────────────────────────────────────────────────────────────────


def correct(world: World) -> None:
    world.job_number += 1


def move_output(world: World) -> None:
    if world.true_output and world.identities():
        world.true_output = world.req_output = "B" if world.true_output == "A" else "A"
        world.job_number += 1
        world.counts["moved output"] += 1


def mistype_output(world: World) -> None:
    if world.true_output and world.identities():
        world.req_output = world.rnd.choice(("C", world.true_output))


def mistake_shards(world: World) -> None:
    if world.identities() and world.kind == "sequence":
        world.req_shards = world.rnd.choice((1, 2, 3, world.pipeline.shards))


def make_big(world: World) -> None:
    world.tables.limit, world.cap = 13, world.rnd.choice((None, 3, 3))


def roll_back(world: World) -> None:
    """The table is rolled back to an earlier version, or dropped."""
    output = world.identities()[-1].output if world.identities() else None
    if output is None or not world.tables.rows[output]:
        return
    now, is_dropped = world.tables.rows[output], world.rnd.random() < 0.3
    then = {} if is_dropped else world.rnd.choice(world.tables.versions[output])
    if any(now[key] != rows for key, rows in then.items() if key in now) or then.keys() - now.keys():
        return  # rows of an earlier attempt of a key: not noticed, as STATE.md says
    world.counts["rolled back"] += 1
    batches = [batch for pipeline in world.pipelines for batch in world.batches(pipeline)]
    known = {batch.plan.key for batch in batches}
    world.looked_before |= {batch.plan.key for batch in batches if batch.is_committed}
    for key in now.keys() - then.keys() - known:  # of a log that was lost: nothing looks for it
        world.spoilt |= {row.place for row in now[key]}
    world.tables.rows[output] = dict(then)
    if is_dropped:
        world.tables.owners.pop(output, None)


# ── the log ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def clean(world: World) -> None:
    for log in world.pipeline.logs(world.pipeline.store):
        world.programs.append(Program("clean", lambda log=log: clean_log(log, FOREVER_MS, execute=True)))


def copy_log(world: World) -> None:
    world.copies.append(dict(world.pipeline.store.objects))


def lose_log(world: World) -> None:
    """The checkpoint location is empty, or an older copy."""
    if not world.identities():
        return
    kill_all(world)
    copies = [copy for copy in world.copies if f"{world.pipeline.name}/pipeline/1.json" in copy]
    replace_log(world, world.rnd.choice(copies) if copies and world.rnd.random() < 0.6 else None)


def kill_all(world: World) -> None:
    """Tasks end, Spark jobs first, which end well or badly."""
    for program in [p for p in world.programs if p.task != "spark"]:
        world.crash(program)
    world.run_all()
    for run in world.runs.values():
        run.task = "done" if run.task == "done" else "resolve"
    world.alive.clear()


def replace_log(world: World, copy: dict[str, bytes] | None) -> None:
    world.counts["lost log" if copy is None else "older log"] += 1
    in_tables = {row.place for keys in world.tables.rows.values() for rows in keys.values() for row in rows}
    world.spoilt |= world.deleted - in_tables  # a person has made way for an act that is never carried out
    pipeline, then = world.pipeline, {}
    for log in pipeline.logs():
        for batch in batches_in(log):
            then[batch.plan.key] = batch
            is_settled = batch.is_closed and (batch.is_cleaned or world.is_verified(log, batch))
            is_missing = world.has_reports and batch.plan.key not in world.tables.rows[str(batch.output)]
            if not is_settled or is_missing:
                _tear(world, batch.plan)
            else:
                world.settled[batch.plan.key] = batch.plan
    world.lost.append((pipeline, dict(pipeline.store.objects)))
    pipeline.store.objects.clear()
    pipeline.store.objects.update(copy or {})
    for log in pipeline.logs():
        for batch in batches_in(log):
            old = then.get(batch.plan.key)
            if old is not None and old.plan.plan_id != batch.plan.plan_id:
                _tear(world, old.plan)
                _tear(world, batch.plan)
    world.known = set()  # of what the copy does not know, nobody knows how far the log was
    for offsets in _positions(world):
        world.known |= {(world.origins.get(str(at.topic_id), ""), tp) for tp, at in offsets.items()}
    world.losses += 1
    world.copies.clear()
    world.conn, world.req_output, world.req_shards = world.true_conn, world.true_output, pipeline.shards
    world.windows_done.clear()
    world.deletes = world.rnd.random() < 0.5
    if world.rnd.random() < 0.2 and "outputs" not in world.on:
        pipeline.memory.clear()  # Airflow's database was cleaned


def _positions(world: World) -> Iterator[Offsets]:
    log = world.pipeline.logs()[0]
    if (first := log.identity(1) if world.identities() else None) is not None:
        yield log.identity_body(first).first
    for log in world.pipeline.logs():
        yield from (world.body_of(plan).resume_from for batch in batches_in(log) for plan in batch.plans)


def _tear(world: World, plan: Plan) -> None:
    """Half of its rows may be in the table, or those of another plan, in place of rows that an earlier log has
    committed; an older log cannot tell."""
    world.torn.add(plan.key)
    world.spoilt |= world.places_of(plan) | world.places_of(world.settled.get(plan.key, plan))


# ── another environment ───────────────────────────────────────────────────────────────────────────────────────────────


def deploy_copy(world: World) -> None:
    """The DAG is copied into another environment, with its own checkpoint location, and the same cluster and table."""
    if world.true_output is None or world.true_output not in world.tables.owners:
        return
    if world.copied is None:
        store = SteppingStore(lambda name, data: None)
        world.copied = Pipeline(world.pipeline.name, store, world.pipeline.shards, "earliest")
    world.counts["runs of another environment"] += 1
    for run in world.new_run(f"e{world.counts['runs of another environment']}", pipeline=world.copied):
        world.start(run)
