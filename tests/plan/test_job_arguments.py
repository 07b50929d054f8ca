"""The arguments between the operator and the Spark job."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.plan.job_arguments import JobArguments, parse_job_arguments
from tests.builders import job_arguments

NAME = "pipelines/g%2Fdag%2Fresolve/batches/00000000/0000000007/1.json"
ARGUMENTS = ["--plan", NAME, "--plan-id", "p1", "--split", "3", "--work-store", "s3://bucket/store"]
words = st.text(min_size=1).filter(lambda text: "{{" not in text and "}}" not in text)


def test_arguments_are_pairs_of_name_and_value() -> None:
    assert job_arguments(NAME, "p1", 3, "s3://bucket/store") == ARGUMENTS
    with_servers = job_arguments(NAME, "p1", 3, "s3://bucket/store", "a:9092,b:9092")
    assert with_servers == [*ARGUMENTS, "--bootstrap-servers", "a:9092,b:9092"]


names = st.from_regex(
    r"pipelines/[a-z%.-]{1,9}/(batches/[0-9]{8}/[0-9]{10}|windows/[0-9-]{28})/[1-9][0-9]?\.json", fullmatch=True
)


@given(names, words, st.integers(0, 10_000), words, st.none() | words)
def test_arguments_round_trip(name: str, plan_id: str, split: int, store: str, servers: str | None) -> None:
    parsed = parse_job_arguments(job_arguments(name, plan_id, split, store, servers))
    assert parsed == JobArguments(name, plan_id, split, store, servers)


def test_the_job_s_own_arguments_are_left_alone() -> None:
    own = ["--", "-h", "--output", "s3://lake", "--planet", "mars", "positional", "--plan-b=x"]
    assert parse_job_arguments([*own, *ARGUMENTS, *own]) == parse_job_arguments(ARGUMENTS)


def test_an_equals_sign_may_stand_between_name_and_value() -> None:
    joined = [f"{name}={value}" for name, value in zip(ARGUMENTS[::2], ARGUMENTS[1::2], strict=True)]
    assert parse_job_arguments(joined) == parse_job_arguments(ARGUMENTS)


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        ([], "no --plan, --plan-id, --split, --work-store.*expand"),
        (ARGUMENTS[:6], "no --work-store"),
        ([*ARGUMENTS, "--split", "4"], "--split is given twice"),
        ([*ARGUMENTS[:5], "-1", *ARGUMENTS[6:]], "--split is '-1'"),
        ([*ARGUMENTS[:5], "two", *ARGUMENTS[6:]], "--split is 'two'"),
        ([*ARGUMENTS[:5], "9" * 5000, *ARGUMENTS[6:]], "--split is '999"),
        (ARGUMENTS[:-1], "--work-store has no value"),
        (
            [*ARGUMENTS[:1], "../../etc/passwd", *ARGUMENTS[2:]],
            "--plan is '../../etc/passwd'; it is the name of a plan",
        ),
        ([*ARGUMENTS[:1], NAME.replace("1.json", "0-000001-abcd.begun.json"), *ARGUMENTS[2:]], "--plan is .* a plan"),
    ],
)
def test_what_is_wrong_is_named(argv: list[str], problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        parse_job_arguments(argv)


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse_job_arguments(["--plan", NAME, "--plan", NAME, "--split", "x"])
    assert len(raised.value.problems) == 3


@pytest.mark.parametrize("uri", ["s3://bucket/{{x", "s3://bucket/x}}"])
def test_what_yarn_or_airflow_would_change_is_refused(uri: str) -> None:
    with pytest.raises(InvalidRequest, match="two braces"):
        job_arguments(NAME, "p1", 0, uri)
