"""What each operator tells OpenLineage's provider, as the events that it sends; they fit the published schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from openlineage.client.serde import Serde

from airflow_kafka_offsets import CommitOffsetsOperator, ResolveStartupOffsetsOperator, SparkSubmitBatchOperator
from airflow_kafka_offsets.engine.work import ResolvedBatch
from airflow_kafka_offsets.hooks import lineage
from airflow_kafka_offsets.hooks.lineage import RANGES, dataset_of, kafka_namespace
from airflow_kafka_offsets.log.pipeline_log import put_job
from airflow_kafka_offsets.operators.lineage import TellsLineage
from airflow_kafka_offsets.operators.merge import MergeOperator
from airflow_kafka_offsets.rows.config import Delta, Merge
from airflow_kafka_offsets.rows.job import job_object
from airflow_kafka_offsets.store.local import LocalStore
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import TOPIC, Pipeline, tp
from tests.lineage.valid_events import CORE, OWN, facets_of, problems, schemas


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """Four records in partition 0 and three in partition 2."""
    cluster = InMemoryCluster()
    cluster.create_topic(TOPIC, 3)
    cluster.produce(tp(0), [cluster.now_ms] * 4)
    cluster.produce(tp(2), [cluster.now_ms] * 3)
    return Pipeline(cluster, store=LocalStore(tmp_path, f"file://{tmp_path}"), output="delta:s3a://lake/orders")


def task(kind: str, work: ResolvedBatch, **given: Any) -> TellsLineage:
    """An operator with the XCom of the resolve task."""
    plan = {**work.given(**given).to_dict(), "arguments": work.arguments("kafka-1:9092,kafka-2:9092"), "formats": []}
    if kind == "resolve":
        resolve = ResolveStartupOffsetsOperator(task_id="resolve", topics=TOPIC, start="earliest")
        resolve.plan = plan
        return resolve
    operators: dict[str, Any] = {
        "spark": SparkSubmitBatchOperator,
        "commit": CommitOffsetsOperator,
        "merge": MergeOperator,
    }
    made: TellsLineage = operators[kind](task_id=kind, plan=plan)
    return made


def event(told: Any) -> dict[str, Any]:
    """As the provider sends it, without facets of its own; it fits every schema."""
    made = RunEvent(
        eventType=RunState.COMPLETE,
        eventTime="2026-11-20T10:00:00Z",
        run=Run("0193e8a5-7d6a-7d7c-8a36-9a4f6a3c5d10", told.run_facets),
        job=Job("default", "billing.resolve", told.job_facets),
        inputs=told.inputs,
        outputs=told.outputs,
    )
    sent: dict[str, Any] = json.loads(Serde.to_json(made))
    assert problems(sent) == []
    return sent


@pytest.mark.parametrize("kind", ["spark", "commit"])
def test_a_task_that_writes_tells_ranges_before_and_counts_after(kind: str, pipeline: Pipeline) -> None:
    work = pipeline.work()
    operator = task(kind, work)
    before = event(operator.get_openlineage_facets_on_start())
    (topic,) = before["inputs"]
    assert (topic["namespace"], topic["name"]) == ("kafka://kafka-1:9092", "orders")
    facet = topic["inputFacets"][RANGES]
    assert facet["ranges"] == [
        {"partition": 0, "startOffset": 0, "endOffset": 4},
        {"partition": 2, "startOffset": 0, "endOffset": 3},
    ]
    assert (facet["pipeline"], facet["batch"], facet["offsets"], facet["rangesOmitted"]) == ("orders", work.key, 7, 0)
    (output,) = before["outputs"]
    assert (output["name"], output["outputFacets"]) == ("orders", {})

    pipeline.drive(work)
    pipeline.commit(work)
    after = event(operator.get_openlineage_facets_on_complete(None))
    assert after["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 7
    (output,) = after["outputs"]
    assert (output["namespace"], output["name"]) == ("s3://lake", "orders")
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 7


@pytest.mark.parametrize("shard", [None, (1, 2)])
def test_the_output_is_known_before_spark_runs_from_the_job_or_the_plan(pipeline: Pipeline, shard: Any) -> None:
    pipeline.parameters["shard"] = shard
    work = pipeline.work()
    job = put_job(pipeline.log, {"version": 1, "output": "delta:lake.orders"})
    (output,) = event(task("spark", work, job=job).get_openlineage_facets_on_start())["outputs"]
    assert (output["namespace"], output["name"]) == ("delta", "lake.orders")
    (output,) = event(task("spark", work).get_openlineage_facets_on_start())["outputs"]
    assert (output["name"], output.get("outputFacets", {})) == ("orders", {})


def test_a_merge_reads_the_log_table_and_writes_the_entity_table(pipeline: Pipeline) -> None:
    job = put_job(pipeline.log, job_object(Delta("lake.changes"), merge=Merge("lake.customers", ["id"])))
    merge = task("merge", pipeline.work(), job=job)
    for told in (merge.get_openlineage_facets_on_start(), merge.get_openlineage_facets_on_complete(None)):
        sent = event(told)
        (read,), (written,) = sent["inputs"], sent["outputs"]
        assert [(one["namespace"], one["name"]) for one in (read, written)] == [
            ("delta", "lake.changes"),
            ("delta", "lake.customers"),
        ]


def test_resolve_tells_what_is_read_and_writes_nothing(pipeline: Pipeline) -> None:
    idle = ResolveStartupOffsetsOperator(task_id="resolve", topics=TOPIC, start="earliest")
    assert event(idle.get_openlineage_facets_on_start())["inputs"] == []
    told = event(task("resolve", pipeline.work()).get_openlineage_facets_on_complete(None))
    assert (len(told["inputs"]), told["outputs"]) == (1, [])


def test_a_run_without_a_batch_and_a_log_that_is_gone_tell_nothing(pipeline: Pipeline, tmp_path: Path) -> None:
    assert event(CommitOffsetsOperator(task_id="commit", plan=None).get_openlineage_facets_on_start())["inputs"] == []
    operator = task("commit", pipeline.work())
    pipeline.log.store.delete(f"{pipeline.log.folder(1)}/1.json")
    assert event(operator.get_openlineage_facets_on_start())["inputs"] == []


def test_an_event_lists_some_ranges_and_counts_the_others(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "MOST_RANGES", 1)
    facet = event(task("spark", pipeline.work()).get_openlineage_facets_on_start())["inputs"][0]["inputFacets"][RANGES]
    assert (len(facet["ranges"]), facet["rangesOmitted"], facet["offsets"]) == (1, 1, 7)


@pytest.mark.parametrize(("output", "namespace", "name"), [
    ("files:/lake/orders", "file", "/lake/orders"),
    ("files:s3a://lake/raw/orders", "s3://lake", "raw/orders"),
    ("delta:gs://lake/orders", "gs://lake", "orders"),
    ("delta:abfss://c@account.dfs.core.windows.net/orders", "abfss://c@account.dfs.core.windows.net", "orders"),
    ("files:hdfs://name:8020/lake", "hdfs://name:8020", "/lake"),
    ("iceberg:lake.orders", "iceberg", "lake.orders"),
    ("postgres://me:hunter2@db:5432/shop.orders?password=hunter2", "postgres://db:5432", "/shop.orders"),
    ("orders_table", "spark", "orders_table"),
])  # fmt: skip
def test_outputs_have_the_names_of_the_standard_and_no_password(output: str, namespace: str, name: str) -> None:
    assert dataset_of(output) == (namespace, name)


@pytest.mark.parametrize(("servers", "namespace"), [
    ("a:9093,b:9093", "kafka://a:9093"), (" a ", "kafka://a:9092"), ("SASL_SSL://a:9096", "kafka://a:9096"),
])  # fmt: skip
def test_a_cluster_is_its_first_server(servers: str, namespace: str) -> None:
    assert kafka_namespace(servers) == namespace


def test_a_facet_with_a_wrong_word_or_type_or_without_a_needed_one_is_found() -> None:
    """The check can fail: with a schema that knows nothing every event would fit."""
    url = lineage.KafkaOffsetsRangesInputDatasetFacet._get_schema()
    about = {"_producer": "https://example.com", "_schemaURL": url, "pipeline": "p", "batch": "b", "clusterId": "c"}
    whole = {**about, "ranges": [], "rangesOmitted": 0, "offsets": 0}
    assert problems(whole, url) == []
    wrongs: list[dict[str, Any]] = [
        about,
        {**whole, "more": 1},
        {**whole, "offsets": "3"},
        {**whole, "ranges": [{"partition": 0}]},
    ]
    assert all(problems(wrong, url) for wrong in wrongs)
    assert problems({"eventTime": "2026-11-20T10:00:00Z"})
    assert {url.partition("#")[0], CORE} < schemas().keys()
    assert [file.stem for file in OWN.iterdir()] == [lineage.KafkaOffsetsRangesInputDatasetFacet.__name__]
    assert list(facets_of({"run": {"facets": {"x": {}}}, "job": {}})) == [("x", {})]


@pytest.mark.parametrize("kind", [ResolveStartupOffsetsOperator, SparkSubmitBatchOperator, CommitOffsetsOperator])
def test_the_provider_finds_the_methods_that_it_looks_for(kind: type) -> None:
    from airflow.providers.openlineage.extractors import base

    for name in (base.OL_METHOD_NAME_START, base.OL_METHOD_NAME_COMPLETE):
        assert getattr(kind, name) is getattr(TellsLineage, name)
