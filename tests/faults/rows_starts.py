"""Starts and ends that somebody says: a partition that is held, a plan in a file, the checkpoint of a query."""

import os
import subprocess
import sys

from testbed import kafka_answers, kafka_proxy
from testbed.checks import rows_by_batch
from testbed.kafka_proxy import METADATA, Moment, NotFired
from tests.faults import moments
from tests.faults.rows import row
from tests.faults.scene import DEADLINE_S, HERE, PromiseBroken, Scene, finished_task
from tests.faults.spying import driver, task_process, when_file

ALWAYS = 1_000_000


@row(
    "Kafka",
    "partition without a leader, which an unfinished batch reads",
    ends="refused",
    made="a run plans both partitions and fails in Spark; then resolve is told that nobody leads one of them, in two "
    "runs with `unavailable: hold`, too, of which the first plans that batch anew; then it has its leader again",
    cause="ClusterUnavailable",
    remedy='policies={"unavailable": "hold"}, which reads the others; the next run reads the partition, too',
)
def held_without_a_leader(s: Scene) -> str:
    s.produce(40)
    s.run()
    s.produce(60)
    s.deploy("fails.py")
    first = s.start("fault_batch_once").wait("failed")
    s.deploy_real()
    gone = kafka_proxy.changed(kafka_answers.without_leader(s.topic, 1))
    rule = s.arm("nobody leads partition 1", Moment(moments.RESOLVE, METADATA), gone, times=ALWAYS)
    s.refused(s.start("fault_batch_once"), "resolve", "ClusterUnavailable", f"{s.topic}[1]", "has no leader")
    hold = {"policies": {"unavailable": "hold"}}
    second = s.run(orders=hold)
    s.produce(100)
    third = s.run(orders=hold)
    if (first.batch, s.committed()) != (second.batch, {0: 100, 1: 20}):
        raise PromiseBroken(f"{second.batch} was done, not {first.batch}; the group is at {s.committed()}")
    proof = rule.proof()
    s.proxy.disarm()
    last = s.run()
    by_run = [s.rows().get(run.batch) for run in (second, third, last)]
    if by_run != [30, 50, 80]:
        raise NotFired(f"the runs read {by_run}")
    return f"{proof}; the runs beside it read 30 and 50 records, the next one 80"


@row(
    "Kafka",
    "partition held by a person, and retention takes records of it",
    ends="refused",
    made="`hold` in the conf of a run, whose driver is killed in its write; DeleteRecords of the held partition's next "
    "20 offsets; that run is cleared; then a run without the word",
    cause="DataLoss",
    remedy='a run with policies={"data_loss": "advance"} in its conf: it counts 20 lost',
)
def held_by_a_person(s: Scene) -> str:
    s.produce(40)
    s.run()
    s.produce(100)
    with when_file(s.output, finished_task(), lambda _: driver(s).kill()) as seen:
        held = s.run(orders={"hold": [f"{s.topic}-1"]})
    tries = held.task("spark").tries
    s.broker.delete_records({(s.topic, 1): 40})
    held.clear_whole().wait()
    if tries < 2 or s.rows()[held.batch] != 50 or s.committed() != {0: 70, 1: 20}:
        raise NotFired(f"{tries} tries; {s.rows()}; the group is at {s.committed()}")
    s.refused(s.start("fault_batch_once"), "resolve", "DataLoss", "20 offsets are gone")
    s.gone = set(range(41, 81, 2))  # partition 1 has the odd ones
    after = s.run(orders={"policies": {"data_loss": "advance"}})
    if "up to 20 records are lost" not in after.log("orders.resolve", 1):
        raise PromiseBroken(f"resolve does not count 20 lost: {after.log('orders.resolve', 1)[-2000:]}")
    return f"{seen.proof()}, the driver was killed; cleared after retention the run held the partition again"


@row(
    "Airflow",
    "plan given as a file that is replaced between two tries",
    ends="refused",
    made="SIGKILL of the task's process when the plan of a run with `from_plan` is stored; in place of its file lies a "
    "later plan, with more records, before the retry",
    cause="WindowOverlaps",
    remedy="put the file back, clear the resolve task",
)
def plan_file_replaced(s: Scene) -> str:
    def plan() -> str:
        where = ("--bootstrap-servers", s.broker.bootstrap_servers, "--topics", s.topic, "--group-id", s.group)
        status, said = s.without_pipeline("plan", *where, "--startup-mode", "earliest-offset", "--output", "json")
        if status:
            raise NotFired(f"kafka-offsets plan says {status}: {said}")
        return said

    def kill_and_replace(_: object) -> None:
        task_process(s, "resolve").kill()
        s.produce(60)
        file.write_text(plan())

    file, windows = s.folder / "plan.json", s.folder / "windows"
    s.produce()
    file.write_text(looked_at := plan())
    with when_file(s.store, "pipelines/*/windows/*/1.json", kill_and_replace) as seen:
        run = s.start("fault_given_plan", plan=str(file), output=str(windows))
        s.refused(run, "resolve", "WindowOverlaps")
    file.write_text(looked_at)
    run.clear("resolve").wait()
    if list(rows_by_batch(windows).values()) != [200] or s.committed():
        raise PromiseBroken(f"the windows have {rows_by_batch(windows)}; the group is at {s.committed()}")
    s.run()
    return f"{seen.proof()}, the task was killed and its file replaced; the run read the 200 records of the first plan"


@row(
    "Spark",
    "streaming query's checkpoint as the start, and the run cleared",
    ends="healed",
    made="a Structured Streaming query reads 120 records and ends, and 80 more come; of the run that goes on from its "
    "checkpoint the driver is killed in its write; more records come, and the run is cleared after its success",
)
def started_at_a_checkpoint(s: Scene) -> str:
    checkpoint = s.folder / "checkpoint"
    s.produce(120)
    query = [sys.executable, str(HERE / "jobs" / "streams.py"), "--bootstrap-servers", s.broker.bootstrap_servers]
    query += ["--topic", s.topic, "--checkpoint", str(checkpoint), "--output", str(s.another_output)]
    environment = {**os.environ, **s.ground.environment}
    ended = subprocess.run(query, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if ended.returncode or s.rows() != {"of the query": 120}:
        raise NotFired(f"the query ended with {ended.returncode}, and wrote {s.rows()}: {ended.stderr[-2000:]}")
    s.produce(80)
    with when_file(s.output, finished_task(), lambda _: driver(s).kill()) as seen:
        run = s.run("fault_from_checkpoint", checkpoint=str(checkpoint))
    tries = run.task("spark").tries
    s.produce(50)
    run.clear_whole().wait()
    if tries < 2 or s.rows() != {"of the query": 120, run.batch: 80}:
        raise NotFired(f"{tries} tries; {s.rows()}")
    s.run("fault_from_checkpoint", checkpoint=str(checkpoint))
    return f"{seen.proof()}, the driver was killed; the query had read 120 records, and the run 80, also when cleared"
