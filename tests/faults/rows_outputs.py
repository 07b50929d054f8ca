"""What a batch has written already, when its output changes or its records go: all of it is known to be wrong."""

from testbed.kafka_proxy import NotFired
from tests.faults.rows import row
from tests.faults.scene import PromiseBroken, Run, Scene, begun, report

PUT_BACK = "put it back until this batch is committed"
MENDED = "mended by holding a batch to its output"


def _in_two_outputs(s: Scene, *runs: Run) -> str:
    """What a reader of each output finds, and of both."""
    here, there, values = s.table(s.output).num_rows, s.table(s.another_output).num_rows, s.numbers()
    found = f"one output has {here} rows, the other {there}: {len(values)} rows of {len(set(values))} records"
    said = sum("nothing is lost or skipped" in run.log("orders.commit", run.task("commit").tries) for run in runs)
    return f"green runs: {len(runs)}, and those that say that nothing is lost or skipped: {said}; {found}"


def _rejected(s: Scene) -> Run:
    """A run that has written its batch, and whose check has failed."""
    s.produce()
    run = s.start("fault_batch_checked", reject=True).wait("failed")
    if s.rows() != {run.batch: 200} or s.table(s.output).num_rows != 200 or s.committed():
        raise NotFired(f"the failed run wrote {s.rows()} and committed {s.committed()}")
    return run


@row(
    "Airflow",
    "a rejected batch planned anew after the DAG's path was changed",
    ends="refused",
    made="a check fails after the write; the DAG's path becomes another one; more records arrive; the next run has "
    "`re_plan` in its conf",
    cause="InvalidRequest",
    remedy="put the path back until the batch is committed",
    known_wrong=f"the run is green and writes into the other output, and the rows of the batch stay in the first one, "
    f"so that a reader of both finds them twice; {MENDED}",
    shows="one output has 200 rows, the other 260: 460 rows of 260 records",
)
def planned_anew_elsewhere(s: Scene) -> str:
    first = _rejected(s)
    s.produce(60)
    run = s.start("fault_batch_checked", output=str(s.another_output), orders={"re_plan": True})
    if run.ended() == "success":
        raise PromiseBroken(f"batch {run.batch[:10]} was rejected; {_in_two_outputs(s, run)}")
    s.refused(run, "resolve", "InvalidRequest", PUT_BACK)
    s.run("fault_batch_checked", orders={"re_plan": True})
    return f"{first.batch} had 200 records in the first output"


@row(
    "Spark",
    "output of a plain function changed between a failed attempt and the next run",
    ends="refused",
    made="a job whose write is a plain function; a check fails after the write; `output=` and the job's path become "
    "another one; the next run",
    cause="InvalidRequest",
    remedy="put the path back until the batch is committed",
    known_wrong=f"only a sink is held to its output: the run is green and both outputs have the whole batch; {MENDED}",
    shows="one output has 200 rows, the other 200: 400 rows of 200 records",
)
def function_writes_elsewhere(s: Scene) -> str:
    s.deploy("plain_function.py")
    first = _rejected(s)
    run = s.start("fault_batch_checked", output=str(s.another_output))
    if run.ended() == "success":
        raise PromiseBroken(f"batch {run.batch[:10]} was rejected; {_in_two_outputs(s, run)}")
    s.refused(run, "resolve", "InvalidRequest", PUT_BACK)
    s.run("fault_batch_checked")
    return f"{first.batch} had 200 records in the first output"


@row(
    "Airflow",
    "a DAG copied with its pipeline_id and another path",
    ends="refused",
    made="a run of the DAG, one of its copy, which has the same `pipeline_id` and another path, and one of the DAG, "
    "with new records for each",
    cause="InvalidRequest",
    remedy="give the copy the path of the DAG, or a pipeline of its own",
    known_wrong=f"each run is green, and each output has a part of the pipeline's records; {MENDED}",
    shows="green runs: 3, and those that say that nothing is lost or skipped: 3; "
    "one output has 250 rows, the other 60: 310 rows of 310 records",
)
def copied_dag(s: Scene) -> str:
    s.produce()
    first = s.run()
    s.produce(60)
    copy = s.start("fault_batch_once", output=str(s.another_output))
    if copy.ended() == "success":
        s.produce(50)
        raise PromiseBroken(_in_two_outputs(s, first, copy, s.run()))
    s.refused(copy, "resolve", "InvalidRequest", s.group)
    s.run()
    return f"the copy's run {copy.run_id} had another path"


@row(
    "Kafka",
    "the records of a verified split deleted before the batch is finished",
    ends="healed",
    made="a batch of two splits, of which split 1 fails; DeleteRecords of all that split 0 has written and verified; "
    "the next run",
    known_wrong="verified splits need their records, too: `DataLoss` refuses a batch that could be finished; mended by "
    "asking for the records of the other splits only",
    shows="DataLoss refuses the batch: 100 offsets are gone, all of them in the output, which has 100 rows of 200",
)
def verified_and_deleted(s: Scene) -> str:
    s.produce()
    s.deploy("fails_in_split_1.py")
    s.start("fault_batch_once", splits=2).wait("failed")
    written = s.table().select(["partition", "offset"]).to_pylist()
    partitions = {one["partition"] for one in written}
    if len(written) != 100 or len(partitions) != 1 or len(s.objects(report(0))) != 1 or s.objects(report(1)):
        raise NotFired(f"{s.rows()}, partitions {partitions}, {s.objects(report(0))}, {s.objects(report(1))}")
    s.broker.delete_records({(s.topic, *partitions): 100})
    s.deploy_real()
    run = s.start("fault_batch_once", splits=2)
    if run.ended() != "success":
        s.refused(run, "resolve", "DataLoss", "100 offsets are gone")
        raise PromiseBroken(
            "DataLoss refuses the batch: 100 offsets are gone, all of them in the output, which has "
            f"{s.table().num_rows} rows of {s.produced}"
        )
    if s.objects(begun(0, 2)):
        raise PromiseBroken("split 0 was read twice")
    return "Kafka had none of the 100 records of split 0, which was verified, and split 1 had failed"
