"""Events as the provider makes them of what a task tells: each fits the published schemas, and its facets their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from openlineage.client.serde import Serde

from airflow_kafka_offsets.hooks.openlineage_events import OWN_FACETS, operator_lineage, schema_url
from airflow_kafka_offsets.log.task_lineage import TaskLineage, of_plan, of_topics
from airflow_kafka_offsets.log.verify_reads import Fates
from airflow_kafka_offsets.plan.plan import BatchName
from tests.builders import plan, planned, tp
from tests.lineage.valid_events import OWN, facets_of, problems, schemas

WINDOW = {"batch": BatchName("a-b-c"), "window": True, "window_bounds": (0, 3_600_001)}
FATES = Fates(1, 0, {}, {"orders": (3, 1, 0)}, columns={"/lake/orders": {"id": "bigint"}})


def event(told: TaskLineage) -> dict[str, Any]:
    """As it is sent: the provider's own facets apart."""
    lineage = operator_lineage(told)
    made = RunEvent(
        eventType=RunState.COMPLETE,
        eventTime="2026-11-20T10:00:00Z",
        run=Run("0193e8a5-7d6a-7d7c-8a36-9a4f6a3c5d10", lineage.run_facets),
        job=Job("default", "billing.resolve", lineage.job_facets),
        inputs=lineage.inputs,
        outputs=lineage.outputs,
    )
    sent: dict[str, Any] = json.loads(Serde.to_json(made))
    return sent


@pytest.mark.parametrize(
    "told",
    [
        of_topics("kafka-1:9092", ["orders"]),
        of_plan(plan(), "kafka-1:9092"),
        of_plan(plan([planned(0, 5, 9), planned(tp(0, "payments"), 0, 0)]), "kafka-1:9092", split=0, writes=True),
        of_plan(plan([planned(0, 5, 9)], output="/lake/orders"), "kafka-1:9092", fates=FATES, writes=True),
        of_plan(
            plan([planned(0, 5, 9, lost=1, skipped=2)], output="delta:lake.{topic}", **WINDOW),
            "kafka-1:9092",
            fates=FATES,
            writes=True,
            committed=True,
            proof="rows",
        ),
    ],
    ids=["topics", "nothing", "split", "counts", "window"],
)
def test_an_event_fits_the_published_schemas_and_each_facet_its_own(told: TaskLineage) -> None:
    sent = event(told)
    assert problems(sent) == []
    assert len(sent["inputs"]) == len(told.inputs)
    assert len(sent["outputs"]) == len(told.outputs)
    given = [facets.keys() for facets in (*told.inputs.values(), *told.outputs.values())]
    names = [name for name, _ in facets_of(sent)]
    assert len(names) == sum(map(len, given)) + bool(told.batch), "each facet has arrived"
    assert all(facet["_schemaURL"].partition("#")[0] in schemas() for _, facet in facets_of(sent))


def test_a_facet_with_a_wrong_word_or_type_or_without_a_needed_one_is_found() -> None:
    """The check can fail: with a schema that knows nothing every event would fit."""
    name = "KafkaOffsetsRangesInputDatasetFacet"
    about = {"_producer": "https://example.com", "_schemaURL": schema_url(name)}
    whole = {"ranges": [], "rangesLeftOut": 0, "partitionCount": 0, "offsetCount": 0}
    assert problems({**about, **whole}, schema_url(name)) == []
    for wrong in (whole, {**about, **whole, "more": 1}, {**about, **whole, "lost": "3"}, {**about, "ranges": []}):
        assert problems(wrong, schema_url(name)), wrong
    ranges = [{"partition": 0, "startOffset": 5}]
    assert problems({**about, **whole, "ranges": ranges}, schema_url(name))
    assert problems({"eventTime": "2026-11-20T10:00:00Z"})


def test_each_own_facet_has_a_schema_in_the_package_and_its_name_begins_with_the_projects() -> None:
    assert {f"{name}.json" for name, _ in OWN_FACETS.values()} == {file.name for file in OWN.iterdir()}
    for key, (name, _) in OWN_FACETS.items():
        assert schema_url(name).partition("#")[0] in schemas()
        prefix, _, word = key.partition("_")
        assert prefix == "kafkaOffsets"
        assert name.startswith(f"KafkaOffsets{word.capitalize()}")


@pytest.mark.starts_processes
def test_what_the_operators_have_of_it_needs_no_provider(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from airflow_kafka_offsets.hooks.tells_lineage import TellsLineage\n"
        "print([name for name in sys.modules if name.startswith(('openlineage', 'airflow.'))])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert result.stdout == "[]\n"
