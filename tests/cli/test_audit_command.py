"""`kafka-offsets audit`: each batch against the one before it, with the totals of each day."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from airflow_kafka_offsets import audit_pipeline
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.kafka_values import TopicPartition
from tests.cli.conftest import Say, of
from tests.cli.pipeline import Pipeline
from tests.cli.test_store_commands import shown

NOON = 1_795_176_000_000  # 2026-11-20T12:00Z
DAY = 86_400_000


def lose(stored: Pipeline) -> None:
    """Run `two` finds two of its six records gone, and goes on by the policy."""
    stored.cluster.delete_records(TopicPartition("orders", 0), 6)
    stored.run("two", policies={"data_loss": "advance"})


def test_a_log_in_which_all_is_accounted_for_is_status_0_and_nothing_is_written(says: Say, stored: Pipeline) -> None:
    stored.run("two")
    before = stored.objects()
    found = shown(says, "audit", *of(stored))
    assert (found["pipeline_id"], found["batches"], found["contiguous"], found["read"]) == ("g/dag/resolve", 2, 2, 10)
    assert (found["findings"], found["undecided"]) == ([], 0)
    status, text, _ = says("audit", *of(stored))
    assert status == 0
    assert "2 batches, 2 of them contiguous: up to 10 records read; all is accounted for" in text
    assert stored.objects() == before


def test_records_that_a_policy_gave_up_are_named_and_are_no_failure(says: Say, stored: Pipeline) -> None:
    lose(stored)
    found = shown(says, "audit", *of(stored))
    [row] = found["findings"]
    facts = {name: row[name] for name in ("batch", "finding", "offsets", "decision", "undecided", "by")}
    assert facts == {
        "batch": "batch 2",
        "finding": "lost",
        "offsets": 2,
        "decision": "policy data_loss",
        "undecided": False,
        "by": "run dag/two/resolve",
    }
    assert [(day["batches"], day["contiguous"], day["read"], day["lost"]) for day in found["days"]] == [(2, 1, 8, 2)]
    _, text, _ = says("audit", *of(stored), "--output", "csv")
    assert [line["finding"] for line in csv.DictReader(io.StringIO(text))] == ["lost"]


def test_a_batch_that_somebody_has_removed_is_status_1(says: Say, stored: Pipeline) -> None:
    stored.run("two")
    stored.cluster.produce(TopicPartition("orders", 0), [1] * 3)
    stored.run("three")
    for file in sorted((stored.store.root / stored.log.root / "batches/00000000/0000000002").iterdir()):
        file.unlink()
    status, output, messages = says("audit", *of(stored), "--output", "json")
    assert status == 1
    assert "AuditFailed" in messages
    assert [(row["finding"], row["offsets"]) for row in json.loads(output)["findings"]] == [
        ("not in the log", None),
        ("gap", 6),
    ]


def test_a_damaged_batch_is_named_and_is_status_3_and_the_others_are_audited(says: Say, stored: Pipeline) -> None:
    stored.run("two")
    torn = stored.store.root / stored.log.root / "batches/00000000/0000000001/1.json"
    torn.write_text("torn")
    status, output, messages = says("audit", *of(stored), "--output", "json")
    assert (status, json.loads(output)["damaged"], json.loads(output)["batches"]) == (3, 1, 1)
    assert "0000000001/1.json" in messages


def test_only_what_was_committed_in_a_stretch_of_time_is_shown(says: Say, stored: Pipeline) -> None:
    for day in (0, 1, 2):
        stored.at_ms = NOON + day * DAY
        stored.cluster.produce(TopicPartition("orders", 0), [1] * 2)
        stored.run(f"day {day}")
    found = shown(says, "audit", *of(stored), "--from", "2026-11-21", "--to", "2026-11-22T00:00Z")
    assert [(day["day"], day["read"]) for day in found["days"]] == [("2026-11-21", 2)]
    [one] = audit_pipeline(stored.store.uri, stored.pipeline_id, NOON + 2 * DAY, NOON + 3 * DAY)
    assert (one.name, one.findings) == ("batch 4", ()), "the one before it is read, too"
    status, _, messages = says("audit", *of(stored), "--from", "yesterday")
    assert status == 2
    assert "--from is 'yesterday'" in messages


def test_a_batch_stands_for_the_time_of_its_commit_as_a_bound(says: Say, stored: Pipeline) -> None:
    for day in (1, 2, 3):
        stored.at_ms = now_ms() + day * DAY
        stored.cluster.produce(TopicPartition("orders", 0), [1] * 2)
        stored.run(f"day {day}")
    [two, four] = [batch for number in (2, 4) if (batch := stored.log.batch(number))]
    for bounds, expected in (
        (("--from", "2", "--to", "3"), 2),
        (("--from", two.log.plan.batch.key, "--to", "2"), 1),
        (("--from", four.log.plan.batch.key), 1),
        (("--from", "2"), 3),
        (("--from", "3", "--to", "2"), 0),
    ):
        assert shown(says, "audit", *of(stored), *bounds)["batches"] == expected, bounds
    status, _, messages = says("audit", *of(stored), "--from", "7")
    assert status == 1
    assert "has no batch and no window '7'" in messages


def test_the_audit_is_a_function_too(stored: Pipeline, tmp_path: Path) -> None:
    lose(stored)
    audited: list[Any] = audit_pipeline(stored.store.uri, stored.pipeline_id)
    assert [(one.name, one.read, [finding.kind for finding in one.findings]) for one in audited] == [
        ("batch 1", 4, []),
        ("batch 2", 4, ["lost"]),
    ]
