"""`kafka-offsets take-over`: what it says, as a dry run and done. What it does: tests/contract/test_take_over.py."""

from __future__ import annotations

import json

from tests.cli.conftest import Say, of
from tests.cli.pipeline import Pipeline

STANDBY = "https://standby.example"


def test_it_says_whose_the_pipeline_was_and_does_it_once(says: Say, pipeline: Pipeline, at: tuple[str, ...]) -> None:
    words = ("take-over", *at, *of(pipeline), "--instance", STANDBY)
    before = pipeline.objects()
    status, output, messages = says(*words, "--output", "json")
    shown = json.loads(output)
    assert (status, shown["airflow"], shown["dry_run"]) == (0, STANDBY, True)
    assert shown["airflow_before"] not in (None, STANDBY)
    assert "This was a dry run" in messages
    assert pipeline.objects() == before

    status, output, _ = says(*words, "--execute")
    assert status == 0
    assert f"{STANDBY} takes the pipeline over from {shown['airflow_before']}: it goes on after batch 1" in output
    status, _, messages = says(*words, "--execute")
    assert status == 1
    assert f"{STANDBY} is the Airflow that wrote to it last" in messages


def test_it_needs_the_name_of_an_airflow(says: Say, pipeline: Pipeline, at: tuple[str, ...]) -> None:
    status, _, messages = says("take-over", *at, *of(pipeline))
    assert status == 2
    assert "--instance" in messages
