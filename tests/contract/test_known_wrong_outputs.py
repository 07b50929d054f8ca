"""The output belongs to the batch: what is known to be wrong. Each test fails when it begins to hold.

docs/exactly-once.md says how to keep clear of it until then.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_kafka_offsets.errors import DataLoss, InvalidRequest, KafkaOffsetsError
from airflow_kafka_offsets.offsets.model import RunKey
from airflow_kafka_offsets.spark.batch_job import _agree_on_output
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Pipeline
from tests.contract.troubles import produce

NOT_REFUSED = pytest.fail.Exception


@pytest.mark.xfail(strict=True, raises=NOT_REFUSED, reason="a plan anew takes the DAG's new output (issue 32, 4)")
def test_a_batch_that_is_planned_anew_does_not_leave_its_rows_in_the_output_before(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    in_memory.resolve("one", output_name="A").spark()
    produce(memory, in_memory)
    with pytest.raises(KafkaOffsetsError, match="'A'"):
        in_memory.resolve("two", output_name="B", re_plan=True)


@pytest.mark.xfail(strict=True, raises=NOT_REFUSED, reason="only a sink is held to its output (issue 32, 5)")
def test_a_job_that_is_a_plain_function_keeps_its_output_from_attempt_to_attempt(in_memory: Pipeline) -> None:
    in_memory.resolve("one", output_name="A").spark()
    with pytest.raises(KafkaOffsetsError, match="'A'"):
        in_memory.resolve("two", output_name="B")


@pytest.mark.xfail(strict=True, raises=NOT_REFUSED, reason="one pipeline may write two outputs (issue 32, 6)")
def test_a_copied_dag_with_another_output_does_not_go_on_in_its_pipeline(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    in_memory.run(RunKey("orders", "one", "resolve"), output_name="A")
    produce(memory, in_memory)
    with pytest.raises(KafkaOffsetsError, match="'A'"):
        in_memory.resolve(RunKey("copy_of_orders", "two", "resolve"), output_name="B")


@pytest.mark.xfail(strict=True, raises=DataLoss, reason="verified splits need their records, too (issue 32, 15)")
def test_only_splits_that_are_not_verified_need_their_records(in_memory: Pipeline, memory: AnyCluster) -> None:
    first = in_memory.resolve("one", splits=3)
    verified = first.job(0).begin()
    verified.write().report()
    for tp, offset in in_memory.lake.of(first.batch_key):
        memory.delete_records(tp.topic, offset + 1, tp.partition)
    second = in_memory.resolve("two", splits=3)
    assert second.splits == (1, 2)
    second.done()
    assert in_memory.lake.offsets() == {number: [0, 1, 2, 3] for number in range(3)}


@pytest.mark.xfail(strict=True, raises=AssertionError, reason="the DAG names one path already (issue 32, 18)")
def test_who_changed_a_path_under_a_failed_attempt_is_told_to_put_it_back() -> None:
    batch = cast(Any, SimpleNamespace(plan=SimpleNamespace(output="A"), output=None))
    with pytest.raises(InvalidRequest) as refused:
        _agree_on_output(batch, SimpleNamespace(output="B"))
    assert "until this batch is committed" in str(refused.value)
