"""A problem is a sentence that knows which parameters it depends on; only a template of one of them hides it."""

from __future__ import annotations

import pickle
from copy import deepcopy

import pytest

from airflow_kafka_offsets.errors import InvalidRequest, names
from airflow_kafka_offsets.request.problems import Problem, Problems, WrongTogether
from tests.request.asking import WINDOW, problems


def wrong() -> int:
    raise ValueError("is 'x'; give a number")


def test_a_wrong_value_is_a_problem_of_its_parameter_and_has_the_default() -> None:
    found = Problems()
    assert found.take("splits", wrong, 1) == 1
    assert found == ["splits is 'x'; give a number."]
    assert found[0].parameters == ("splits",)  # type: ignore[attr-defined]


def test_a_problem_is_left_out_where_one_of_its_parameters_is_undecided_and_only_then() -> None:
    found = Problems()
    found.add("splits and max_records are at odds.", "splits", "max_records")
    found.add("This has the name of topics in it.")
    for undecided, left in (("splits", found[1:]), ("max_records", found[1:]), ("topics", found)):
        assert found.without({undecided}) == left


def test_a_value_that_is_wrong_beside_another_depends_on_both() -> None:
    def beside() -> None:
        raise WrongTogether("is not of this group", "group_id")

    found = Problems()
    found.take("specific_offsets", beside, None)
    assert found.without({"group_id"}) == found.without({"specific_offsets"}) == []


def test_each_problem_is_named_once() -> None:
    found = Problems()
    for _ in range(2):
        found.take("splits", wrong, 1)
    assert len(found) == 1


def test_a_problem_names_what_the_user_has_written() -> None:
    found = Problems()
    with names({"splits": "--splits", "group_id": "--group-id"}), names({"group_id": "group.id in the connection"}):
        found.take("group_id", wrong, None)
        found.take("splits", wrong, 1)
    assert found == [
        "group.id in the connection is 'x'; give a number.",
        "--splits is 'x'; give a number.",
    ]


@pytest.mark.parametrize("copy", [deepcopy, lambda error: pickle.loads(pickle.dumps(error))], ids=["copied", "pickled"])
def test_problems_survive_the_way_between_processes(copy) -> None:  # type: ignore[no-untyped-def]
    [problem] = copy(InvalidRequest((Problem("splits is 0.", "splits"),))).problems
    assert (problem, problem.parameters) == ("splits is 0.", ("splits",))


@pytest.mark.parametrize(
    ("given", "parameters"),
    [
        ({"topics": "a b"}, {"topics"}),
        ({"partitions": {"a": [0]}}, {"topics", "topic_pattern", "partitions"}),
        ({"startup_timestamp": 5}, {"startup_timestamp", "startup_mode"}),
        ({"startup_mode": "specific-offsets"}, {"specific_offsets", "startup_mode"}),
        ({"require_complete_window": True}, {"require_complete_window", "bounded_mode"}),
        ({**WINDOW, "startup_timestamp": 5, "bounded_timestamp": 4}, {"startup_timestamp", "bounded_timestamp"}),
        (
            {**WINDOW, "startup_timestamp": 4, "bounded_timestamp": 5, "max_records": 3},
            {"max_records", "startup_mode", "bounded_mode"},
        ),
        ({"group_id": None}, {"group_id", "startup_mode"}),
        (
            {"startup_mode": "specific-offsets", "specific_offsets": "other,orders,0,5"},
            {"specific_offsets", "group_id"},
        ),
        ({"policies": {"data_loss": "hope"}}, {"policies"}),
    ],
)
def test_a_problem_of_a_request_names_all_parameters_that_it_depends_on(given, parameters) -> None:  # type: ignore[no-untyped-def]
    [problem] = problems(**given)
    assert set(problem.parameters) == parameters
