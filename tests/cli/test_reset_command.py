"""`kafka-offsets reset`, on a real broker: every scenario, before and after, and what it costs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.kafka_values import Actor, CommittedOffset, TopicPartition
from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets
from tests.cli.conftest import Say, of
from tests.cli.pipeline import Pipeline
from tests.cluster.real import RealHands

At = tuple[str, ...]


def position(pipeline: Pipeline) -> dict[int, int]:
    newest = pipeline.log.newest()
    assert newest is not None
    assert newest.log.committed is not None
    assert newest.log.committed.position is not None
    return {tp.partition: kept.offset for tp, kept in newest.log.committed.position.offsets.items()}


def moves(output: str) -> dict[int, dict[str, Any]]:
    return {row["partition"]: row for row in json.loads(output)["partitions"]}


def test_a_reset_is_a_dry_run_that_shows_before_and_after_unless_it_is_told_to_execute(
    says: Say, broker: KafkaBroker, pipeline: Pipeline, at: At
) -> None:
    before = pipeline.objects()
    words = ("reset", *at, *of(pipeline), "--to-latest", "--reason", "poison", "--output", "json")
    status, output, messages = says(*words)
    assert status == 0
    assert "dry run" in messages
    shown = json.loads(output)
    assert (shown["version"], shown["dry_run"], shown["number"], shown["key"]) == (1, True, 2, None)
    assert (shown["skipped"], shown["lost"], shown["read_again"], shown["reason"]) == (6, 0, 0, "poison")
    expected = {"before": 4, "after": 10, "log_start": 0, "end": 10, "skipped": 6, "read_again": 0}
    assert {name: moves(output)[0][name] for name in expected} == expected
    assert pipeline.objects() == before
    assert committed_offsets(broker, pipeline.group, pipeline.topic)[0] == 4

    status, output, messages = says(*words, "--execute")
    assert status == 0
    assert messages == "warning: up to 6 records will be left out: poison.\n"
    done = json.loads(output)
    assert (done["dry_run"], done["partitions"]) == (False, shown["partitions"])
    assert (position(pipeline)[0], committed_offsets(broker, pipeline.group, pipeline.topic)[0]) == (10, 10)
    assert pipeline.newest_key == done["key"]
    newest = pipeline.log.newest()
    assert newest is not None
    assert newest.log.committed is not None
    assert newest.log.committed.by == Actor(None, None), "a person, of no Airflow"


def test_it_is_a_batch_in_the_log_and_shown_as_one(says: Say, pipeline: Pipeline, at: At) -> None:
    says("reset", *at, *of(pipeline), "--to-offset", "7", "--reason", "poison", "--execute")
    _, output, _ = says("show", *of(pipeline), "--output", "json")
    shown = json.loads(output)
    assert (shown["number"], shown["committed"], shown["skipped"]) == (2, True, 3)
    assert [row["what"] for row in shown["entries"]] == [
        "planned by a person at the command line: up to 0 records of 0 partitions, 3 skipped; "
        "reset to offset 7: poison",
        "committed by a person at the command line",
    ]
    assert shown["partitions"][0]["start_reason"] == "reset to offset 7: poison"
    assert pipeline.run("two").splits == (0,)
    newest = pipeline.log.newest()
    assert newest is not None
    assert [(p.start_offset, p.end_offset) for p in newest.log.plan.to_read()] == [(7, 10)]


def test_every_scenario_of_kafka_consumer_groups(
    says: Say, broker: KafkaBroker, pipeline: Pipeline, at: At, tmp_path: Path
) -> None:
    """From earliest to another group; `position` is of partition 0, which has the offsets 0 to 9."""
    tp = TopicPartition(pipeline.topic, 0)
    other = f"{pipeline.group}-other"
    RealHands(broker).commit_as_somebody_else(other, {tp: CommittedOffset(6)})
    file = tmp_path / "offsets.csv"
    file.write_text(f"{pipeline.topic},0,5\n")
    of_groups = tmp_path / "groups.csv"
    of_groups.write_text(f"another,{pipeline.topic},0,9\n{pipeline.group},{pipeline.topic},0,1\n")
    json_file = tmp_path / "offsets.json"
    json_file.write_text(json.dumps({pipeline.topic: {"0": 8}}))
    tomorrow = datetime.fromtimestamp(2_000_000_000, UTC).isoformat()
    scenarios: list[tuple[tuple[str, ...], int]] = [
        (("--to-earliest",), 0),
        (("--to-latest",), 10),
        (("--to-offset", "3"), 3),
        (("--shift-by", "4"), 7),
        (("--shift-by", "-2"), 5),
        (("--to-datetime", "2020-01-01T00:00:00.000"), 0),
        (("--to-datetime", tomorrow), 10),
        (("--by-duration", "P1D"), 0),
        (("--from-file", str(file)), 5),
        (("--from-file", str(of_groups)), 1),
        (("--from-file", str(json_file)), 8),
        (("--to-group", other), 6),
        (("--to-current",), 6),
        (("--to-batch", "1"), 4),
        (("--to-offset", "2", "--topics", pipeline.topic), 2),
        (("--to-offset", "3", "--partitions", json.dumps({pipeline.topic: [0]})), 3),
    ]
    for words, offset in scenarios:
        status, _, messages = says("reset", *at, *of(pipeline), *words, "--allow-duplicates", "--execute")
        assert status == 0, messages
        assert (position(pipeline)[0], words) == (offset, words)
        assert committed_offsets(broker, pipeline.group, pipeline.topic)[0] == offset


def test_what_would_be_read_again_is_said_and_takes_a_further_word(says: Say, pipeline: Pipeline, at: At) -> None:
    words = ("reset", *at, *of(pipeline), "--to-earliest")
    before = pipeline.objects()
    status, output, messages = says(*words, "--output", "json")
    assert (status, json.loads(output)["read_again"]) == (0, 4)
    assert "up to 4 records would be read again, under new keys" in messages
    assert "--execute needs --allow-duplicates too" in messages
    status, output, messages = says(*words, "--execute")
    assert (status, output) == (1, "")
    assert "from 4 back to 0, so up to 4 records are read again" in messages
    assert pipeline.objects() == before
    assert says(*words, "--execute", "--allow-duplicates")[0] == 0


def test_an_offset_beyond_the_log_is_brought_to_its_end_and_said(says: Say, pipeline: Pipeline, at: At) -> None:
    status, output, messages = says("reset", *at, *of(pipeline), "--to-offset", "99", "--output", "json")
    assert status == 0
    assert "2 offsets that the log does not have were brought to its ends" in messages
    assert (moves(output)[0]["after"], moves(output)[0]["brought_to"]) == (10, "end")
    assert (moves(output)[1]["after"], moves(output)[1]["brought_to"]) == (0, "end")


def test_partitions_without_an_offset_stay_and_are_named(
    says: Say, broker: KafkaBroker, pipeline: Pipeline, at: At
) -> None:
    other = f"{pipeline.group}-other"
    tp = TopicPartition(pipeline.topic, 0)
    RealHands(broker).commit_as_somebody_else(other, {tp: CommittedOffset(6)})
    status, output, messages = says("reset", *at, *of(pipeline), "--to-group", other, "--output", "json")
    assert (status, json.loads(output)["stays"]) == (0, [f"{pipeline.topic}[1]"])
    assert f"no offset is given for {pipeline.topic}[1]: they stay where they are" in messages


def test_a_reset_to_where_it_is_makes_no_batch(says: Say, pipeline: Pipeline, at: At) -> None:
    before = pipeline.objects()
    status, output, messages = says("reset", *at, *of(pipeline), "--to-current", "--execute")
    assert (status, messages) == (0, "")
    assert "The position is there already: no batch is made." in output
    assert pipeline.objects() == before


def test_an_unfinished_batch_is_in_the_way(says: Say, pipeline: Pipeline, at: At) -> None:
    pipeline.plan("two")
    status, output, messages = says("reset", *at, *of(pipeline), "--to-latest", "--execute")
    assert (status, output) == (1, "")
    assert f"kafka-offsets skip --batch {pipeline.newest_key} first" in messages


def test_a_group_with_live_members_is_status_1_and_nothing_is_written(
    says: Say, broker: KafkaBroker, pipeline: Pipeline, at: At
) -> None:
    before = pipeline.objects()
    with RealHands(broker).live_member(pipeline.group, pipeline.topic):
        status, output, messages = says("reset", *at, *of(pipeline), "--to-latest", "--execute")
    assert (status, output) == (1, "")
    assert "live members" in messages
    assert pipeline.objects() == before


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        pytest.param([], 2, "Where to? Give exactly one of --to-earliest", id="nowhere"),
        pytest.param(["--to-earliest", "--to-latest"], 2, "Where to? Give exactly one of", id="two places"),
        pytest.param(["--to-offset", "-1"], 2, "--to-offset is -1; an offset is not negative", id="sentinel"),
        pytest.param(["--to-offset", "many"], 2, "invalid int value", id="no number"),
        pytest.param(["--to-datetime", "soon"], 2, "--to-datetime is 'soon'", id="no time"),
        pytest.param(["--by-duration", "P1Y"], 2, "--by-duration is 'P1Y'", id="no duration"),
        pytest.param(["--to-group", " "], 2, "--to-group is empty", id="no group"),
        pytest.param(
            ["--from-file", "/nonexistent"], 2, "--from-file is '/nonexistent', which cannot be read", id="no file"
        ),
        pytest.param(["--to-batch", "9"], 1, "no batch and no window '9'", id="no batch"),
        pytest.param(["--to-latest", "--topics", "a", "--partitions", "{}"], 2, "not both", id="two scopes"),
        pytest.param(["--to-latest", "--topics", "a b"], 2, "--topics has 'a b'", id="no topic"),
        pytest.param(["--to-latest", "--topics", "other"], 1, "other: the pipeline has no position", id="other topic"),
    ],
)
def test_a_reset_that_is_wrong_writes_nothing_and_says_why(
    says: Say, pipeline: Pipeline, at: At, words: list[str], status: int, sentence: str
) -> None:
    before = pipeline.objects()
    found, output, messages = says("reset", *at, *of(pipeline), *words, "--execute")
    assert (found, output) == (status, "")
    assert sentence in messages
    assert pipeline.objects() == before


@pytest.mark.parametrize("text", ["", "orders,0\n", "orders,0,-1\n", "{}"])
def test_a_file_that_is_no_offsets_is_status_2(
    says: Say, pipeline: Pipeline, at: At, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "offsets"
    file.write_text(text)
    status, _, messages = says("reset", *at, *of(pipeline), "--from-file", str(file))
    assert (status, "Traceback" in messages) == (2, False)
    assert messages.startswith("kafka-offsets: AKO-001 InvalidRequest: --from-file ")
