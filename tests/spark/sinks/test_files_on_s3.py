"""Files where the store does not rename: the contract's ends, on S3."""

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.errors import OtherOutput
from testbed.s3_server import S3Server
from testbed.spark import s3a_conf
from tests.spark.sinks.outputs import A, B, Output, rows


@pytest.fixture(scope="module")
def bucket(spark: SparkSession) -> Iterator[str]:
    with S3Server() as server:
        settings = {name.removeprefix("spark.hadoop."): value for name, value in s3a_conf(server.endpoint).items()}
        for name, value in settings.items():
            spark.conf.set(name, value)
        server.create_bucket("lake")
        yield "s3a://lake"
        for name in settings:
            spark.conf.unset(name)


def test_a_batch_in_a_bucket_is_replaced_and_the_bucket_is_marked(
    output_of: Callable[..., Output], bucket: str, caplog: pytest.LogCaptureFixture
) -> None:
    output = output_of("files", path=f"{bucket}/orders", partition_by=["day"])
    with caplog.at_level("INFO"):
        output.write(A, rows(0) + rows(1, day="2026-11-23"))
    assert "does not rename" in caplog.text
    output.write(B, rows(2))
    output.write(A, rows(3), attempt=2)
    assert (output.view(), output.offsets(A)) == ({A: rows(3), B: rows(2)}, [3])
    output.write(A, [], attempt=3)
    assert (output.view(), output.offsets(A)) == ({B: rows(2)}, [])
    with pytest.raises(OtherOutput, match=r"'orders'.*'payments'"):
        output.sink.check(output.spark, "payments")
    with pytest.raises(OtherOutput, match="s3a://lake/orders, which is an output itself"):
        output_of("files", path=f"{bucket}/orders/bad").sink.check(output.spark, "orders")
