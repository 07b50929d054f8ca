"""What is known when a DAG is parsed: one list of parameters, refusals, and no word to Kafka or the work store."""

from __future__ import annotations

import inspect
import re
from copy import deepcopy
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pendulum
import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_kafka_offsets import (
    CommitOffsetsOperator,
    KafkaOffsetsHook,
    OffsetLagSensor,
    PartitionDiscoverySensor,
    ResolveStartupOffsetsOperator,
    WindowCompleteSensor,
    kafka_spark_batch,
)
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.operators.task_group import BatchParameters, GroupParameters, TaskParameters
from airflow_kafka_offsets.request.parameters import MOST_DAGS, ScopeParameters
from airflow_kafka_offsets.request.subscription import default_pipeline_id
from tests.parameters.made import MADE, of_a_dag

OPERATORS = [
    (ResolveStartupOffsetsOperator, {"topics": "a"}),
    (CommitOffsetsOperator, {"plan": {}}),
    (PartitionDiscoverySensor, {"topics": "a"}),
    (OffsetLagSensor, {"topics": "a"}),
    (WindowCompleteSensor, {"topics": "a"}),
]


def defaults_of(function: Any) -> dict[str, Any]:
    """The keyword parameters with their defaults."""
    found = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in found if p.kind is p.KEYWORD_ONLY}


def fields_of(kind: type[ScopeParameters]) -> dict[str, Any]:
    return {field.name: field.default for field in fields(kind)}


# ── one list of parameters ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", MADE, ids=lambda file: file.name)
def test_what_is_made_of_the_table_of_parameters_is_current(file: Path) -> None:
    """If it is not: `python -m tests.parameters.made`."""
    assert MADE[file](file.read_text()) == file.read_text()


def test_the_operator_has_the_parameters_of_the_table_with_their_defaults() -> None:
    of_table = {parameter.name: parameter.default for parameter in of_a_dag()}
    assert defaults_of(ResolveStartupOffsetsOperator.__init__) == of_table
    assert set(ResolveStartupOffsetsOperator.template_fields) == of_table.keys()
    assert len(MOST_DAGS) == 10


def test_the_task_group_has_the_parameters_of_the_operator_by_name() -> None:
    """So that an editor knows them; `sink` and `output_name` are parameters of its own."""
    assert BatchParameters.__annotations__.keys() | {"sink", "output_name"} == names_of_a_dag()


def names_of_a_dag() -> set[str]:
    return {parameter.name for parameter in of_a_dag()}


def test_the_task_group_has_the_parameters_of_airflows_group_and_of_every_task() -> None:
    from airflow.sdk import BaseOperator, TaskGroup

    of_group = inspect.signature(TaskGroup.__init__).parameters.keys() - {"self", "group_id", "dag"}
    assert GroupParameters.__annotations__.keys() == of_group
    assert TaskParameters.__annotations__.keys() <= inspect.signature(BaseOperator.__init__).parameters.keys()


@pytest.mark.parametrize("sensor", [PartitionDiscoverySensor, OffsetLagSensor, WindowCompleteSensor])
def test_what_a_sensor_has_in_common_with_a_request_has_its_name_and_default(sensor: type) -> None:
    own = defaults_of(sensor.__init__)  # type: ignore[misc]
    scope = fields_of(ScopeParameters)
    shared = own.keys() & scope.keys()
    assert {"topics", "topic_pattern", "partitions"} <= shared
    assert {name: own[name] for name in shared} == {name: scope[name] for name in shared}
    assert own["kafka_config_id"] == defaults_of(ResolveStartupOffsetsOperator.__init__)["kafka_config_id"]


@pytest.mark.parametrize(("kind", "arguments"), OPERATORS)
def test_every_template_field_is_an_attribute(kind: Any, arguments: dict[str, Any]) -> None:
    operator = kind(task_id="t", **arguments)
    assert [name for name in kind.template_fields if not hasattr(operator, name)] == []
    assert set(kind.template_fields) <= defaults_of(kind.__init__).keys()


@pytest.mark.parametrize(("kind", "arguments"), OPERATORS)
def test_every_parameter_is_kept_under_its_name(kind: Any, arguments: dict[str, Any]) -> None:
    """Where ``setattr`` by a list of names does it, one that is missing in the list would be lost without a word."""
    if kind is CommitOffsetsOperator:
        defaults: dict[str, Any] = {"plan": {}, "require_report": True, "asset": None}
    else:
        defaults = {**defaults_of(kind.__init__), **arguments}
    operator = kind(task_id="t", **arguments)
    assert {name: getattr(operator, name) for name in defaults} == defaults


def dag_of(of_dag: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    """The tasks of a `kafka_spark_batch`, by their names in the group."""
    from airflow.sdk import DAG

    arguments = {"application": "job.py", "topics": ["orders"], **arguments}
    with DAG("any", schedule=None, default_args=of_dag or {}) as dag:
        kafka_spark_batch("b", **arguments)
    return {task_id.removeprefix("b."): task for task_id, task in dag.task_dict.items()}


def test_a_dags_default_args_reach_the_parameters_of_all_tasks(airflow: Path) -> None:
    """Also through the task group, which must not hand on defaults of its own."""
    policies = {"data_loss": "advance"}
    given = {"kafka_config_id": "lake", "group_id": "g", "policies": policies, "bounded_mode": "timestamp"}
    tasks = dag_of({**given, "work_store": "/lake", "retries": 7})
    resolve = tasks["resolve"]
    assert {name: getattr(resolve, name) for name in given} == given
    assert {task.kafka_config_id for name, task in tasks.items() if name != "spark"} == {"lake"}
    assert (tasks["wait_for_partitions"].group_id, tasks["wait_for_partitions"].work_store) == ("g", "/lake")
    assert tasks["wait_for_partitions"].policies == policies
    assert "wait_for_window" in tasks
    assert {task.retries for task in tasks.values()} == {7}


def test_a_batch_whose_topics_are_there_needs_no_sensor(airflow: Path) -> None:
    tasks = dag_of({"group_id": "g"}, sensor=False)
    assert sorted(tasks) == ["commit", "resolve", "spark"]
    assert tasks["resolve"].upstream_task_ids == set()
    window = dag_of({"group_id": "g", "bounded_mode": "timestamp"}, sensor=False)
    assert window["resolve"].upstream_task_ids == {"b.wait_for_window"}
    assert window["wait_for_window"].upstream_task_ids == set()


def test_what_the_task_group_is_given_wins_over_default_args_and_reaches_every_task_that_has_it(airflow: Path) -> None:
    more: dict[str, Any] = {
        "kafka_config_id": "mine",
        "group_id": "own",
        "max_records": 5,
        "output": "s3://lake/orders",
    }
    tasks = dag_of({"kafka_config_id": "lake", "group_id": "g"}, **more)
    resolve = tasks["resolve"]
    assert (resolve.kafka_config_id, resolve.group_id, resolve.max_records) == ("mine", "own", 5)
    assert resolve.output_name == "s3://lake/orders"
    assert tasks["wait_for_partitions"].group_id == "own"
    assert tasks["wait_for_partitions"].resolve_task_id == "b.resolve"
    assert tasks["commit"].kafka_config_id == "mine"
    assert tasks["resolve"].upstream_task_ids == {"b.wait_for_partitions"}


@pytest.mark.parametrize("name", ["on_superseded", "trigger_rule", "output_name"])
def test_a_parameter_that_the_task_group_does_not_have_is_refused(airflow: Path, name: str) -> None:
    with pytest.raises(TypeError, match=f"has no parameter {name}"):
        dag_of(**{name: "x"})


@pytest.mark.parametrize(
    "arguments",
    [{"application": None}, {"submit": lambda arguments: arguments}, {"sink": {"format": "parquet", "path": "/x"}}],
    ids=["no", "two", "a sink and a job"],
)
def test_one_way_to_write_is_needed(airflow: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="give exactly one of sink= "):
        dag_of(**arguments)


def test_what_holds_for_every_task_reaches_every_task(airflow: Path) -> None:
    """Over the DAG's `default_args`, and under what one task is told."""
    told: dict[str, Any] = {"retries": 5, "pool": "kafka", "queue": "lake", "owner": "data"}
    more = {"default_args": {"email": "a@b", "retries": 2}, "tooltip": "orders", "prefix_group_id": True}
    tasks = dag_of({"retries": 1, "priority_weight": 7}, **told, **more, sensor={"pool": "small"})
    assert {(task.retries, task.queue, task.owner, task.email) for task in tasks.values()} == {
        (5, "lake", "data", "a@b")
    }
    assert {name: task.pool for name, task in tasks.items() if task.pool != "kafka"} == {"wait_for_partitions": "small"}
    assert {task.priority_weight for task in tasks.values()} == {7}


def test_the_groups_name_is_airflows_group_id(airflow: Path) -> None:
    from airflow.sdk import DAG, TaskGroup

    with DAG("any", schedule=None) as dag, TaskGroup("outer"):
        arguments: dict[str, Any] = {"application": "job.py", "topics": "a"}
        kafka_spark_batch("b", **arguments)
        kafka_spark_batch("plain", prefix_group_id=False, **arguments)
    assert {"outer.b.resolve", "resolve"} <= dag.task_dict.keys()


def test_a_loop_makes_a_pipeline_of_each_topic_with_a_name_and_an_output_of_its_own(airflow: Path) -> None:
    """docs/many-topics.md: the name of a pipeline is made of group, DAG and task, and none of them counts the list."""
    from airflow.sdk import DAG

    topics = [f"topic-{n}" for n in range(30)]
    with DAG("shop", schedule=None) as dag:
        for topic in topics:
            sink: Any = {"format": "parquet", "path": f"/lake/{topic}"}
            kafka_spark_batch(topic, topics=[topic], group_id=f"{topic}-to-lake", sink=sink)
    resolves: list[Any] = [dag.get_task(f"{topic}.resolve") for topic in topics]
    names = {default_pipeline_id(task.group_id, dag.dag_id, task.task_id) for task in resolves}
    assert names == {f"{topic}-to-lake/shop/{topic}.resolve" for topic in topics}
    assert {task.sink["path"] for task in resolves} == {f"/lake/{topic}" for topic in topics}


def test_airflow_cannot_map_the_task_group_since_its_spark_task_is_mapped_itself(airflow: Path) -> None:
    """docs/many-topics.md says so. Once Airflow can, the page has a shorter way to show."""
    from airflow.sdk import DAG, task_group

    @task_group
    def one_topic(topic: str) -> None:
        kafka_spark_batch("batch", topics=topic, group_id="g", application="job.py")

    with DAG("mapped", schedule=None), pytest.raises(NotImplementedError, match="expansion in an expanded task group"):
        one_topic.expand(topic=["orders", "payments"])


# ── a sink in the place of a job ──────────────────────────────────────────────────────────────────────────────────────


def test_with_a_sink_the_packaged_job_is_submitted(airflow: Path) -> None:
    tasks = dag_of(application=None, sink={"format": "parquet", "path": "/lake/{{ params.topic }}"})
    assert tasks["resolve"].sink == {"format": "parquet", "path": "/lake/{{ params.topic }}"}
    assert "application" not in tasks["spark"].partial_kwargs
    spark = tasks["spark"].operator_class(task_id="t", application_args=[])
    assert (Path(spark.application).name, Path(spark.application).is_file()) == ("write_batch.py", True)


# ── wrong values ──────────────────────────────────────────────────────────────────────────────────────────────────────

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"startup_mode": "earliest"}, "startup_mode is 'earliest'; use one of earliest-offset, latest-offset"),
    ({"bounded_mode": "latest"}, "bounded_mode is 'latest'; use one of"),
    ({"splits": 0}, "splits is 0"),
    ({"split_by": "flonk"}, "split_by is 'flonk'"),
    ({"max_records": -1}, "max_records is -1"),
    ({"commit_mode": "always"}, "commit_mode is 'always'; use one of on-success, checkpoint-only"),
    ({"isolation_level": "committed"}, "isolation_level is 'committed'; use one of read_uncommitted, read_committed"),
    ({"auto_offset_reset": "newest"}, "auto_offset_reset is 'newest'; use one of earliest, latest, none"),
    ({"policies": {"data_loss": "ignore"}}, "policies has data_loss='ignore'; use one of fail, advance, reset"),
    ({"policies": {"dataloss": "advance"}}, "policies has 'dataloss'; its keys are data_loss, topic_recreated"),
    ({"policies": "advance"}, "policies is 'advance'; expected"),
    ({"topics": None}, "Give exactly one of topics, topic_pattern and partitions, not none"),
    ({"topics": ["a b"]}, "topics has 'a b'; Kafka's topic names have"),
    ({"topics": None, "topic_pattern": "("}, "topic_pattern '(' is not a regular expression"),
    ({"group_id": " "}, "group_id is empty"),
    ({"group_id": "a\nb"}, "group_id is 'a\\nb', which has a line end"),
    ({"application_args": ["a\0b"]}, "argument 'a\\x00b' has '\\x00', which no operating system lets through"),
    ({"work_store": "s3://key:hidden@bucket/x"}, "work_store has a key and a secret in it"),
    ({"work_store": "s3://key:hid/hidden@bucket/x"}, "work_store has a key and a secret in it"),
    ({"work_store": "sftp://node:22/a@b"}, "work_store sftp://node:22/a@b cannot be used"),
    ({"pipeline_id": ""}, "pipeline_id is empty"),
    ({"startup_timestamp": "2026"}, "startup_timestamp is given, but startup_mode is 'group-offsets'"),
    ({"startup_mode": "timestamp", "startup_timestamp": "yesterday"}, "startup_timestamp"),
    ({"startup_mode": "specific-offsets"}, "startup_mode='specific-offsets' needs specific_offsets"),
    ({"startup_mode": "timestamp", "bounded_mode": "timestamp", "max_records": 5}, "max_records and max_records_per"),
    ({"require_complete_window": True}, "require_complete_window needs bounded_mode='timestamp'"),
    ({"partition_width": "1 hour"}, "partition_width is '1 hour'"),
    ({"idle_timeout": "soon"}, "idle_timeout is 'soon'"),
    ({"overlap_timeout": "soon"}, "overlap_timeout is 'soon'"),
    ({"work_store": "dbfs:/x"}, "work_store dbfs:/x cannot be used"),
    ({"application_args": "--output /x"}, "application_args is the string '--output /x'"),
    ({"application_args": ['{"a": {"b": 1}}']}, "has '}}', which Airflow, YARN and Databricks would change"),
    ({"filter_restored_partitions": "perhaps"}, "filter_restored_partitions is 'perhaps'; use true or false"),
    ({"application": None, "sink": {"format": "parquet"}}, "sink lacks 'path', which format 'parquet' needs"),
    ({"application": None, "sink": {"format": "hudi"}}, "sink has the format 'hudi'; use one of parquet, orc"),
    ({"application": None, "sink": {"format": "parquet", "path": "lake"}}, "'lake' is a relative path"),
    ({"application": None, "sink": {"format": "parquet", "path": "{{ x }}", "table": "t"}}, "sink has 'table'"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[next(iter(arguments)) for arguments, _ in WRONG])
def test_a_wrong_value_is_found_when_the_dag_is_parsed(airflow: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(message)) as refused:
        dag_of(**arguments)
    assert "hidden" not in str(refused.value)


def test_an_argument_that_would_not_reach_the_job_is_refused_before_anything_is_planned() -> None:
    """A template may make one: then nobody has looked at it when the DAG was parsed."""
    operator = ResolveStartupOffsetsOperator(task_id="resolve", topics=["a"], application_args=["{{ params.own }}"])
    operator.application_args = ['{"a":{"b":1}}']  # rendered
    with pytest.raises(AirflowFailException, match="has '}}', which Airflow, YARN and Databricks would change"):
        operator.execute({})


def test_a_sink_may_be_submitted_in_another_way(airflow: Path) -> None:
    tasks = dag_of(application=None, sink={"format": "parquet", "path": "/x"}, submit=spark_in_another_way)
    assert tasks["resolve"].sink == {"format": "parquet", "path": "/x"}
    assert "spark" not in tasks


def spark_in_another_way(arguments: Any) -> Any:
    from airflow.providers.standard.operators.empty import EmptyOperator

    return EmptyOperator(task_id="another")


def test_every_wrong_value_is_named_at_once(airflow: Path) -> None:
    with pytest.raises(InvalidRequest) as refused:
        dag_of(splits=0, policies={"data_loss": "x"}, work_store="ftp://x", overlap_timeout="y")
    assert len(refused.value.problems) == 4


def test_wrong_values_of_the_commit_task_are_found_when_the_dag_is_parsed() -> None:
    wrong: dict[str, Any] = {"require_report": "no", "asset": "orders", "partitioned_asset": "yes"}
    with pytest.raises(InvalidRequest) as refused:
        CommitOffsetsOperator(task_id="commit", plan={}, **wrong)
    assert [problem.split()[0] for problem in refused.value.problems] == list(wrong)


@pytest.mark.parametrize("schedule", ["@hourly", "0 3 * * *", timedelta(hours=1)], ids=str)
def test_a_window_of_an_interval_without_length_is_found_when_the_dag_is_parsed(airflow: Path, schedule: Any) -> None:
    from airflow.sdk import DAG, CronDataIntervalTimetable, CronTriggerTimetable

    window: dict[str, Any] = {"startup_mode": "timestamp", "bounded_mode": "timestamp"}

    def parse(schedule: Any, **bounds: Any) -> None:
        with DAG("any", schedule=schedule, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
            kafka_spark_batch("b", topics="a", application="job.py", **window, **bounds)

    with pytest.raises(InvalidRequest, match="startup_timestamp is missing and the run's data interval has no"):
        parse(schedule)
    parse(
        schedule, startup_timestamp="{{ run_after - macros.timedelta(hours=1) }}", bounded_timestamp="{{ run_after }}"
    )
    parse(CronDataIntervalTimetable("0 * * * *", timezone="UTC"))
    parse(CronTriggerTimetable("0 * * * *", timezone="UTC", interval=timedelta(hours=1)))
    parse(None)


def test_a_window_of_intervals_that_do_not_join_where_clocks_change_is_found_when_the_dag_is_parsed(
    airflow: Path,
) -> None:
    """Each autumn an hour was in no window, and all runs were green; each spring the windows overlapped."""
    from airflow.sdk import DAG, CronDataIntervalTimetable, CronTriggerTimetable, MultipleCronTriggerTimetable
    from dateutil.relativedelta import relativedelta

    def parse(schedule: Any, startup_mode: str = "timestamp", **more: Any) -> None:
        with DAG("any", schedule=schedule, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
            more = {"startup_mode": startup_mode, "bounded_mode": "timestamp", **more}
            kafka_spark_batch("b", topics="a", group_id="g", application="job.py", **more)

    def trigger(zone: Any, interval: Any, cron: str = "0 0 * * *") -> Any:
        return CronTriggerTimetable(cron, timezone=zone, interval=interval)

    berlin, day, hour = "Europe/Berlin", timedelta(days=1), timedelta(hours=1)
    twice = {"timezone": berlin, "interval": timedelta(hours=12)}
    for uneven in (
        trigger(berlin, day),
        trigger(pendulum.timezone(berlin), 6 * hour, "0 */6 * * *"),
        trigger(berlin, relativedelta(days=1)),
        trigger("Australia/Lord_Howe", hour, "0 * * * *"),
        MultipleCronTriggerTimetable("0 0 * * *", "0 12 * * *", **twice),
    ):
        with pytest.raises(InvalidRequest, match="startup_timestamp or bounded_timestamp is missing, and the schedule"):
            parse(uneven)
        parse(uneven, startup_mode="group-offsets")
        parse(uneven, startup_timestamp="{{ data_interval_start }}", bounded_timestamp="{{ data_interval_end }}")
    for even in (
        trigger(berlin, hour, "0 * * * *"),
        trigger("UTC", day),
        trigger("Asia/Kolkata", day),
        CronDataIntervalTimetable("0 0 * * *", timezone=berlin),
    ):
        parse(even)


TEMPLATED: list[dict[str, Any]] = [
    {"topics": "{{ params.topics }}", "group_id": "{{ params.group }}"},
    {"startup_mode": "{{ params.mode }}", "startup_timestamp": "2026-01-01", "bounded_timestamp": None},
    {"startup_mode": "timestamp", "bounded_mode": "{{ params.mode }}", "bounded_timestamp": "2020-01-01"},
    {"topics": ["{{ params.topic }}"], "startup_mode": "timestamp", "startup_timestamp": {"orders": "now-2h"}},
    {"startup_mode": "timestamp", "startup_timestamp": "{{ x }}", "bounded_mode": "timestamp", "bounded_timestamp": 5},
    {"splits": "{{ params.splits }}", "max_records": "{{ params.limit }}", "commit_mode": "{{ params.mode }}"},
    {"startup_mode": "specific-offsets", "specific_offsets": "{{ params.offsets | tojson }}"},
    {"application": None, "sink": {"format": "{{ params.format }}", "path": "/lake"}},
    {"application": None, "sink": "{{ params.sink }}"},
]


@pytest.mark.parametrize("arguments", TEMPLATED, ids=str)
def test_what_a_template_decides_is_left_to_the_run(airflow: Path, arguments: dict[str, Any]) -> None:
    dag_of(**arguments)


HIDDEN: list[tuple[dict[str, Any], str, str]] = [
    ({"topics": ["group_id !"]}, "group_id", "topics has 'group_id !'"),
    ({"topics": ["orders!"], "pipeline_id": "{{ x }}"}, "splits", "topics has 'orders!'"),
    ({"split_by": "startup_mode"}, "startup_mode", "split_by is 'startup_mode'"),
    (
        {"startup_mode": "timestamp", "bounded_mode": "timestamp", "max_records": 5},
        "max_records_per_partition",
        "max_records and max_records_per_partition cannot be used with a window",
    ),
    ({"overlap_timeout": float("inf")}, "topics", "overlap_timeout is inf, which has no end"),
]


@pytest.mark.parametrize(("arguments", "templated", "problem"), HIDDEN, ids=lambda value: str(value)[:40])
def test_a_template_hides_no_problem_of_another_parameter(
    airflow: Path, arguments: dict[str, Any], templated: str, problem: str
) -> None:
    """Whose value, or whose remedy, has the templated parameter's name in it."""
    with pytest.raises(InvalidRequest, match=re.escape(problem)):
        dag_of(**{**arguments, templated: "{{ params.x }}"})


@pytest.mark.parametrize("name", ["topics", "group_id", "isolation_level", "idle_timeout"])
def test_what_the_tasks_share_is_said_once(airflow: Path, name: str) -> None:
    with pytest.raises(TypeError, match=f"sensor has no parameter {name}. {name} is said once, to kafka_spark_batch"):
        dag_of(sensor={name: "x"})
    with pytest.raises(TypeError, match=f"wait_for_window has no parameter {name}"):
        dag_of(bounded_mode="timestamp", wait_for_window={name: "x"})


# ── depends_on_past ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("word", ["depends_on_past", "wait_for_downstream"])
@pytest.mark.parametrize("where", ["default_args", "spark", "operator", "task", "group of tasks", "commit", "submit"])
def test_a_task_between_resolve_and_commit_that_depends_on_its_past_is_refused(
    airflow: Path, where: str, word: str
) -> None:
    """Run N + 1 holds the batch and waits for run N's task; run N, cleared, waits for that batch."""
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG, TaskGroup, task

    past = {word: True}

    @task
    def check(**_: Any) -> None: ...

    with DAG("any", schedule=None, default_args=past if where == "default_args" else {}):
        arguments: dict[str, Any] = {"application": "job.py", "topics": "a"}
        match where:
            case "spark":
                arguments["spark"] = past
            case "operator":
                arguments["before_commit"] = [EmptyOperator(task_id="ok"), EmptyOperator(task_id="check", **past)]
            case "task":
                arguments["before_commit"] = [check.override(**past)()]
            case "group of tasks":
                with TaskGroup("checks") as checks:
                    EmptyOperator(task_id="first") >> EmptyOperator(task_id="check", **past)
                arguments["before_commit"] = [checks]
            case "submit":
                arguments["application"] = None
                arguments["submit"] = lambda found: check.override(**past).partial().expand(arguments=found)
        if where == "commit":
            arguments = {"task_id": "commit", "plan": {}, **past}
        make: Any = CommitOffsetsOperator if where == "commit" else partial(kafka_spark_batch, "b")
        with pytest.raises(ValueError, match="cannot have depends_on_past or wait_for_downstream"):
            make(**arguments)


def test_the_tasks_before_resolve_may_depend_on_their_past(airflow: Path) -> None:
    tasks = dag_of(sensor={"depends_on_past": True})
    assert tasks["wait_for_partitions"].depends_on_past


# ── no word to anybody ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", ["hourly_batch.py", "backfill_by_timestamp.py"])
def test_a_dag_file_is_parsed_and_stored_without_a_look_at_kafka_or_the_work_store(
    airflow: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    from testbed.dag_runs import load_dag
    from tests.airflow.fixtures import PROJECT_DAGS

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("asked while the DAG is parsed")

    monkeypatch.setattr("airflow.providers.apache.kafka.hooks.base.KafkaBaseHook.__init__", never)
    monkeypatch.setattr("airflow_kafka_offsets.stores.local.LocalStore.__init__", never)
    monkeypatch.setattr("airflow_kafka_offsets.broker.cluster.KafkaCluster.__init__", never)
    dag_id = {"hourly_batch.py": "kafka_hourly_batch", "backfill_by_timestamp.py": "kafka_backfill_by_timestamp"}[file]
    dag = load_dag(PROJECT_DAGS / file, dag_id)
    stored = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    assert set(stored.task_dict) == set(dag.task_dict)
    with pytest.raises(AssertionError, match="asked while"):
        KafkaOffsetsHook()


def test_operators_can_be_copied_and_stored(airflow: Path) -> None:
    """With values that are no JSON, too: durations, dates, an asset."""
    from airflow.sdk import DAG, Asset
    from airflow.serialization.serialized_objects import DagSerialization

    with DAG("any", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        kafka_spark_batch(
            "b",
            application="job.py",
            topics=["orders"],
            group_id="g",
            overlap_timeout=timedelta(minutes=5),
            startup_mode="timestamp",
            startup_timestamp=datetime(2026, 1, 1, tzinfo=UTC),
            bounded_mode="timestamp",
            idle_timeout=timedelta(seconds=3),
            asset=Asset("read"),
        )
    assert set(DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag)).task_dict) == set(dag.task_dict)
    assert deepcopy(dag.task_dict["b.resolve"]).overlap_timeout == timedelta(minutes=5)
