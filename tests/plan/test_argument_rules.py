"""The words that every way to submit hands to a Spark job."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets import batch_arguments
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.plan.job_arguments import MOST_BYTES, parse_job_arguments

PLAN = "pipelines/g%2Fdag%2Fresolve/batches/00000000/0000000007/1.json"
ARGUMENTS = ["--plan", PLAN, "--plan-id", "p1", "--split", "3", "--work-store", "s3://bucket/store"]
changed = ("{{", "}}", "$(", "$$", "\0")
words = st.text(max_size=50).filter(lambda word: not word.startswith("--") and not any(c in word for c in changed))


@given(st.lists(words, max_size=20))
def test_the_jobs_own_words_come_first_and_nothing_is_changed(own: list[str]) -> None:
    assert batch_arguments(ARGUMENTS, own) == [*own, *ARGUMENTS]
    assert parse_job_arguments(batch_arguments(ARGUMENTS, own)).split == 3


@pytest.mark.parametrize(
    ("own", "problem"),
    [
        (["a\0b"], "has '.x00', which no operating system lets through"),
        (['{"a":{"b":1}}'], "has '}}', which Airflow, YARN and Databricks would change"),
        (["{{ ds }}"], "has '{{'"),
        (["$(HOSTNAME)"], "has '[$][(]', which Kubernetes would change"),
        (["a$$b"], "has '[$][$]', which Kubernetes"),
        ([7], "argument 7 is of type int"),
        (["--split", "4"], "--split is given twice"),
        (["x" * MOST_BYTES], "bytes as JSON, and 10,000 reach a job"),
        (["é" * 5_000], "bytes as JSON"),
    ],
)
def test_a_word_that_would_not_reach_the_job_is_refused(own: list[Any], problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        batch_arguments(ARGUMENTS, own)


def test_a_list_that_is_no_batchs_is_refused_with_all_that_is_wrong() -> None:
    with pytest.raises(InvalidRequest) as refused:
        batch_arguments(ARGUMENTS[2:], ["}}", "$("])
    assert [problem.split(",")[0][:32] for problem in refused.value.problems] == [
        "The Spark job's argument '}}' ha",
        "The Spark job's argument '$(' ha",
        "The job has no --plan. ResolveSt",
    ]


def test_as_many_bytes_as_every_service_takes() -> None:
    most = MOST_BYTES - len(json.dumps(["", *ARGUMENTS]).encode())
    assert batch_arguments(ARGUMENTS, ["x" * most])
    with pytest.raises(InvalidRequest):
        batch_arguments(ARGUMENTS, ["x" * (most + 1)])
