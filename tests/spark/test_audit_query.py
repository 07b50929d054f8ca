"""``audit`` of tables that jobs of other kinds wrote, on a real Kafka; the query runs on Spark, DuckDB and Trino."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.cli.main import main
from testbed.broker import KafkaBroker
from testbed.cache import Say
from testbed.iceberg_sink import CONTROL, IcebergSink
from testbed.java import Java
from testbed.topics import wait_for
from testbed.trino import Trino

pytestmark = pytest.mark.long

COLUMNS = ("--partition", "t.kafka.partition", "--offset", "t.kafka.offset", "--day", "t.day")


@pytest.fixture
def audit(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """``audit("topic", rows)``: the audit of a table with these rows, whose answer DuckDB confirms."""

    def printed(*words: str, status: int = 0) -> str:
        capsys.readouterr()
        assert main(["audit", *words], None) == status
        return capsys.readouterr().out

    def ask(topic: str, rows: DataFrame, *options: str, status: int = 1) -> Any:
        table, answer = tmp_path / "table", tmp_path / "answer"
        rows.write.mode("overwrite").parquet(str(table))
        columns = ("--topic", f"'{topic}'", *COLUMNS)
        query = printed("--table", f"parquet.`{table}`", *columns).rstrip().rstrip(";")
        spark.sql(query).coalesce(1).write.mode("overwrite").csv(str(answer), header=True)
        (file,) = answer.glob("*.csv")
        query = printed("--table", f"read_parquet('{table}/*.parquet')", *columns).rstrip().rstrip(";")
        with duckdb.connect() as database:
            database.execute(f"COPY ({query}) TO '{tmp_path / 'duck.csv'}' (HEADER)")
        assert sorted(file.read_text().splitlines()) == sorted((tmp_path / "duck.csv").read_text().splitlines())
        words = (f"@{file}", "--bootstrap-servers", broker.bootstrap_servers, "--output", "json", *options)
        return json.loads(printed(*words, status=status))

    return ask


def table_of(spark: SparkSession, *offsets: int) -> DataFrame:
    """Rows of partition 0, with these offsets."""
    kafka = "named_struct('partition', 0, 'offset', o) AS kafka"
    return spark.createDataFrame([(o,) for o in offsets], "o long").selectExpr(kafka, "DATE '2026-11-20' AS day")


WORDS = ("lost", "never_there", "cannot_be_told", "doubled")


def stretches(found: Mapping[str, Any]) -> dict[tuple[int, int], dict[str, int]]:
    """Of each gap and each doubled stretch what became of its offsets."""
    return {(row["start"], row["end"]): {w: row[w] for w in WORDS if row[w]} for row in found["stretches"]}


@pytest.mark.slow
def test_a_job_that_appends_and_is_killed_before_it_saves_its_offset_doubles_records(
    spark: SparkSession, broker: KafkaBroker, topic: Callable[..., str], audit: Callable[..., Any], tmp_path: Path
) -> None:
    """Structured Streaming wrote the first 40 records, once each. Then a job by hand took over; it also drops one."""
    name = topic(2)
    broker.produce_many(name, 40, partitions=2)
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    stream = stream.option("subscribe", name).option("startingOffsets", "earliest")
    kafka = "named_struct('topic', topic, 'partition', `partition`, 'offset', `offset`) AS kafka"
    columns = [kafka, "CAST(timestamp AS DATE) AS day"]
    target = str(tmp_path / "lake")
    query = stream.load().selectExpr(*columns).writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).format("delta").start(target).awaitTermination()
    found = audit(name, spark.read.format("delta").load(target), status=0)
    assert {word: found[word] for word in WORDS} == dict.fromkeys(WORDS, 0)

    saved = 20
    broker.produce_many(name, 20, partitions=2)
    for is_killed in (True, False):
        batch = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
        offsets = json.dumps({name: {"0": saved, "1": saved}})
        records = batch.option("subscribe", name).option("startingOffsets", offsets).load()
        kept = records.where("NOT (`partition` = 1 AND `offset` = 24)").selectExpr(*columns)
        (kept.where("kafka.offset < 23") if is_killed else kept).write.format("delta").mode("append").save(target)
    found = audit(name, spark.read.format("delta").load(target))
    assert [(s["partition"][-2:], s["start"], s["end"], s["lost"], s["doubled"]) for s in found["stretches"]] == [
        ("-0", 20, 23, 0, 3), ("-1", 20, 23, 0, 3), ("-1", 24, 25, 1, 0)]  # fmt: skip
    assert (found["lost"], found["doubled"]) == (1, 6)
    ends = audit(name, spark.read.format("delta").load(target), "--ends", status=0)
    assert ends["offsets"] == {name: {"0": 30, "1": 30}}


@pytest.mark.slow
def test_iceberg_s_kafka_connect_sink_that_is_killed_writes_each_record_once_and_a_deleted_row_is_lost(
    spark: SparkSession,
    session_settings: Mapping[str, str],
    java: Java,
    broker: KafkaBroker,
    topic: Callable[..., str],
    audit: Callable[..., Any],
) -> None:
    name, warehouse = topic(2), Path(session_settings["spark.sql.catalog.lake.warehouse"])
    table = f"lake.connect.{name.replace('-', '_')}"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.connect")
    if CONTROL not in broker.admin().list_topics(timeout=30).topics:
        broker.create_topic(CONTROL)

    def rows() -> DataFrame:
        spark.catalog.refreshTable(table)
        place = "named_struct('partition', _kafka_metadata_partition, 'offset', _kafka_metadata_offset) AS kafka"
        return spark.table(table).selectExpr(place, "DATE '2026-11-20' AS day")

    def has(count: int) -> bool:
        try:
            return rows().count() >= count
        except AnalysisException:  # it is not there yet
            return False

    for count in (20, 40):
        broker.produce(name, [(n % 2, b"k", b'{"id": %d}' % n, None) for n in range(20)])
        with IcebergSink(java, broker, f"{name}-sink", name, table.partition(".")[2], warehouse):
            wait_for("the sink has written", lambda count=count: has(count), 120)  # type: ignore[misc]
    found = audit(name, rows(), status=0)
    assert {word: found[word] for word in WORDS} == dict.fromkeys(WORDS, 0)
    spark.sql(f"DELETE FROM {table} WHERE _kafka_metadata_partition = 1 AND _kafka_metadata_offset = 7")
    found = audit(name, rows())
    assert [(s["partition"][-2:], s["start"], s["end"], s["lost"]) for s in found["stretches"]] == [("-1", 7, 8, 1)]
    assert audit(name, rows(), "--ends", status=0)["offsets"] == {name: {"0": 20, "1": 20}}


def test_gaps_of_transactions_and_of_a_compacted_topic_were_never_records(
    spark: SparkSession, broker: KafkaBroker, audit: Callable[..., Any], with_transactions: str, compacted: str
) -> None:
    """Also a gap that an open transaction may fill, and one that it cannot."""
    table = table_of(spark, 0, 1, 3, 4, 10, 13)
    assert stretches(audit(with_transactions, table)) == {
        (2, 3): {"lost": 1},
        (5, 10): {"never_there": 5},
        (11, 13): {"lost": 1, "cannot_be_told": 1},  # 12 is in the open transaction
    }
    first = min(row.offset for row in _records(spark, broker, compacted).collect())
    found = audit(compacted, table_of(spark, 0, first), status=0)
    assert stretches(found) == {(1, first): {"never_there": first - 1}}


def test_deleted_records_and_a_topic_that_was_created_again_tell_nothing(
    spark: SparkSession, broker: KafkaBroker, audit: Callable[..., Any], topic: Callable[..., str]
) -> None:
    name = topic()
    broker.produce_many(name, 10)
    broker.delete_records({(name, 0): 6})
    assert stretches(audit(name, table_of(spark, 0, 5, 9))) == {(1, 5): {"cannot_be_told": 4}, (6, 9): {"lost": 3}}
    broker.delete_topic(name)
    broker.create_topic(name)
    broker.produce_many(name, 5)
    wait_for("the new topic has records", lambda: broker.offset_bounds(name) == {0: (0, 5)})
    found = audit(name, table_of(spark, 0, 5, 9), status=0)
    assert stretches(found) == {(1, 5): {"cannot_be_told": 4}, (6, 9): {"cannot_be_told": 3}}


PLACE = ("--topic", "'orders'", "--partition", "t.kafka.partition", "--offset", "t.kafka.offset")
SINCE = ("--day", "t.at", "--since", "2026-11-21")
SHAPES = [
    (),
    PLACE,
    ("--batch", "t.kafka_batch"),
    ("--day", "t.day"),
    SINCE,
    (*PLACE, "--batch", "t.kafka_batch", *SINCE),
]
ROWS = [
    *(
        ("orders", 0, offset, day, f"{day}-a")
        for day, offsets in ((20, (0, 1, 2, 5)), (21, (6, 7)))
        for offset in offsets
    ),
    *(("orders", 0, offset, 21, "21-b") for offset in (1, 6, 9)),  # doubled; after a gap
    *(("orders", 1, offset, 21, None) for offset in (3, 3, 3, 4, 5)),
    ("others", 0, 0, 20, "20-a"),
    ("others", 0, None, 20, "20-a"),
]
"""Topic, partition, offset, day of November 2026 and batch."""


@pytest.fixture(scope="module")
def trino(java: Java, say: Say) -> Iterator[Trino]:
    values = ", ".join(
        f"('{topic}', {partition}, CAST({'NULL' if offset is None else offset} AS BIGINT), DATE '2026-11-{day}', "
        f"TIMESTAMP '2026-11-{day} 12:30:00', {'NULL' if batch is None else repr(batch)})"
        for topic, partition, offset, day, batch in ROWS
    )
    with Trino(java, say) as server:
        server.sql(
            "CREATE TABLE audited AS SELECT *, "
            "CAST(ROW(partition, offset) AS ROW(partition INTEGER, offset BIGINT)) AS kafka "
            f"FROM (VALUES {values}) AS v (topic, partition, offset, day, at, kafka_batch)"
        )
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("options", SHAPES, ids=" ".join)
def test_spark_duckdb_and_trino_answer_the_same_text_alike(
    spark: SparkSession, trino: Trino, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    assert main(["audit", "--table", "audited", *options], None) == 0
    query = capsys.readouterr().out.rstrip().removesuffix(";")
    rows = spark.createDataFrame(ROWS, "topic STRING, partition INT, offset BIGINT, day INT, kafka_batch STRING")
    columns = [
        "topic",
        "`partition`",
        "offset",
        "kafka_batch",
        "named_struct('partition', `partition`, 'offset', offset) kafka",
    ]
    columns += ["make_date(2026, 11, day) AS day", "make_timestamp_ntz(2026, 11, day, 12, 30, 0) AS at"]
    table = rows.selectExpr(*columns)
    table.createOrReplaceTempView("audited")
    table.write.parquet(str(tmp_path / "audited"))
    with duckdb.connect() as database:
        database.execute(f"CREATE VIEW audited AS SELECT * FROM read_parquet('{tmp_path}/audited/*.parquet')")
        by_duckdb = database.execute(query)
        answers = [([column[0] for column in by_duckdb.description], by_duckdb.fetchall())]
    by_spark = spark.sql(query)
    answers += [(by_spark.columns, by_spark.collect()), trino.sql(query)]
    first, *others = [(list(names), sorted([*map(str, row)] for row in found)) for names, found in answers]
    assert others == [first, first]
    assert len(first[1]) > 3


def _records(spark: SparkSession, broker: KafkaBroker, topic: str) -> DataFrame:
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    return source.option("subscribe", topic).load()
