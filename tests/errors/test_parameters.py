"""What is named is what was typed: a parameter by its name, an option by its flag, a setting by the connection's."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_kafka_offsets.cli.main import main
from airflow_kafka_offsets.cli.options import OF_FIELD
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.plan.consumer_lag import parse_limits
from airflow_kafka_offsets.request.parameters import RequestParameters, ScopeParameters, names_of
from airflow_kafka_offsets.request.parse_request import RunContext, parse_window_end, request_for
from airflow_kafka_offsets.request.subscription import scope_for
from airflow_kafka_offsets.stores.location import location_of
from tests.builders import NOW
from tests.request.asking import problems

WRONG: dict[str, tuple[Any, dict[str, Any]]] = {
    "topics": ("", {}),
    "topic_pattern": ("orders[", {"topics": None}),
    "partitions": ("{", {"topics": None}),
    "group_id": (" ", {}),
    "isolation_level": ("serializable", {}),
    "pipeline_id": (" ", {}),
    "startup_mode": ("newest", {}),
    "startup_timestamp": ("soon", {"startup_mode": "timestamp"}),
    "specific_offsets": ("{", {"startup_mode": "specific-offsets"}),
    "auto_offset_reset": ("newest", {}),
    "bounded_mode": ("unbounded", {}),
    "bounded_timestamp": ("soon", {"bounded_mode": "timestamp"}),
    "bounded_offsets": ("{", {"bounded_mode": "specific-offsets"}),
    "partition_width": ("P1M", {"bounded_mode": "timestamp"}),  # of a run for a partition; a command is for none
    "from_plan": ("{", {}),
    "require_complete_window": ("perhaps", {}),
    "idle_timeout": ("soon", {}),
    "min_retention_margin": ("PT0S", {}),
    "max_records": ("many", {}),
    "max_records_per_partition": ("0", {}),
    "splits": ("0", {}),
    "split_by": ("hash", {}),
    "output_name": (" ", {}),
    "commit_mode": ("KAFKA_PERIODIC", {}),
    "filter_restored_partitions": ("perhaps", {}),
    "policies": ("data_loss=hope", {}),
    "hold": ("orders", {}),
    "restart": ("a\nb", {}),
    "re_plan": ("perhaps", {}),
    "redo": ("perhaps", {}),
    "skip": ({"past": "x"}, {}),
}
"""Of each parameter a wrong value, and what has to be given with it so that it counts."""
FLAGS = {name for name, option in OF_FIELD.items() if "metavar" not in option.arguments}
"""On the command line these are there or not: there is no wrong value of them."""


def test_every_parameter_has_a_wrong_value_here() -> None:
    assert set(WRONG) == set(names_of(RequestParameters))


@pytest.mark.parametrize("name", WRONG)
def test_every_wrong_value_is_named_by_the_parameter(name: str) -> None:
    from airflow_kafka_offsets.request.bounds import Partition

    value, others = WRONG[name]
    found = problems(**{"partition": Partition("2026", NOW - 10), **others, name: value})
    assert len(found) == 1, found
    assert found[0].startswith((f"{name} is ", f"{name} has ", f"{name} {value!r} is ")), found
    assert found[0].endswith(".")


@pytest.mark.parametrize("name", sorted(WRONG.keys() - FLAGS - {"partition_width"}))
def test_every_wrong_value_is_named_by_its_flag(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    value, others = WRONG[name]
    given = {"topics": "orders", "group_id": "g", **others, name: "{" if name == "skip" else value}
    words = [word for key, said in given.items() if said is not None for word in (OF_FIELD[key].flag, said)]
    assert main(["plan", "--bootstrap-servers", "127.0.0.1:1", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"kafka-offsets: AKO-001 InvalidRequest: {OF_FIELD[name].flag} "), said
    assert said.endswith("\nPage: kafka-offsets explain AKO-001\n")
    assert name not in said or "_" not in name, said


def problem_of(ask: Any) -> str:
    with pytest.raises(InvalidRequest) as refused:
        ask()
    (problem,) = refused.value.problems
    return problem


@pytest.mark.parametrize("name", ["end", "idle_timeout", "clock_skew", "partition_width"])
def test_the_window_sensors_parameters_are_named(name: str) -> None:
    from airflow_kafka_offsets.request.bounds import Partition

    given: dict[str, Any] = {"end": NOW, name: "soon"} if name != "partition_width" else {"end": None, name: "P1M"}
    run_context = RunContext(NOW, partition=Partition("2026", NOW - 10))
    end = given.pop("end")
    said = problem_of(lambda: parse_window_end(ScopeParameters(topics="orders"), end, run_context, **given))
    assert said.startswith("end (bounded_timestamp in kafka_spark_batch) is " if name == "end" else f"{name} is ")


def test_a_missing_end_is_named_as_the_author_of_a_task_group_has_typed_it() -> None:
    said = problem_of(lambda: parse_window_end(ScopeParameters(topics="orders"), None, RunContext(NOW)))
    assert said.startswith("end (bounded_timestamp in kafka_spark_batch) is missing and this run has no data interval")


@pytest.mark.parametrize(("given", "name"), [({"min_records": "0"}, "min_records"), ({"max_age": "soon"}, "max_age")])
def test_the_lag_sensors_parameters_are_named(given: dict[str, Any], name: str) -> None:
    limits: dict[str, Any] = {"min_records": None, "max_age": None, **given}
    assert problem_of(lambda: parse_limits(**limits)).startswith(f"{name} is ")
    assert problem_of(lambda: parse_limits(None, timedelta(0))).startswith("max_age is ")


@pytest.mark.parametrize("uri", ["ftp://lake", "s3://", "s3://lake/../x"])
def test_a_work_store_is_named_by_the_parameter_and_by_its_flag(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert problem_of(lambda: location_of(uri)).startswith(f"work_store {uri} ")
    assert main(["pipelines", "--work-store", uri]) == 2
    assert capsys.readouterr().err.startswith(f"kafka-offsets: AKO-001 InvalidRequest: --work-store {uri} ")


SETTINGS = {
    "auto.offset.reset": ("smallestt", "auto_offset_reset", "earliest"),
    "isolation.level": ("serializable", "isolation_level", "read_committed"),
    "group.id": (" ", "group_id", "g"),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_of_the_connection_is_named_as_it_is_there(setting: str) -> None:
    wrong, parameter, right = SETTINGS[setting]
    config = {"group.id": "g", setting: wrong}
    asked = {"topics": "orders"}
    said = problem_of(lambda: request_for(config, RequestParameters(**asked), RunContext(NOW)))
    assert said.startswith(f"{setting} in the Kafka connection is ")
    assert request_for(config, RequestParameters(**asked, **{parameter: right}), RunContext(NOW))
    said = problem_of(lambda: request_for(config, RequestParameters(**asked, **{parameter: wrong}), RunContext(NOW)))
    assert said.startswith(f"{parameter} is ")
    if setting != "auto.offset.reset":
        said = problem_of(lambda: scope_for(config, ScopeParameters(**asked)))
        assert said.startswith(f"{setting} in the Kafka connection is ")


def test_a_setting_is_named_by_the_option_that_gave_the_settings(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=127.0.0.1:1\nauto.offset.reset=smallestt\ngroup.id=g\n")
    assert main(["plan", "--client-config", str(file), "--topics", "orders"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("kafka-offsets: AKO-001 InvalidRequest: auto.offset.reset in --client-config is 'smallestt'")
