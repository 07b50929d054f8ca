"""`kafka-offsets pipelines` and `show`: what a work store says of its pipelines and batches."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from airflow_kafka_offsets.kafka_values import TopicPartition
from tests.cli.conftest import Say, of
from tests.cli.pipeline import Pipeline, key_of

HOUR = 3_600_000
NOON = 1_795_176_000_000  # 2026-11-20T12:00Z


def window(pipeline: Pipeline, run: str, hour: int) -> str:
    """Run `run` does the window of that hour; its key."""
    bounds = {"startup_timestamp": NOON + hour * HOUR, "bounded_timestamp": NOON + (hour + 1) * HOUR}
    assignment = pipeline.run(run, **bounds, startup_mode="timestamp", bounded_mode="timestamp", output_name="windows")
    return key_of(assignment.plan)


def shown(says: Say, *words: str) -> dict[str, Any]:
    status, output, messages = says(*words, "--output", "json")
    assert (status, messages) == (0, "")
    found: dict[str, Any] = json.loads(output)
    assert found["version"] == 1
    return found


# pipelines


def test_every_pipeline_has_its_newest_batch_and_who_did_it(says: Say, stored: Pipeline) -> None:
    other = Pipeline(stored.cluster, stored.store, "orders", "h", name="other")
    other.run("first")
    stored.plan("two")
    rows = shown(says, "pipelines", "--work-store", stored.store.uri)["pipelines"]
    facts = [(row["pipeline"], row["newest"], row["committed"], row["last_run"], row["goes_on_after"]) for row in rows]
    assert facts == [
        ("g/dag/resolve", "batch 2", False, "run dag/two/resolve", "batch 1"),
        ("h/other/resolve", "batch 1", True, "run other/first/resolve", "batch 1"),
    ]
    assert [(row["position"], row["unfinished"]) for row in rows] == [
        ({"orders": {"0": 4, "1": 0}}, [stored.newest_key]),
        ({"orders": {"0": 10, "1": 0}}, []),
    ]
    assert rows[0]["key"] == stored.newest_key
    assert rows[0]["at"].endswith("Z")
    _, table, _ = says("pipelines", "--work-store", stored.store.uri)
    assert table.splitlines()[0].split("  ")[0] == "pipeline"
    assert "2 pipelines in" in table
    assert [word for word in table.split() if word.startswith("orders[")] == [
        *("orders[0]:4", "orders[1]:0"),
        *("orders[0]:10", "orders[1]:0"),
    ]
    assert table.count("batch 2") == 2, "it is the newest, and it is unfinished"


def test_every_window_that_is_not_committed_is_named(says: Say, stored: Pipeline) -> None:
    keys = [window(stored, f"w{hour}", hour) for hour in (0, 1, 2)]
    for hour in (0, 2):
        says("skip", *of(stored), "--window", keys[hour], "--execute")  # which plans them anew, not committed yet
    row = shown(says, "pipelines", "--work-store", stored.store.uri)["pipelines"][1]
    assert (row["windows"], row["unfinished"], row["position"]) == (3, [keys[0], keys[2]], None)


def test_a_position_of_many_partitions_is_cut_for_people_and_whole_for_programs(says: Say, stored: Pipeline) -> None:
    stored.cluster.create_topic("wide", 12)
    wide = Pipeline(stored.cluster, stored.store, "wide", "w")
    wide.run("one")
    _, table, _ = says("pipelines", "--work-store", stored.store.uri)
    assert "and 9 more" in " ".join(table.split())
    row = shown(says, "pipelines", "--work-store", stored.store.uri)["pipelines"][1]
    assert len(row["position"]["wide"]) == 12


def test_a_pipeline_of_windows_has_a_line_for_them(says: Say, stored: Pipeline) -> None:
    keys = [window(stored, f"w{hour}", hour) for hour in (0, 1)]
    rows = shown(says, "pipelines", "--work-store", stored.store.uri)["pipelines"]
    assert [(row["newest"], row["windows"], row["committed"]) for row in rows] == [
        ("batch 1", None, True),
        ("window 2026-11-20T13:00Z to 2026-11-20T14:00Z", 2, True),
    ]
    assert rows[1]["key"] == keys[1]


def test_a_pipeline_that_is_damaged_hides_no_other_one_and_is_status_3(says: Say, stored: Pipeline) -> None:
    broken = Pipeline(stored.cluster, stored.store, "orders", "a", name="broken")
    broken.run("first")
    for file in (stored.store.root / broken.log.root / "batches").rglob("1.json"):
        file.write_text("torn")
    status, output, messages = says("pipelines", "--work-store", stored.store.uri, "--output", "json")
    assert status == 3
    assert [row["newest"] for row in json.loads(output)["pipelines"]] == ["damaged", "batch 1"]
    assert "its digest is missing or wrong" in messages


def test_a_store_without_pipelines_says_so(says: Say, stored: Pipeline) -> None:
    status, output, _ = says("pipelines", "--work-store", f"{stored.store.uri}/nothing")
    assert status == 0
    assert "0 pipelines" in output


# show


def test_a_batch_is_shown_with_its_log_in_words(says: Say, stored: Pipeline) -> None:
    before = stored.objects()
    first = shown(says, "show", *of(stored))
    assert (first["pipeline_id"], first["number"], first["committed"]) == ("g/dag/resolve", 1, True)
    assert [(row["entry"], row["what"]) for row in first["entries"]] == [
        (1, "planned by run dag/one/resolve: up to 4 records of 1 partition"),
        (2, "committed by run dag/one/resolve"),
    ]
    assert [(row["partition"], row["start"], row["end"]) for row in first["partitions"]] == [(0, 0, 4), (1, 0, 0)]
    assert [(row["split"], row["verified"], row["rows"]) for row in first["splits"]] == [(0, True, 4)]
    assert stored.objects() == before


def test_the_log_tells_who_took_a_batch_and_who_planned_it_anew(says: Say, stored: Pipeline) -> None:
    stored.plan("two")
    stored.plan("three")  # takes it over
    says("skip", *of(stored), "--batch", stored.newest_key, "--past", "orders-0:5", "--reason", "poison", "--execute")
    stored.read(stored.plan("three"))
    found = shown(says, "show", *of(stored))
    assert [row["what"] for row in found["entries"]] == [
        "planned by run dag/two/resolve: up to 6 records of 1 partition",
        "taken by run dag/three/resolve",
        "the same plan once more, which stops its drivers before another one replaces it",
        "planned anew by a person at the command line: up to 4 records of 1 partition, 2 skipped; "
        "skip past orders[0]:5: poison",
        "taken by run dag/three/resolve",
    ]
    assert (found["committed"], found["by"], found["skipped"]) == (False, "run dag/three/resolve", 2)
    _, table, _ = says("show", *of(stored))
    assert table.startswith("batch 2 of pipeline 'g/dag/resolve': not committed; with run dag/three/resolve, ")
    assert found["key"] in table


def test_a_committed_batch_that_is_done_again_says_so(says: Say, stored: Pipeline) -> None:
    stored.plan("one")
    assert shown(says, "show", *of(stored))["entries"][-1]["what"] == "being done once more by run dag/one/resolve"


def test_a_split_that_is_not_verified_says_why(says: Say, stored: Pipeline) -> None:
    stored.plan("two")
    [split] = shown(says, "show", *of(stored))["splits"]
    assert (split["verified"], split["problem"]) == (False, "no Spark job has begun to read it")


def test_a_batch_is_named_by_its_number_or_its_key(says: Say, stored: Pipeline) -> None:
    first = stored.newest_key
    stored.run("two")
    for named in ("1", first):
        assert shown(says, "show", *of(stored), "--batch", named)["key"] == first
    assert shown(says, "show", *of(stored))["key"] == stored.newest_key != first


def test_a_window_is_named_by_its_key_or_its_name(says: Say, stored: Pipeline) -> None:
    key = window(stored, "w", 0)
    [name] = stored.log.windows()
    for named in (key, name):
        found = shown(says, "show", *of(stored), "--batch", named)
        assert (found["key"], found["number"], found["window"]) == (key, None, [NOON, NOON + HOUR])


@pytest.mark.parametrize("named", ["7", "0", "0000000001-20261122T022057-aaaa", "w", "../batches/00000000/0000000001"])
def test_a_batch_that_is_not_there_is_status_1(says: Say, stored: Pipeline, named: str) -> None:
    """Also another key with a number that there is, and a name that leads out of the windows' folder."""
    window(stored, "w", 0)
    status, output, messages = says("show", *of(stored), "--batch", named)
    assert (status, output) == (1, "")
    assert f"has no batch and no window {named!r}" in messages


def test_the_history_is_newest_first(says: Say, stored: Pipeline) -> None:
    stored.run("two")
    stored.cluster.produce(TopicPartition("orders", 1), [1])
    stored.plan("three")
    rows = shown(says, "show", *of(stored), "--history", "2")["batches"]
    assert [(row["batch"], row["committed"], row["by"], row["records"], row["verified"]) for row in rows] == [
        ("batch 3", False, "run dag/three/resolve", 1, False),
        ("batch 2", True, "run dag/two/resolve", 6, True),
    ]


def test_where_nobody_looks_a_batch_is_one_line_however_long_its_names_are(says: Say, stored: Pipeline) -> None:
    """`kafka-offsets show --history 20 | grep no` finds whole batches."""
    long = Pipeline(stored.cluster, stored.store, "orders", "orders-to-lake", name="orders_to_lake_of_the_north" * 4)
    for run in ("scheduled__2026-11-20T00:00:00+00:00", "scheduled__2026-11-21T00:00:00+00:00"):
        long.run(run)
        stored.cluster.produce(TopicPartition("orders", 1), [1])
    _, table, _ = says("show", *of(long), "--history", "20")
    heading, second, first, _, summary = table.splitlines()
    assert heading.startswith("batch ")
    assert "scheduled__2026-11-21T00:00:00+00:00/resolve" in second
    assert (first.startswith("batch 1"), second.startswith("batch 2"), summary) == (
        True,
        True,
        "2 batches, newest first",
    )


def test_the_windows_are_listed_newest_first(says: Say, stored: Pipeline) -> None:
    keys = [window(stored, f"w{hour}", hour) for hour in (0, 1, 2)]
    rows = shown(says, "show", *of(stored), "--windows")["windows"]
    assert [row["key"] for row in rows] == keys[::-1]
    rows = shown(says, "show", *of(stored), "--windows", "--history", "1")["windows"]
    assert [row["key"] for row in rows] == keys[2:]


def test_a_window_that_lacks_what_its_times_would_give_now_is_marked_and_warned_of(says: Say, stored: Pipeline) -> None:
    window(stored, "w0", 0)
    assert [row["unread"] for row in shown(says, "show", *of(stored), "--windows")["windows"]] == [0]
    assert "warning" not in says("show", *of(stored), "--windows")[1]
    stored.cluster.produce(TopicPartition("orders", 0), [NOON, NOON + HOUR])
    window(stored, "again", 0)
    (row,) = shown(says, "show", *of(stored), "--windows")["windows"]
    assert row["unread"] == 1
    assert "warning: 1 of them lack offsets that their times gave" in says("show", *of(stored), "--windows")[1]


def test_the_csv_of_a_batch_is_its_ranges(says: Say, stored: Pipeline) -> None:
    _, output, _ = says("show", *of(stored), "--output", "csv")
    assert [(row["partition"], row["end"]) for row in csv.DictReader(io.StringIO(output))] == [("0", "4"), ("1", "0")]


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["--pipeline-id", "another"], 1, "has no pipeline 'another'"),
        ([], 2, "Which pipeline? Give --pipeline-id."),
        (["--pipeline-id", "g/dag/resolve", "--batch", "1", "--history", "3"], 2, "--batch shows one batch"),
        (["--pipeline-id", "g/dag/resolve", "--batch", "1", "--windows"], 2, "--batch shows one batch"),
    ],
)
def test_an_unclear_show_says_what_it_needs(
    says: Say, stored: Pipeline, words: list[str], status: int, sentence: str
) -> None:
    found, output, messages = says("show", "--work-store", stored.store.uri, *words)
    assert (found, output) == (status, "")
    assert sentence in messages


def test_a_store_that_cannot_be_read_is_status_3(says: Say, stored: Pipeline) -> None:
    file = stored.store.root / "file"
    file.write_text("")
    assert says("show", "--work-store", str(file), "--pipeline-id", "g/dag/resolve")[0] == 3


def test_a_pipeline_that_has_only_windows_says_how_to_list_them(says: Say, stored: Pipeline) -> None:
    only = Pipeline(stored.cluster, stored.store, "orders", "w", name="windows")
    window(only, "w", 0)
    status, _, messages = says("show", *of(only))
    assert status == 1
    assert "It has 1 windows: kafka-offsets show --windows lists them" in messages


def test_show_names_the_row_definition_that_a_batch_was_written_with(says: Say, stored: Pipeline) -> None:
    """`record --rows` takes it."""
    assert "row definition" not in says("show", *of(stored))[1]
    stored.rows = "0123456789abcdef" * 2
    stored.run("two")
    assert f"\nrow definition: {stored.rows}\n" in says("show", *of(stored))[1]
    assert [split["row_definition"] for split in shown(says, "show", *of(stored))["splits"]] == [stored.rows]
