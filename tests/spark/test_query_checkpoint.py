"""From a Structured Streaming query to a pipeline and back, on the real query: no record is lost, none is doubled."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.batch.preview import plan_offsets
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.main import main
from airflow_kafka_offsets.stores.local import LocalStore
from airflow_kafka_offsets.stores.open import open_store
from airflow_kafka_offsets.stores.saved_offsets import text_at
from testbed.broker import KafkaBroker
from tests.cli.pipeline import Pipeline

Write = Callable[[DataFrame, int], None]
Record = tuple[int, int]


def query(spark: SparkSession, broker: KafkaBroker, topic: str, checkpoint: Path, write: Write) -> None:
    """What has come, in a batch for each three records, by a real query that begins at the earliest."""
    source = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, "maxOffsetsPerTrigger": "3"}
    frame = spark.readStream.format("kafka").options(**source, startingOffsets="earliest").load()
    stream = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    stream.trigger(availableNow=True).start().awaitTermination()


def records(frame: DataFrame) -> list[Record]:
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


def starts(broker: KafkaBroker, topic: str, place: object) -> dict[int, int]:
    text = text_at("specific_offsets", str(place), open_store)
    asked = {"topics": [topic], "startup_mode": "specific-offsets", "specific_offsets": text}
    planned = plan_offsets(broker.client_config, **asked, auto_offset_reset="none", group_id="none")
    return {p.topic_partition.partition: p.start_offset for p in planned.partitions}


@pytest.mark.parametrize("wrote", [False, True], ids=["before its sink wrote", "after its sink wrote"])
def test_a_query_that_died_in_a_batch_goes_on_as_a_pipeline_by_the_answer_that_is_true(
    spark: SparkSession, broker: KafkaBroker, topic: Callable[..., str], tmp_path: Path, wrote: bool
) -> None:
    """The folder alone is refused. Of the two files that the refusal names, each is right in one of the two cases."""
    name, output, checkpoint = topic(2), list[Record](), tmp_path / "checkpoint"
    broker.produce(name, [(0, None, b"x", None)] * 5 + [(1, None, b"x", None)] * 3)

    def write(frame: DataFrame, number: int) -> None:
        found = records(frame)
        if number < 1 or wrote:
            output.extend(found)
        if number == 1:
            raise RuntimeError("the driver dies here")

    with pytest.raises(StreamingQueryException):
        query(spark, broker, name, checkpoint, write)

    with pytest.raises(ValueError, match="batch 1 has begun and is not committed") as refused:
        starts(broker, name, checkpoint)
    before, after = re.findall(rf"give ({checkpoint}\S*/\d+)", str(refused.value))
    begins = starts(broker, name, after if wrote else before)
    left = {(p, offset) for p, end in ((0, 5), (1, 3)) for offset in range(begins[p], end)}
    assert sorted([*output, *left]) == [(0, n) for n in range(5)] + [(1, n) for n in range(3)]
    assert left

    query(spark, broker, name, checkpoint, lambda frame, number: output.extend(records(frame)))
    assert starts(broker, name, checkpoint) == {0: 5, 1: 3}, "it has ended its batch"


def test_a_query_goes_on_where_the_pipeline_was(
    spark: SparkSession,
    broker: KafkaBroker,
    topic: Callable[..., str],
    group: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Although its code says earliest. A folder that has anything in it is left as it is."""
    name, checkpoint, output = topic(2), tmp_path / "checkpoint", list[Record]()
    broker.produce(name, [(0, None, b"x", None)] * 4 + [(1, None, b"x", None)] * 2)
    with KafkaCluster(broker.client_config) as cluster:
        pipeline = Pipeline(cluster, LocalStore(tmp_path / "store"), name, group)
        pipeline.run("one")
        broker.produce(name, [(0, None, b"x", None)] * 4 + [(1, None, b"x", None)] * 3)
        command = ["write-checkpoint", "--bootstrap-servers", broker.bootstrap_servers, "--work-store"]
        command += [pipeline.store.uri, "--pipeline-id", pipeline.pipeline_id, "--checkpoint", str(checkpoint)]

        assert main(command) == 0
        assert not checkpoint.exists(), "a dry run"
        assert main([*command, "--execute"]) == 0
        assert [str(file.relative_to(checkpoint)) for file in checkpoint.rglob("*") if file.is_file()] == [
            "sources/0/0"
        ]

        query(spark, broker, name, checkpoint, lambda frame, number: output.extend(records(frame)))
        assert sorted(output) == [(0, n) for n in range(4, 8)] + [(1, n) for n in range(2, 5)]

        capsys.readouterr()
        assert main([*command, "--execute", "--output", "json"]) == 2
        assert f"--checkpoint {checkpoint} is not empty" in capsys.readouterr().err

        planned = pipeline.plan("two")
        command[-1] = str(tmp_path / "other")
        assert main([*command, "--execute"]) == 1, "a batch is unfinished: nobody knows where the output ends"
        assert not (tmp_path / "other").exists()
        pipeline.read(planned)
        pipeline.commit("two", planned)
        broker.delete_records({(name, 0): 8, (name, 1): 5})
        assert main([*command, "--execute"]) == 0, "the end of a log is in it"
        assert json.loads((tmp_path / "other/sources/0/0").read_text().partition("\n")[2]) == {name: {"0": 8, "1": 5}}

        broker.produce(name, [(0, None, b"x", None)] * 2)
        broker.delete_records({(name, 0): 9})
        command[-1] = str(tmp_path / "third")
        capsys.readouterr()
        assert main([*command, "--execute"]) == 1
        assert f"{name}[0]: 8 is not in its log any more" in capsys.readouterr().err
        assert not (tmp_path / "third").exists(), "a query that begins there would stop, or leave records out unsaid"
