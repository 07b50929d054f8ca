"""Sinks as values: no Spark is needed to make, name or refuse one."""

import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.spark.sinks import delta, files, iceberg, jdbc, upsert
from airflow_kafka_offsets.spark.sinks.sink_contract import check_batch

URL = "jdbc:postgresql://db:5432/lake"


@pytest.mark.parametrize(
    ("path", "output"),
    [
        ("/lake/orders/", "/lake/orders"),
        ("//lake///orders", "/lake/orders"),
        ("file:/lake/orders", "file:///lake/orders"),
        ("file:///lake/orders", "file:///lake/orders"),
        ("s3://bucket/orders//", "s3a://bucket/orders"),
        ("s3a://bucket/orders", "s3a://bucket/orders"),
        ("abfss://container@account.dfs.core.windows.net/x", "abfss://container@account.dfs.core.windows.net/x"),
        ("abfs://container@account.dfs.core.windows.net/x", "abfss://container@account.dfs.core.windows.net/x"),
        ("hdfs://namenode:8020/x", "hdfs://namenode:8020/x"),
    ],
)
def test_one_folder_has_one_name(path: str, output: str) -> None:
    assert files(path).output == delta(path).output == output


@pytest.mark.parametrize("path", ["orders", "", "./x", "/lake/../x", "/lake/*", "s3a://b/[x]", "/a\\b"])
def test_a_path_that_depends_on_who_asks_or_is_several_is_refused(path: str) -> None:
    with pytest.raises(InvalidRequest):
        files(path)
    with pytest.raises(InvalidRequest):
        delta(path)


def test_one_table_has_one_name() -> None:
    assert delta(table="Lake.Orders").output == delta(table="lake.`orders`").output == "delta:lake.orders"
    assert iceberg("lake.db.orders").output == "iceberg:lake.db.orders"
    same = {jdbc(url, "Orders").output for url in (URL, "jdbc:postgresql://DB/lake?ssl=true")}
    assert same == {"jdbc:postgresql://db:5432/lake:public.orders"}
    assert jdbc(URL, 'sales."Orders"').output.endswith(":sales.Orders")
    assert upsert(jdbc(URL, "orders"), keys=["id"]).output == jdbc(URL, "orders").output


def test_a_password_is_in_no_name_no_value_and_no_message() -> None:
    for make in (
        lambda: files("s3a://key:hush@bucket/x"),
        lambda: jdbc("jdbc:postgresql://db/x?user=me&password=hush", "t"),
        lambda: jdbc("jdbc:postgresql://me:hush@db/x", "t"),
        lambda: jdbc(URL, "t", options={"password": "hush"}),
    ):
        with pytest.raises(InvalidRequest) as refused:
            make()
        assert "hush" not in str(refused.value)
    sink = jdbc(URL, "t", properties=lambda spark: {"password": "hush"})
    assert "hush" not in repr(sink) + sink.output


@pytest.mark.parametrize(
    "make",
    [
        lambda: delta(),
        lambda: delta("/x", table="y"),
        lambda: delta("/x", mode="merge"),  # type: ignore[arg-type]
        lambda: delta("/x", options={"txnVersion": 7}),
        lambda: delta("/x", options={"mergeSchema": True}),
        lambda: delta("/x", evolve="merge"),  # type: ignore[arg-type]
        lambda: iceberg("t", evolve="merge"),  # type: ignore[arg-type]
        lambda: jdbc(URL, "t", evolve="merge"),  # type: ignore[arg-type]
        lambda: delta("/x", partition_by="dt"),
        lambda: files("/x", format="delta"),
        lambda: files("/x", options={"partitionoverwritemode": "dynamic"}),
        lambda: files("/x", partition_by=["a/b"]),
        lambda: files("/x", partition_by=["_dt"]),  # readers leave out a folder _dt=…
        lambda: files("/x", partition_by=[".dt"]),
        lambda: files("/x", partition_by=["Kafka_Batch"]),
        lambda: iceberg(""),
        lambda: iceberg("t", options={"isolation-level": "snapshot"}),
        lambda: jdbc(URL, "t", dialect="mysql"),
        lambda: jdbc("jdbc:mysql://db/x", "t"),
        lambda: jdbc(URL, "a.b.c"),
        lambda: jdbc(URL, "t", options={"isolationLevel": "NONE"}),
        lambda: jdbc(URL, "t; drop table u"),
        lambda: upsert(delta("/x"), keys=[]),
        lambda: upsert(delta("/x"), keys="id"),
        lambda: upsert(files("/x"), keys=["id"]),
        lambda: upsert(delta("/x", mode="append"), keys=["id"]),
    ],
)
def test_what_could_not_keep_the_contract_is_refused_before_it_is_written(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidRequest):
        make()


def test_equal_sinks_are_equal_values() -> None:
    assert delta("/x/", partition_by=["dt"], options={"a": 1}) == delta("/x", partition_by=("dt",), options={"a": "1"})
    assert len({files("/x"), files("/x"), iceberg("t"), iceberg("t")}) == 2


@pytest.mark.parametrize("key", ["", "a'b", "a/b", "../x", "a b", "-x", "a\n"])
def test_a_key_that_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(InvalidRequest):
        check_batch(SimpleNamespace(key=key, split=0, attempt=1, row_filter="", look=print))


def test_sinks_are_made_where_there_is_no_pyspark() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from airflow_kafka_offsets.spark.sinks import delta, files, iceberg, jdbc, upsert\n"
        f"print(files('/x'), delta('/x'), iceberg('t'), upsert(jdbc({URL!r}, 't'), ['id']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
