"""What a batch has written already, when its output changes or its records go."""

from testbed.kafka_proxy import NotFired
from tests.faults.rows import row
from tests.faults.scene import PromiseBroken, Run, Scene, begun, report

DAG, COPY = "fault_path", "fault_path_copied"  # their paths are no templates
PUT_BACK = "put it back until this batch is committed"


def _rejected(s: Scene) -> Run:
    """A run that has written its batch, and whose check has failed."""
    s.produce()
    s.write_into_dag(DAG, s.output)
    run = s.start(DAG, reject=True).wait("failed")
    if s.rows() != {run.batch: 200} or s.table(s.output).num_rows != 200 or s.committed():
        raise NotFired(f"the failed run wrote {s.rows()} and committed {s.committed()}")
    return run


def _refused_then_put_back(s: Scene, **orders: bool) -> str:
    """A run after the DAG's path was changed is refused; with the path put back, the batch is finished."""
    s.write_into_dag(DAG, s.another_output)
    s.refused(s.start(DAG, orders=orders), "resolve", "InvalidRequest", PUT_BACK)
    refusing = f"the run with the other path wrote {s.table(s.another_output).num_rows} rows there"
    s.write_into_dag(DAG, s.output)
    s.run(DAG, orders=orders)
    return refusing


@row(
    "Airflow",
    "a rejected batch planned anew after the DAG's path was changed",
    ends="refused",
    made="a check fails after the write; the DAG's path becomes another one; more records arrive; the next run has "
    "`re_plan` in its conf",
    cause="InvalidRequest",
    remedy="put the path back until the batch is committed",
)
def planned_anew_elsewhere(s: Scene) -> str:
    first = _rejected(s)
    s.produce(60)
    return f"{first.batch} had 200 records in the first output; {_refused_then_put_back(s, re_plan=True)}"


@row(
    "Spark",
    "output of a plain function changed between a failed attempt and the next run",
    ends="refused",
    made="a job whose write is a plain function; a check fails after the write; `output=` and the job's path become "
    "another one; the next run",
    cause="InvalidRequest",
    remedy="put the path back until the batch is committed",
)
def function_writes_elsewhere(s: Scene) -> str:
    s.deploy("plain_function.py")
    first = _rejected(s)
    return f"{first.batch} had 200 records in the first output; {_refused_then_put_back(s)}"


@row(
    "Airflow",
    "a DAG copied with its pipeline_id and another path",
    ends="refused",
    made="a run of the DAG, one of its copy, which has the same `pipeline_id` and another path, and one of the DAG, "
    "with new records for each",
    cause="InvalidRequest",
    remedy="give the copy the path of the DAG, or a pipeline of its own",
)
def copied_dag(s: Scene) -> str:
    s.produce()
    s.write_into_dag(DAG, s.output)
    s.run(DAG)
    s.produce(60)
    s.write_into_dag(COPY, s.another_output)
    copy = s.start(COPY)
    s.refused(copy, "resolve", "InvalidRequest", s.group, "Give the copy a pipeline_id of its own, or the same output")
    s.produce(50)
    s.run(DAG)
    refusing = s.table(s.another_output).num_rows
    s.write_into_dag(COPY, s.output)
    s.produce(40)
    s.run(COPY)
    return f"the copy's run {copy.run_id} had another path, and wrote {refusing} rows there"


@row(
    "Kafka",
    "the records of a verified split deleted before the batch is finished",
    ends="healed",
    made="a batch of two splits, of which split 1 fails; DeleteRecords of all that split 0 has written and verified; "
    "the next run",
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
    s.run("fault_batch_once", splits=2)
    if s.objects(begun(0, 2)):
        raise PromiseBroken("split 0 was read twice")
    return "Kafka had none of the 100 records of split 0, which was verified, and split 1 had failed"
