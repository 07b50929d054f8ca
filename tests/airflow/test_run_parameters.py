"""What the resolve task takes from its run: the pipeline's name, the run's conf, what kind of run it is."""

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_offsets import KafkaOffsetsHook, ResolveStartupOffsetsOperator
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.kafka_offsets import default_checkpoint_id
from airflow_kafka_offsets.offsets.spec import RunKey

RUN = RunKey("d", "r", "t")


def parameters(conf: Any = None, run_type: str = "manual", *, has_plan: bool = False, run: RunKey = RUN) -> Any:
    operator = ResolveStartupOffsetsOperator(task_id="t", topics=["a"], group_id="g")
    instance = SimpleNamespace(dag_id=run.dag_id, run_id=run.run_id, task_id=run.task_id, map_index=run.map_index)
    context = {"ti": instance, "dag_run": SimpleNamespace(run_type=run_type, conf=conf)}
    hook = KafkaOffsetsHook()
    hook.__dict__["client_config"] = {"bootstrap.servers": "h:1"}
    return operator._parameters(context, run, hook, has_plan)


def test_mapped_instances_of_one_task_are_pipelines_of_their_own() -> None:
    assert default_checkpoint_id("g", "d", "t") == "g/d/t"
    assert parameters()["checkpoint_id"] == "g/d/t"
    assert parameters(run=RunKey("d", "r", "t", 1))["checkpoint_id"] == "g/d/t/1"


def test_a_run_that_has_a_plan_is_replayed_whatever_kind_of_run_it_has_become() -> None:
    """``airflow backfill create --reprocess-behavior`` makes a scheduled run a backfill run."""
    assert parameters(run_type="backfill")["run_type"] == "backfill"
    assert parameters(run_type="backfill", has_plan=True)["run_type"] == "replayed"


@pytest.mark.parametrize("run_type", ["manual", "backfill"])
def test_a_run_that_is_planned_anew_is_what_it_is(run_type: str) -> None:
    """Else a window by hand would become a plan with a position, and a backfill would pass its refusal."""
    asked = {"kafka_offsets": {"re_plan": True}}
    assert parameters(asked, run_type, has_plan=True)["run_type"] == run_type


def test_the_runs_conf_applies_to_the_run_alone() -> None:
    assert parameters({"kafka_offsets": {"restart": True}})["restart"] == "run r"
    assert parameters({"kafka_offsets": {"restart": "2026-11-20"}})["restart"] == "2026-11-20"
    assert parameters({"kafka_offsets": {"re_plan": "false"}})["re_plan"] is False
    assert parameters()["restart"] is None


def test_a_conf_that_is_no_object_is_said() -> None:
    with pytest.raises(InvalidRequest, match='"kafka_offsets": True'):
        parameters({"kafka_offsets": True})
