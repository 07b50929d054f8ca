"""Names of datasets, by OpenLineage's rules."""

import pytest

from airflow_kafka_offsets.plan.dataset_names import dataset_of_output, kafka_namespace


@pytest.mark.parametrize(
    ("servers", "namespace"),
    [
        ("kafka-1:9092", "kafka://kafka-1:9092"),
        ("kafka-1:9093,kafka-2:9094", "kafka://kafka-1:9093"),
        (" kafka-1 , kafka-2:9094", "kafka://kafka-1:9092"),
        ("SASL_SSL://kafka-1:9093", "kafka://kafka-1:9093"),
        ("[::1]:9093", "kafka://[::1]:9093"),
        ("[::1]", "kafka://[::1]:9092"),
    ],
)
def test_a_cluster_is_named_by_its_first_server_with_the_port(servers: str, namespace: str) -> None:
    assert kafka_namespace(servers) == namespace


@pytest.mark.parametrize(
    ("output", "namespace", "name"),
    [
        ("/lake/orders", "file", "/lake/orders"),
        ("file:///lake/orders", "file", "/lake/orders"),
        ("s3a://lake/raw/orders", "s3://lake", "raw/orders"),
        ("s3://lake", "s3://lake", "/"),
        ("gs://lake/orders", "gs://lake", "orders"),
        ("abfss://lake@account.dfs.core.windows.net/o", "abfss://lake@account.dfs.core.windows.net", "o"),
        ("hdfs://namenode:8020/lake/orders", "hdfs://namenode:8020", "/lake/orders"),
        ("hdfs:///lake/orders", "hdfs", "/lake/orders"),
        ("delta:lake.orders", "delta", "lake.orders"),
        ("iceberg:prod.lake.orders", "iceberg", "prod.lake.orders"),
        ("jdbc:postgresql://db:5432/sales:public.orders", "postgres://db:5432", "sales.public.orders"),
        ("jdbc:postgresql://db:5432,db2:5432/sales:public.orders", "postgres://db:5432", "sales.public.orders"),
        ("lake.orders", "spark", "lake.orders"),
    ],
)
def test_an_output_has_the_name_that_spark_gives_it(output: str, namespace: str, name: str) -> None:
    assert dataset_of_output(output) == (namespace, name)


@pytest.mark.parametrize(
    "output",
    [
        "s3a://AKIA:hunter2@lake/orders",
        "s3a://AKIA:hunter2/x@lake/orders",
        "abfss://lake:hunter2@account.dfs.core.windows.net/orders",
        "https://user:hunter2@host/orders",
        "https://host/orders?sig=hunter2",
        "https://host/orders#hunter2",
        "jdbc:mysql://root:hunter2@db:3306/sales",
        "jdbc:mysql://db:3306/sales?password=hunter2",
        "jdbc:sqlserver://db:1433;databaseName=sales;password=hunter2",
        "jdbc:oracle:thin:scott/hunter2@//db:1521/sales",
        "postgresql:root:hunter2@db",
    ],
)
def test_no_name_has_a_secret_in_it(output: str) -> None:
    assert "hunter2" not in "".join(dataset_of_output(output))
