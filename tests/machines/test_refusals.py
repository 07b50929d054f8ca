"""A store that one machine has is refused where tasks run on several, before anything is planned."""

from __future__ import annotations

import pytest

from testbed.checks import names_below
from tests.machines.site import START, Site


@pytest.mark.parametrize(
    ("dag_id", "said"),
    [
        (
            "in_each_home",
            "work_store ~/kafka_offsets is a folder, and CeleryExecutor may run tasks on several machines",
        ),
        ("on_the_schedulers_machine", "work_store /srv/kafka_offsets is a folder, and CeleryExecutor may run"),
        ("on_a_bare_worker", "work_store is not set, and `airflow celery worker` may run tasks on several machines"),
    ],
)
def test_a_store_of_one_machine_is_refused_before_anything_is_planned(machines: Site, dag_id: str, said: str) -> None:
    """Also where ``executor="LocalExecutor"`` runs the task beside the scheduler, and on a worker that does not know
    the executor's name."""
    pipeline = machines.pipeline(dag_id)
    pipeline.produce_hour(START)
    run_id = pipeline.trigger()
    pipeline.wait(run_id, "failed")

    assert machines.airflow.task(dag_id, run_id, "resolve").tries == 1, "no retry can help"
    log = machines.airflow.task_log(dag_id, run_id, "resolve")
    assert said in log
    assert "AKO-" in log
    places = [machines.airflow.machine_of(part) for part in machines.airflow.commands]
    assert not [path for place in places for path in place.rglob("kafka_offsets*")]
    assert not [name for name in names_below(f"s3://{machines.bucket}/kafka_offsets")[1] if pipeline.topic in name]
    assert pipeline.committed() == {}
