"""The plan's JSON is DESIGN's, version 1: more may come, nothing may go; Spark's strings are safe to pass on."""

import copy
import json

import pytest

from airflow_kafka_offsets.offsets.manifest import plan_from_dict, plan_to_dict, spark_options
from airflow_kafka_offsets.offsets.spec import RunKey
from tests.offsets.builders import plan, planned, tp

FULL = plan(
    [
        planned(tp(0, "clicks"), 0, 0),
        planned(0, 4, 10, base_offset=4, log_start_offset=2, leader_epoch=3, lost=1, skipped=2),
        planned(2, 7, 9, moved_back_by="restart", start_reason="earliest → log start", newest_timestamp=5, late=3),
    ],
    topic_ids={"clicks": None, "orders": "id-1"},
    window=True,
    interval=(1, 2),
    run=RunKey("d", "r", "t", 4),
    parent="c1",
    replaces="p0",
    window_complete=False,
    low_watermark_ms=5,
    window_bounds=(1, 2),
    splits=3,
    split_by="flink",
    warnings=("careful",),
    ignored=(tp(9), tp(1, "a.b-c_d")),
)  # fmt: skip
BARE = plan([planned(0, 1, 2)], run=None, group_id=None, checkpoint_id=None)


def as_json(made):
    return json.loads(json.dumps(plan_to_dict(made)))


@pytest.mark.parametrize("made", [FULL, BARE, plan()], ids=["everything", "nothing optional", "no partition"])
def test_a_plan_is_read_back_as_it_was_written(made):
    again = plan_from_dict(as_json(made))
    assert again == made
    assert again.plan_id == made.plan_id


def test_the_JSON_is_designs():
    data = as_json(FULL)
    expected = {
        "version": 1,
        "plan_id": FULL.plan_id,
        "parent": "c1",
        "cluster_id": "cluster-1",
        "group_id": "g",
        "checkpoint_id": "g/billing/resolve",
        "isolation_level": "read_uncommitted",
        "startup_mode": "group-offsets",
        "bounded_mode": "latest-offset",
        "window": True,
        "resolved_at_ms": 1_795_168_800_000,
        "interval": [1, 2],
        "run": {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": 4},
        "replaces": "p0",
        "record_count_upper_bound": 8,
    }
    assert {name: data[name] for name in expected} == expected
    columns = {
        "topic_id": "id-1",
        "partition": [0, 2],
        "start_offset": [4, 7],
        "end_offset": [10, 9],
        "base_offset": [4, None],
        "log_start_offset": [2, 0],
        "leader_epoch": [3, None],
        "start_reason": ["committed", "earliest → log start"],
        "end_reason": ["latest", "latest"],
        "lost": [1, 0],
        "skipped": [2, 0],
    }
    assert {name: data["topics"]["orders"][name] for name in columns} == columns
    assert data["topics"]["clicks"]["topic_id"] is None


def test_absent_is_null():
    data = as_json(BARE)
    absent = ("parent", "group_id", "checkpoint_id", "interval", "run", "replaces", "window_complete", "window_bounds")
    assert [data[name] for name in absent] == [None] * len(absent)


def edited(edit, made=FULL):
    data = copy.deepcopy(as_json(made))
    edit(data)
    return data


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda d: d.update(colour="red"), id="of the plan"),
        pytest.param(lambda d: d["run"].update(try_number=2), id="of the run"),
        pytest.param(lambda d: d["topics"]["orders"].update(retention_ms=1), id="of a topic"),
        pytest.param(lambda d: d["topics"]["orders"].update(rack=["a", "b"]), id="of a partition"),
    ],
)
def test_a_field_that_a_later_release_adds_is_passed_over(edit):
    assert plan_from_dict(edited(edit)) == FULL


@pytest.mark.parametrize(
    "missing",
    [
        "moved_back_by",
        "newest_timestamp",
        "late",
        "window_complete",
        "low_watermark_ms",
        "window_bounds",
        "splits",
        "split_by",
        "warnings",
        "ignored",
    ],
)
def test_a_field_that_designs_JSON_lacks_may_be_missing(missing):
    made = plan([planned(0, 1, 2)])

    def drop(data):
        data.pop(missing, None)
        data["topics"]["orders"].pop(missing, None)

    assert plan_from_dict(edited(drop, made)) == made


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        pytest.param(lambda d: d.update(version=2), "version 2 is not known", id="a later version"),
        pytest.param(lambda d: d.pop("version"), "version None is not known", id="no version"),
        pytest.param(lambda d: d.pop("cluster_id"), "not a plan.*cluster_id", id="a field is missing"),
        pytest.param(lambda d: d["topics"]["orders"].pop("base_offset"), "not a plan.*base_offset", id="a column"),
        pytest.param(lambda d: d["topics"]["orders"]["lost"].pop(), "shorter|longer", id="columns of two lengths"),
        pytest.param(lambda d: d["topics"]["orders"]["end_offset"].__setitem__(0, 11), "it was altered", id="an end"),
        pytest.param(lambda d: d["topics"].pop("clicks"), "it was altered", id="a topic is gone"),
        pytest.param(lambda d: d.update(group_id="h"), "it was altered", id="another group"),
        pytest.param(lambda d: d.update(plan_id="f" * 32), "it was altered", id="another id"),
        pytest.param(lambda d: d["topics"]["orders"]["end_offset"].__setitem__(0, 1), "below start", id="runs back"),
        pytest.param(lambda d: d["topics"]["orders"]["start_offset"].__setitem__(0, -2), "negative", id="sentinel"),
        pytest.param(lambda d: d.update(topics=None), "not a plan", id="no topics"),
    ],
)
def test_what_is_no_intact_plan_is_refused(edit, words):
    with pytest.raises(ValueError, match=words):
        plan_from_dict(edited(edit))


def test_the_spark_options_are_what_sparks_source_takes():
    rows = [planned(tp(1, "clicks"), 0, 3), planned(0, 4, 10), planned(2, 7, 9)]
    assert spark_options(rows) == {
        "assign": '{"clicks":[1],"orders":[0,2]}',
        "startingOffsets": '{"clicks":{"1":0},"orders":{"0":4,"2":7} }',
        "endingOffsets": '{"clicks":{"1":3},"orders":{"0":10,"2":9} }',
    }


def test_no_partition_makes_three_empty_options():
    assert spark_options([]) == {"assign": "{}", "startingOffsets": "{}", "endingOffsets": "{}"}
