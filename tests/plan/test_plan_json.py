"""The plan's JSON is DESIGN's, version 1: more may come, nothing may go; Spark's strings are safe to pass on."""

import copy
import json

import pytest

from airflow_kafka_offsets.kafka_values import Actor, RunKey
from airflow_kafka_offsets.plan.plan import BatchName, VerifiedSplit
from airflow_kafka_offsets.plan.plan_json import plan_from_dict, plan_to_dict, spark_options
from airflow_kafka_offsets.plan.planned_anew import shortened
from tests.builders import NOW, PIPELINE, plan, planned, tp

WINDOW_KEY = "20261120T000000Z--20261121T000000Z-0a1b2c3d"
FULL = plan(
    [
        planned(tp(0, "clicks"), 0, 0),
        planned(
            0, 4, 10, position=3, position_epoch=2, committed_offset=3, log_start_offset=2, leader_epoch=3, lost=1,
            skipped=2, continuity="gap",
        ),
        planned(
            2, 7, 9, start_reason="earliest → log start", newest_timestamp=5, late=3, past_end=2, held_back=1,
            margin_ms=8,
        ),
    ],
    topic_ids={"clicks": None, "orders": "id-1", "without-partitions": "id-2"},
    batch=BatchName(WINDOW_KEY, None, None),
    window=True,
    window_bounds=(1, 9),
    window_bounds_by_topic={"orders": (1, 2), "clicks": (3, 9)},
    window_complete=False,
    low_watermark_ms=5,
    timestamp_types={"orders": "LogAppendTime"},
    interval=(1, 2),
    run=RunKey("d", "r", "t", 4),
    group_follows=False,
    output="s3://lake",
    subscription="topics clicks, orders",
    startup="timestamp of the data interval",
    task=("d", "t"),
    splits=3,
    split_by="flink",
    overwrites=(1, 2),
    restarts=("a", "b"),
    restarted=True,
    reason="re_plan",
    withdrawn=True,
    warnings=("careful",),
    ignored=(tp(9), tp(1, "a.b-c_d")),
    vanished=("gone",),
)  # fmt: skip
BATCH = plan([planned(0, 1, 2)])
BARE = plan([planned(0, 1, 2)], run=None, group_id=None, pipeline=None, instance=None)
PIECES = plan([planned(0, 0, 30_000), planned(1, 5, 9)], splits=3)
SHORTER = shortened(PIECES, Actor(None), {0: VerifiedSplit(PIECES.plan_id, 2)}, {tp(0): 25_000}, "records are gone")


NAMES = ["window", "batch", "nothing optional", "empty", "a partition in pieces", "a split that stays"]


def as_json(made):
    return json.loads(json.dumps(plan_to_dict(made)))


@pytest.mark.parametrize("made", [FULL, BATCH, BARE, plan(), PIECES, SHORTER], ids=NAMES)
def test_a_plan_is_read_back_as_it_was_written(made):
    again = plan_from_dict(as_json(made))
    assert again == made
    assert again.plan_id == made.plan_id


def test_the_JSON_is_designs():
    data = as_json(FULL)
    expected = {
        "version": 1,
        "plan_id": FULL.plan_id,
        "pipeline": PIPELINE,
        "batch": {"key": WINDOW_KEY, "number": None, "after": None},
        "window_bounds": [1, 9],
        "cluster_id": "cluster-1",
        "group_id": "g",
        "isolation_level": "read_uncommitted",
        "startup_mode": "group-offsets",
        "bounded_mode": "latest-offset",
        "resolved_at_ms": NOW,
        "interval": [1, 2],
        "run": {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": 4},
        "splits": 3,
        "split_by": "flink",
        "record_count_upper_bound": 8,
    }
    assert {name: data[name] for name in expected} == expected
    columns = {
        "topic_id": "id-1",
        "partition": [0, 2],
        "start_offset": [4, 7],
        "end_offset": [10, 9],
        "committed_offset": [3, None],
        "log_start_offset": [2, 0],
        "leader_epoch": [3, None],
        "start_reason": ["committed", "earliest → log start"],
        "end_reason": ["latest", "latest"],
        "lost": [1, 0],
        "skipped": [2, 0],
    }
    assert {name: data["topics"]["orders"][name] for name in columns} == columns
    assert data["topics"]["clicks"]["topic_id"] is None


def test_a_batch_of_the_log_is_named_by_key_and_number_and_the_one_before():
    batch = as_json(BATCH)["batch"]
    assert batch == {"key": BATCH.batch.key, "number": 7, "after": "0000000006-20261120T090000-aaaa"}


def test_absent_is_null():
    data = as_json(BARE)
    absent = ("group_id", "pipeline", "task", "interval", "run", "instance", "output", "reason", "window_complete",
              "window_bounds", "window_bounds_by_topic", "low_watermark_ms")  # fmt: skip
    assert [data[name] for name in absent] == [None] * len(absent)


def edited(edit, made=FULL):
    data = copy.deepcopy(as_json(made))
    edit(data)
    return data


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda d: d.update(colour="red"), id="of the plan"),
        pytest.param(lambda d: d["batch"].update(colour="red"), id="of the batch"),
        pytest.param(lambda d: d["run"].update(try_number=2), id="of the run"),
        pytest.param(lambda d: d["topics"]["orders"].update(retention_ms=1), id="of a topic"),
        pytest.param(lambda d: d["topics"]["orders"].update(rack=["a", "b"]), id="of a partition"),
    ],
)
def test_a_field_that_a_later_release_adds_is_passed_over(edit):
    assert plan_from_dict(edited(edit)) == FULL


def of_orders(**columns):
    def edit(data):
        for name, value in columns.items():
            data["topics"]["orders"][name][0] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        pytest.param(lambda d: d.update(version=2), "version 2 is not known", id="a later version"),
        pytest.param(lambda d: d.update(version="1"), "version '1' is not known", id="a version that is text"),
        pytest.param(lambda d: d.update(version=True), "version True is not known", id="a version that is a flag"),
        pytest.param(lambda d: d.pop("version"), "version None is not known", id="no version"),
        pytest.param(lambda d: d.pop("cluster_id"), "not a plan.*cluster_id", id="a field is missing"),
        pytest.param(lambda d: d["topics"]["orders"].pop("position"), "no column position", id="a column"),
        pytest.param(lambda d: d["topics"]["orders"]["lost"].pop(), "no column lost for each", id="a shorter column"),
        pytest.param(of_orders(end_offset=11), "it was altered", id="an end"),
        pytest.param(lambda d: d["topics"].pop("clicks"), "it was altered", id="a topic is gone"),
        pytest.param(lambda d: d.update(pipeline="h"), "it was altered", id="another pipeline"),
        pytest.param(lambda d: d["batch"].update(key=f"{WINDOW_KEY}x"), "it was altered", id="another batch"),
        pytest.param(lambda d: d.update(overwrites=[1]), "it was altered", id="another split is started"),
        pytest.param(lambda d: d.update(plan_id="f" * 32), "it was altered", id="another id"),
        pytest.param(lambda d: d.pop("plan_id"), "it was altered", id="no id"),
        pytest.param(of_orders(end_offset=1), "below start", id="runs back"),
        pytest.param(of_orders(start_offset=-2), "negative", id="sentinel"),
        pytest.param(lambda d: d.update(topics=None), "no object of topics|not a plan", id="no topics"),
    ],
)
def test_what_is_no_intact_plan_is_refused(edit, words):
    with pytest.raises(ValueError, match=words):
        plan_from_dict(edited(edit))


# What is no part of the id, so that the digest says nothing about it.
@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda d: d.update(splits=10**9), id="more splits than there can be"),
        pytest.param(lambda d: d.update(splits=0), id="no split"),
        pytest.param(lambda d: d.update(overwrites=[99]), id="a split that it does not have"),
        pytest.param(lambda d: d.update(window="false"), id="a word for a truth"),
        pytest.param(lambda d: d.update(resolved_at_ms=2**63), id="a time of more than 64 bits"),
        pytest.param(lambda d: d.update(startup_mode="\ud800"), id="half a character"),
        pytest.param(lambda d: d["topics"]["orders"].update(timestamp_type="Sundial"), id="a clock that is not known"),
        pytest.param(lambda d: d.update(group_id=5), id="a group that is a number"),
        pytest.param(lambda d: d.update(instance=5), id="an Airflow that is a number"),
        pytest.param(lambda d: d.update(output=["s3://lake"]), id="an output that is a list"),
        pytest.param(lambda d: d.update(resolved_at_ms="5"), id="a time that is text"),
        pytest.param(lambda d: d.update(resolved_at_ms=5.0), id="a time that is a float"),
        pytest.param(lambda d: d.update(interval=[1]), id="an interval without an end"),
        pytest.param(lambda d: d.update(interval=5), id="an interval that is a number"),
        pytest.param(lambda d: d.update(isolation_level="dirty"), id="an isolation level that is not known"),
        pytest.param(lambda d: d.update(warnings=[5]), id="a warning that is a number"),
        pytest.param(lambda d: d.update(warnings=None), id="no warnings"),
        pytest.param(lambda d: d.update(ignored=["orders"]), id="a partition without a number"),
        pytest.param(lambda d: d.update(ignored=[5]), id="a partition that is a number"),
        pytest.param(lambda d: d.update(vanished=[5]), id="a topic that is a number"),
        pytest.param(lambda d: d.update(restarts=[True]), id="a word that is a flag"),
        pytest.param(lambda d: d.update(reason=5), id="a reason that is a number"),
        pytest.param(lambda d: d.update(low_watermark_ms="5"), id="a watermark that is text"),
        pytest.param(lambda d: d.update(window_bounds=[1, None]), id="a window without an end"),
        pytest.param(lambda d: d.update(window_bounds_by_topic={"orders": [1]}), id="a topic's without an end"),
        pytest.param(lambda d: d.update(window_bounds_by_topic=[["orders", 1, 2]]), id="topics that are a list"),
        pytest.param(lambda d: d["run"].update(map_index="4"), id="a map index that is text"),
        pytest.param(lambda d: d["run"].pop("task_id"), id="a run without a task"),
        pytest.param(lambda d: d.update(run="d/r/t"), id="a run that is text"),
        pytest.param(lambda d: d["batch"].update(number="7"), id="a batch number that is text"),
        pytest.param(lambda d: d["batch"].update(after=6), id="a batch before that is a number"),
        pytest.param(of_orders(position="4"), id="a position that is text"),
        pytest.param(of_orders(position=None), id="no position"),
        pytest.param(of_orders(committed_offset="4"), id="a commit that is text"),
        pytest.param(of_orders(leader_epoch=1.5), id="an epoch that is a float"),
        pytest.param(of_orders(start_reason=4), id="a reason of a partition that is a number"),
        pytest.param(of_orders(lost=None), id="lost that is not known"),
        pytest.param(of_orders(skipped="2"), id="skipped that is text"),
        pytest.param(of_orders(late=True), id="late that is a flag"),
    ],
)
def test_the_type_of_every_field_is_checked(edit):
    with pytest.raises(ValueError):  # noqa: PT011 - the sentence is the object's, which names it
        plan_from_dict(edited(edit))


@pytest.mark.parametrize("data", [[], None, "plan", 5], ids=str)
def test_what_is_no_object_is_no_plan(data):
    with pytest.raises(ValueError):  # noqa: PT011
        plan_from_dict(data)


def test_the_spark_options_are_what_sparks_source_takes():
    rows = [planned(tp(1, "clicks"), 0, 3), planned(0, 4, 10), planned(2, 7, 9)]
    assert spark_options(rows) == {
        "assign": '{"clicks":[1],"orders":[0,2]}',
        "startingOffsets": '{"clicks":{"1":0},"orders":{"0":4,"2":7} }',
        "endingOffsets": '{"clicks":{"1":3},"orders":{"0":10,"2":9} }',
    }


def test_no_partition_makes_three_empty_options():
    assert spark_options([]) == {"assign": "{}", "startingOffsets": "{}", "endingOffsets": "{}"}
