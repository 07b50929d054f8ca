"""A job that knows of no batch is given the batch's offsets in its own arguments, and no bound alone."""

from __future__ import annotations

import json

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.kafka_values import Actor, OffsetRange
from airflow_kafka_offsets.plan.job_arguments import has_placeholders, offset_words, placeholder_problems
from airflow_kafka_offsets.plan.planned_anew import emptied, planned_anew, skipped
from airflow_kafka_offsets.request.policies import Skip
from tests.builders import KEY, plan, planned, tp

WORDS = ["--assign={assign}", "--from", "{starting_offsets}", "--to", "{ending_offsets}", "/lake/{batch_key}/{split}"]
IN_ONE_PLACE = [word.replace("/{split}", "") for word in WORDS]


def test_each_split_with_records_gets_its_own_ranges_and_a_place_of_its_own() -> None:
    made = plan([planned(0, 5, 9), planned(1, 0, 3)], splits=2)
    both = [offset_words(WORDS, made, [split])[0] for split in (0, 1)]
    starts = [json.loads(words[2]) for words in both]
    ends = [json.loads(words[4]) for words in both]
    assert sorted(map(str, starts)) == ["{'orders': {'0': 5}}", "{'orders': {'1': 0}}"]
    assert sorted(map(str, ends)) == ["{'orders': {'0': 9}}", "{'orders': {'1': 3}}"]
    assert [words[5] for words in both] == [f"/lake/{made.batch.key}/{split}" for split in (0, 1)]
    assert all("--plan" not in words and "}}" not in "".join(words) for words in both)


def test_a_split_without_records_starts_no_job() -> None:
    assert offset_words(WORDS, plan([planned(0, 5, 5)]), [0]) == []


def test_a_job_that_would_overwrite_what_another_one_has_written_is_not_started() -> None:
    """Who asked for one job has named no place for a second."""
    left_out = Skip(KEY, only=((tp(0), OffsetRange(6, 7)),))
    made = skipped(plan([planned(0, 5, 9)]), Actor(None, None), left_out, {})
    assert made is not None
    assert [words[5][-2:] for words in offset_words(WORDS, made, [0, 1])] == ["/0", "/1"]
    with pytest.raises(InvalidRequest, match="2 Spark jobs do batch 7, and each could overwrite") as refused:
        offset_words(IN_ONE_PLACE, made, [0, 1])
    assert f"first remove what is in the output of {made.batch.key}" in str(refused.value)


@pytest.mark.parametrize("splits", [2, "2"])
def test_several_jobs_have_several_places_or_nothing_is_planned(splits: int | str) -> None:
    (problem,) = placeholder_problems(IN_ONE_PLACE, splits)
    assert "splits is 2, and application_args has no {split}" in problem
    assert placeholder_problems(WORDS, splits) == placeholder_problems(IN_ONE_PLACE, 1) == []
    made = plan([planned(0, 5, 9), planned(1, 0, 3)], splits=2)
    with pytest.raises(InvalidRequest, match="2 Spark jobs do batch 7"):
        offset_words(IN_ONE_PLACE, made, [0, 1])


def test_a_split_that_has_nothing_to_read_any_more_is_given_a_range_without_a_record() -> None:
    """What an attempt before it has written is in the output until a job writes nothing in its place."""
    made, by = plan([planned(0, 5, 9), planned(1, 0, 3)], splits=2), Actor(None, None)
    of_one = next(number for number, split in enumerate(made.splits) if split[0].topic_partition == tp(1))
    without = planned_anew(made, plan([planned(0, 5, 9), planned(1, 0, 0)]), by, "held")
    assert without.overwrites == (of_one,)
    words = offset_words(WORDS, without, without.splits_to_start())[of_one]
    assert words[:5] == ['--assign={"orders":[0]}', "--from", '{"orders":{"0":9} }', "--to", '{"orders":{"0":9} }']
    assert words[5] == f"/lake/{made.batch.key}/{of_one}"
    with pytest.raises(InvalidRequest, match="2 Spark jobs do batch 7"):
        offset_words(IN_ONE_PLACE, without, without.splits_to_start())
    assert len(offset_words(IN_ONE_PLACE, emptied(made, by, "skip"), [0, 1])) == 2  # nothing, in whatever order
    (alone,) = offset_words(WORDS, emptied(plan([planned(0, 5, 9)]), by, "skip"), [0])
    assert alone[2] == alone[4] == '{"orders":{"0":9} }'


@pytest.mark.parametrize("bound", ["{starting_offsets}", "{ending_offsets}", "{assign}"])
def test_a_bound_alone_is_refused_since_the_job_would_read_other_records(bound: str) -> None:
    (problem,) = placeholder_problems(["--only", bound])
    assert "reads other records than the batch. Give it both." in problem


def test_other_arguments_are_left_as_they_are() -> None:
    assert not has_placeholders(["--day", "{day}", '{"a": 1}'])
    assert placeholder_problems(["--day", "{day}"]) == []


def test_more_partitions_than_arguments_hold_are_refused_with_the_way_out() -> None:
    made = plan([planned(n, 10**11, 10**11 + 1) for n in range(1_000)])
    with pytest.raises(InvalidRequest, match="1000 partitions: give more splits"):
        offset_words(WORDS, made, [0])
