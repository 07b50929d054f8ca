"""What is known when a DAG is parsed: every mistake at once, the tasks and their order, and how little is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from importlib import import_module
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Asset, TaskGroup, XComArg, task, task_group
from packaging.version import Version

from airflow_kafka_offsets import (
    Avro,
    BadRecords,
    CommitOffsetsOperator,
    Delta,
    GroupOffsets,
    Iceberg,
    Json,
    KafkaLagTrigger,
    KafkaSparkBatchOperator,
    Merge,
    PartitionDiscoverySensor,
    ResolveStartupOffsetsOperator,
    Rows,
    SparkSubmitBatchOperator,
    SpecificOffsets,
    Timestamp,
    WindowCompleteSensor,
    kafka_spark_batch,
)
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.run import ways_past
from airflow_kafka_offsets.operators.resolve import formats_of
from airflow_kafka_offsets.rows.job import job_object
from testbed.airflow_versions import DagSerialization
from tests.airflow.fixtures import PROJECT_DAGS

WRONG = {"topics": "a b", "start": "begin", "end": "earliest", "max_records": 0, "exclude": ["a"], "shard": (3, 3)}
TEMPLATES = {
    "topics": "{{ params.topics }}",
    "group_id": "{{ params.group }}",
    "start": GroupOffsets(otherwise="{{ params.otherwise }}"),
    "end": Timestamp("{{ data_interval_end }}"),
    "max_records": "{{ params.n }}",
    "pipeline_id": "{{ params.name }}",
}


@pytest.fixture
def dag() -> Any:
    with DAG("parsed", schedule=None) as made:
        yield made


def problems(call: Any) -> list[str]:
    with pytest.raises(InvalidRequest) as refused:
        call()
    return list(refused.value.problems)


def test_every_mistake_is_named_at_once_with_its_parameter(dag: Any) -> None:
    of_resolve = problems(lambda: ResolveStartupOffsetsOperator(task_id="resolve", **WRONG))
    assert [problem.split()[0] for problem in of_resolve] == [*WRONG]
    contradictions = {"rows": Rows(Json("id BIGINT")), "spark": {}, "submit": lambda *_: None}
    of_group = problems(lambda: kafka_spark_batch("orders", **WRONG, **contradictions))
    assert len(of_group) == len(WRONG) + 3
    assert all(problem.startswith("kafka_spark_batch('orders'): ") for problem in of_group)
    merged = {"merge": Merge("/lake", ["id"]), "submit": lambda *_: None, "shard": (0, 2), "require_report": False}
    windows = {"start": Timestamp(), "end": Timestamp(), "sink": Iceberg("lake.a")}
    of_merge = problems(lambda: kafka_spark_batch("merged", topics="a", **merged, **windows))
    in_order = {**windows, "sink": Delta("lake.a"), "merge": Merge("lake.b", ["id"], order_by=["lsn"])}
    kafka_spark_batch("in_order", topics="a", **in_order)
    words = ("Iceberg.table", "windows", "shard=", "submit=", "require_report=False")
    assert [word for word, problem in zip(words, of_merge, strict=True) if word not in problem] == []
    connected = {"spark_connect": "c", "spark": {}, "submit": lambda *_: None, "application": "job.py"}
    connected |= {"sink": Delta("/lake/a")}
    of_connect = problems(lambda: kafka_spark_batch("connected", topics="a", start="earliest", **connected))
    words = ("exactly one", "at most one", "job of this package")
    assert [word for word, problem in zip(words, of_connect, strict=True) if word not in problem] == []
    of_task = problems(lambda: KafkaSparkBatchOperator(task_id="task", **WRONG, rows=contradictions["rows"], spark={}))
    assert len(of_task) == len(WRONG) + 2
    assert all(problem.startswith("KafkaSparkBatchOperator('task'): ") for problem in of_task)
    assert "give sink=Delta(…)" in "".join(
        problems(lambda: kafka_spark_batch("a", topics="a", merge=Merge("a", ["a"])))
    )
    assert problems(lambda: PartitionDiscoverySensor(task_id="wait", topics="a b")) == [of_resolve[0]]
    assert len(problems(lambda: WindowCompleteSensor(task_id="w", topics="a b", end="x"))) == 2
    assert "is no time" in problems(lambda: WindowCompleteSensor(task_id="l", topics="a", end="latest"))[0]


@pytest.mark.parametrize("given", [{}, {"pipeline_id": "p", "topics": "a", "group_id": "g"}, {"topics": "a"}])
def test_a_lag_trigger_is_of_a_pipeline_or_of_a_group(given: dict[str, str]) -> None:
    with pytest.raises(TypeError, match="give pipeline_id=, or topics= and group_id="):
        KafkaLagTrigger(**given)
    with pytest.raises(TypeError, match="min_records is 0"):
        KafkaLagTrigger(pipeline_id="p", min_records=0)


def test_mapped_tasks_that_would_share_a_pipeline_by_accident_are_refused(dag: Any) -> None:
    given: dict[str, Any] = {"start": "earliest", "sink": Delta("/lake/orders")}
    of_task = problems(lambda: KafkaSparkBatchOperator.partial(task_id="mapped", **given))
    assert of_task[0].startswith("KafkaSparkBatchOperator.partial('mapped'): a mapped task needs a pipeline_id")
    assert "a mapped task" in problems(lambda: ResolveStartupOffsetsOperator.partial(task_id="r", start="earliest"))[0]

    @task_group
    def per_topic(topic: str, pipeline_id: str | None) -> None:
        KafkaSparkBatchOperator(task_id="one", topics=topic, pipeline_id=pipeline_id, **given)
        kafka_spark_batch("group", topics=topic, pipeline_id=pipeline_id, **given)

    assert "a mapped task" in problems(lambda: per_topic.partial(pipeline_id=None).expand(topic=["a", "b"]))[0]
    named = KafkaSparkBatchOperator.partial(task_id="named", pipeline_id="{{ task.topics }}", **given)
    assert named.expand(topics=["a", "b"]).task_id == "named"


def test_what_templates_and_other_tasks_decide_is_left_to_the_run(dag: Any) -> None:
    ResolveStartupOffsetsOperator(task_id="templates", **TEMPLATES)

    @task
    def offsets() -> dict[str, Any]:
        return {}

    by_task = ResolveStartupOffsetsOperator(task_id="by_task", topics="a", start=SpecificOffsets(offsets()))
    assert by_task.upstream_task_ids == {"offsets"}
    rows = Rows(Json(offsets()), select=["value.*"])
    kafka_spark_batch("orders", topics="a", start="earliest", rows=rows, sink=Delta("/lake/orders"))
    assert dag.get_task("orders.resolve").upstream_task_ids == {"offsets__1", "orders.wait"}


def test_the_tasks_stand_in_one_line_and_the_last_one_publishes(dag: Any) -> None:
    @task
    def check() -> None: ...

    asset = Asset("orders")
    batch = {"topics": "orders", "group_id": "g", "sink": Delta("/lake/orders"), "outlets": [asset]}
    kafka_spark_batch("orders", **batch, before_commit=[check()])
    merge = Merge("/lake/customers", ["id"])
    kafka_spark_batch("merged", **batch, merge=merge, spark={"conf": {"a": "b"}})
    kafka_spark_batch("windows", topics="a", start=Timestamp(), end=Timestamp(), application="job.py", sensor=False)

    def line(*names: str) -> bool:
        return all(first in dag.get_task(then).upstream_task_ids for first, then in pairwise(names))

    assert line("orders.wait", "orders.resolve", "orders.spark", "check", "orders.commit")
    assert line("merged.spark", "merged.commit", "merged.merge")
    outlets = [dag.get_task(task_id).outlets for task_id in ("orders.commit", "merged.commit", "merged.merge")]
    assert outlets == [[asset], [], [asset]]
    last = dag.get_task("merged.merge")
    assert (Path(last.application).name, last.conf, last.fast_start) == ("merge_batches.py", {"a": "b"}, False)
    kafka_spark_batch("connected", **batch, merge=merge, spark_connect="c")
    assert line("connected.wait", "connected.resolve", "connected.spark", "connected.commit", "connected.merge")
    assert {dag.get_task(f"connected.{name}").conn_id for name in ("spark", "merge")} == {"c"}
    assert {t.task_id for t in dag.tasks if t.trigger_rule != "all_success"} == {"orders.commit"}
    assert dag.get_task("orders.resolve").group_name == "orders"
    assert "windows.wait" not in dag.task_ids
    assert DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag)).task_ids
    assert repr(dag.get_task("orders.resolve").job[0]) == "Delta(path_or_table='/lake/orders')"


def test_another_way_to_submit_gets_the_path_of_the_job_and_its_arguments(dag: Any) -> None:
    given = []

    def submit(application: str, arguments: XComArg) -> Any:
        given.append((Path(application).name, arguments.operator.task_id, arguments.key))
        return TaskGroup("livy")

    kafka_spark_batch("orders", topics="a", start="earliest", sink=Delta("/lake/orders"), submit=submit)
    assert given == [("write_batch.py", "orders.resolve", "return_value")]


@pytest.mark.parametrize(
    ("of_dag", "of_parent", "own", "expected"),
    [
        ({}, {}, {}, {"retries": 2}),
        ({"retries": 5}, {}, {}, {"retries": 5}),
        ({}, {"retries": 5}, {}, {"retries": 5}),
        ({"retries": 5}, {"retries": 4}, {"retries": 0}, {"retries": 0}),
        ({}, {}, {"default_args": {"retries": 7}}, {"retries": 7}),
        ({"kafka_config_id": "k"}, {"conn_id": "s"}, {}, {"kafka_config_id": "k", "conn_id": "s"}),
        ({"kafka_config_id": "k"}, {"kafka_config_id": "l"}, {}, {"kafka_config_id": "l"}),
        (
            {},
            {},
            {"pool": "p", "queue": "q", "executor_config": {"a": 1}},
            {"pool": "p", "queue": "q", "executor_config": {"a": 1}},
        ),
        ({"execution_timeout": timedelta(hours=1)}, {}, {}, {"execution_timeout": timedelta(hours=1)}),
    ],
)
@pytest.mark.parametrize("kind", ["group", "task"])
def test_default_args_of_dag_and_groups_and_arguments_of_tasks_count_as_for_every_operator(
    of_dag: Any, of_parent: Any, own: Any, expected: dict[str, Any], kind: str
) -> None:
    given = {"topics": "a", "start": "earliest", "sink": Delta("/lake/orders"), **own}
    with DAG("retried", schedule=None, default_args=of_dag) as made, TaskGroup("parent", default_args=of_parent):
        if kind == "group":
            kafka_spark_batch("orders", **given)
        else:
            KafkaSparkBatchOperator(task_id="orders", **given)
    for name, value in expected.items():
        assert {repr(getattr(task, name, value)) for task in made.tasks} == {repr(value)}, name
        assert any(hasattr(task, name) for task in made.tasks) or name == "conn_id"


def test_an_argument_that_neither_a_task_nor_a_group_has_is_refused(dag: Any) -> None:
    with pytest.raises(TypeError, match="takes no max_record"):
        kafka_spark_batch("orders", topics="a", start="earliest", sink=Delta("/lake/orders"), max_record=5)


@pytest.mark.parametrize("rule", ["all_done", "none_skipped", "one_success", "always"])
def test_a_commit_that_would_not_need_sparks_success_is_refused(dag: Any, rule: str) -> None:
    assert rule in problems(lambda: CommitOffsetsOperator(task_id="commit", plan={}, trigger_rule=rule))[0]
    given = {"topics": "a", "start": "earliest", "sink": Delta("/lake/orders")}
    assert rule in problems(lambda: kafka_spark_batch("orders", default_args={"trigger_rule": rule}, **given))[0]


def test_sensors_wait_deferred_for_ten_minutes_and_a_window_as_long_as_a_partition_may_be_idle(dag: Any) -> None:
    found = PartitionDiscoverySensor(task_id="topics", topics="a")
    assert (found.deferrable, found.timeout) == (True, 600)
    assert WindowCompleteSensor(task_id="window", topics="a").timeout == 900
    assert WindowCompleteSensor(task_id="idle", topics="a", idle_timeout=timedelta(hours=1)).timeout == 4200


@pytest.mark.parametrize("plan", [None, "{}", {"pipeline": "orders"}])
@pytest.mark.parametrize("kind", [CommitOffsetsOperator, SparkSubmitBatchOperator])
def test_a_plan_that_no_resolve_task_pushed_is_refused_without_a_retry(dag: Any, kind: Any, plan: Any) -> None:
    from airflow.providers.common.compat.sdk import AirflowFailException

    with pytest.raises(AirflowFailException, match=r'resolve.output\["plan"\]'):
        kind(task_id="task", plan=plan).execute({})


def test_what_the_packaged_job_needs_packages_for() -> None:
    rows = Rows(Avro('{"type": "record", "name": "o", "fields": []}'), bad=BadRecords(Delta("/lake/bad")))
    assert formats_of(job_object(Delta("/lake/orders"), rows)) == ["avro", "delta"]
    assert formats_of(None) == []


# ── in a process of its own ───────────────────────────────────────────────────────────────────────────────────────────

LOADED = """
import json, sys
from testbed.airflow_versions import DagBag
bag = DagBag(sys.argv[1])
heavy = ("confluent_kafka", "obstore", "pyspark", "airflow_kafka_offsets.engine", "airflow_kafka_offsets.broker")
print(json.dumps([sorted(bag.dags), bag.import_errors, sorted(m for m in heavy if m in sys.modules)]))
"""


def run_python(tmp_path: Path, *words: str, **settings: str) -> str:
    environment = {**os.environ, **settings, "AIRFLOW_HOME": str(tmp_path), "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR"}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.starts_processes
def test_to_parse_the_example_dags_loads_no_kafka_client_no_store_and_no_engine(tmp_path: Path) -> None:
    dags, errors, heavy = json.loads(run_python(tmp_path, "-c", LOADED, str(PROJECT_DAGS)).splitlines()[-1])
    newer = [file.name for file in PROJECT_DAGS.glob("*.py") if "Needs Airflow 3.3." in file.read_text()]
    expected = (8, []) if Version(version("apache-airflow")) >= Version("3.3") else (6, newer)
    assert (len(dags), [Path(file).name for file in errors], heavy) == (*expected, [])


def test_the_provider_names_each_module_with_something_to_use_and_pages_that_exist() -> None:
    import airflow_kafka_offsets as package
    from airflow_kafka_offsets.provider_info import get_provider_info

    info = get_provider_info()
    rooms = {room: info[room][0]["python-modules"] for room in ("operators", "sensors", "hooks", "triggers")}
    used = {getattr(package, name).__module__ for name in package.__all__}
    missing = [module for module in used if (room := module.split(".")[1]) in rooms and module not in rooms[room]]
    assert missing == []
    assert [module for modules in rooms.values() for module in modules if import_module(module) is None] == []
    guides = info["integrations"][0]["how-to-guide"]
    assert [guide for guide in guides if not (PROJECT_DAGS.parent / guide.lstrip("/")).exists()] == []


@pytest.mark.starts_processes
def test_airflow_knows_the_provider_and_its_setting(tmp_path: Path) -> None:
    code = (
        "from airflow.providers_manager import ProvidersManager; "
        "options = dict(ProvidersManager().provider_configs)['airflow-kafka-offsets']['kafka_offsets']['options']; "
        "print({name: option['default'] for name, option in options.items()})"
    )
    assert run_python(tmp_path, "-c", code).splitlines()[-1] == "{'checkpoint_location': '', 'tabs': 'True'}"


@pytest.mark.parametrize(("start", "output"), [("earliest", "delta:/lake/2026-11-28"), (Timestamp(), None)])
def test_a_templated_output_is_compared_in_sequence_and_not_by_window(dag: Any, start: Any, output: str | None) -> None:
    resolve = ResolveStartupOffsetsOperator(task_id="resolve", topics="orders", start=start, end=Timestamp())
    resolve.write_to(Delta("/lake/{{ ds }}"), None, None)
    resolve.render_template_fields({"ds": "2026-11-28", "task": resolve})
    assert resolve._output() == output


@pytest.mark.starts_processes
@pytest.mark.parametrize(("setting", "tabs"), [({}, 3), ({"AIRFLOW__KAFKA_OFFSETS__TABS": "False"}, 0)])
def test_a_setting_turns_the_tabs_off_and_leaves_the_page(tmp_path: Path, setting: dict[str, str], tabs: int) -> None:
    code = (
        "from airflow.plugins_manager import get_plugin_info; "
        "(one,) = (one for one in get_plugin_info() if one['name'] == 'kafka_offsets'); "
        "print(len(one['external_views']), len(one['fastapi_apps']))"
    )
    assert run_python(tmp_path, "-c", code, **setting).splitlines()[-1] == f"{tabs} 1"


@pytest.mark.parametrize(
    ("of_dag", "of_task", "expected"),
    [
        ({}, {}, ""),
        ({"max_active_runs": 1}, {}, "max_active_runs=1"),
        ({}, {"depends_on_past": True}, "mark it as success"),
    ],
)
def test_what_would_hold_back_a_persons_run_is_said(of_dag: Any, of_task: Any, expected: str) -> None:
    with DAG("held", schedule=None, **of_dag):
        resolve = ResolveStartupOffsetsOperator(task_id="resolve", topics=["a"], start="earliest", **of_task)
    assert (ways_past(resolve) == "") == (expected == "")
    assert expected in ways_past(resolve)
