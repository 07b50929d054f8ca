"""Every record of a batch is a row, a bad record or filtered, and the report proves it. Real drivers, a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from airflow_kafka_offsets.rows.config import Avro, BadRecords, Iceberg, Json, Rows
from airflow_kafka_offsets.rows.job import job_object
from airflow_kafka_offsets.rows.registry import Registry, schemas_of
from airflow_kafka_offsets.spark import fates as fates_of_records
from airflow_kafka_offsets.spark import kept
from airflow_kafka_offsets.spark.errors import BadRecords as TooManyBadRecords
from airflow_kafka_offsets.spark.errors import ConditionNotMet, InvalidJob, OtherOutput
from airflow_kafka_offsets.spark.marks import near
from testbed.broker import KafkaBroker
from testbed.registry_server import RegistryServer
from testbed.topics import wait_for
from tests.spark.killed_driver import ROOT
from tests.spark.plans import PlannedBatch, Plans
from tests.spark.rows.conftest import Lake
from tests.spark.rows.test_decode import ID, NAME, order, schema, with_header

Produced = Callable[..., str]
ORDER = Json("id BIGINT, kind STRING")
VALUES = [
    b'{"id":1,"kind":"a"}',
    b"not JSON",
    b'{"id":3,"kind":"b"}',
    b'{"id":-4,"kind":"a"}',
    None,
    b'{"id":6,"kind":"a"}',
]
NOT_JSON = "the value is not JSON of the schema"


def rows_of(lake: Lake, limit: int | str | None = None) -> Rows:
    bad = BadRecords(lake.sink("bad"), limit)
    return Rows(ORDER, where="value IS NULL OR value.kind = 'a'", expect={"positive": "value.id > 0"}, bad=bad)


def fates(batch: PlannedBatch, topic: str) -> tuple[int, int, int]:
    counts = batch.counts((topic, 0))
    return counts["rows"], counts["bad"], counts["filtered"]


@pytest.mark.parametrize("kind", ["delta", pytest.param("iceberg", marks=pytest.mark.slow)])
@pytest.mark.parametrize("small", [0, kept.SMALL], ids=["read twice", "come along"])
def test_every_record_has_one_fate_and_a_corrected_job_moves_it(
    lake: Lake,
    plans: Plans,
    produced: Produced,
    kind: str,
    small: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Bad records of a large plan are read a second time."""
    monkeypatch.setattr(kept, "SMALL", small)
    lake, topic = replace(lake, kind=kind), produced(VALUES)
    batch, seconds = plans.batch({(topic, 0): (0, 6)}), []
    monkeypatch.setattr(fates_of_records, "near", lambda *of: seconds.append(of) or near(*of))
    with caplog.at_level("INFO"):
        lake.run(batch, rows_of(lake))
    assert len(seconds) == (0 if small else 1)
    assert (batch.problems(), fates(batch, topic)) == ([], (3, 2, 1))
    assert "Kafka is read once more" not in caplog.text
    assert lake.table("good", "offset", "id", "kafka_batch") == [
        (n, i, batch.key) for n, i in ((0, 1), (4, None), (5, 6))
    ]
    bad = lake.table("bad", "topic", "partition", "offset", "key", "value", "reason", "kafka_batch")
    assert bad == [
        (topic, 0, 1, b"k1", b"not JSON", NOT_JSON, batch.key),
        (topic, 0, 3, b"k3", VALUES[3], "the expectation 'positive' is not met", batch.key),
    ]
    assert [row["headers"][0]["value"] for row in lake.read("bad").orderBy("offset").collect()] == [b"1", b"3"]

    lake.run(batch, replace(rows_of(lake), where=None, expect=None))
    assert (batch.problems(), fates(batch, topic)) == ([], (5, 1, 0))
    assert lake.table("bad", "offset") == [(1,)]
    lake.run(batch, replace(rows_of(lake), select=["partition AS id"], value=None, where=None, expect=None))
    assert (batch.problems(), fates(batch, topic)) == ([], (6, 0, 0))
    assert lake.count("bad") == 0


def test_expressions_see_headers_without_a_place_for_bad_records(lake: Lake, plans: Plans, produced: Produced) -> None:
    batch = plans.batch({(produced(VALUES), 0): (0, 6)})
    lake.run(batch, Rows(select=["CAST(headers[0].value AS STRING) AS number"], where="headers[0].value != X'35'"))
    assert lake.table("good", "offset", "number") == [(n, str(n)) for n in range(5)]


def test_the_first_bad_record_fails_a_batch_without_a_place_for_it_and_five_are_named(
    lake: Lake, plans: Plans, produced: Produced
) -> None:
    topic = produced([b"{}", *[b"x"] * 7])
    batch = plans.batch({(topic, 0): (0, 8)})
    with pytest.raises(TooManyBadRecords) as raised:
        lake.run(batch, Rows(ORDER))
    assert raised.value.what.startswith("Bad records in batch 1 of pipeline orders, attempt 1: 7 of 8")
    assert [raised.value.cause.count(f"{topic}-0:{n}: {NOT_JSON}") for n in range(8)] == [0, 1, 1, 1, 1, 1, 0, 0]
    assert f'"skip": ["{topic}-0:1"]' in raised.value.remedy
    assert batch.names("report") == []


def test_more_bad_records_than_the_limit_fail_the_batch(lake: Lake, plans: Plans, produced: Produced) -> None:
    """Two of six are bad."""
    batch = plans.batch({(produced(VALUES), 0): (0, 6)})
    for limit in (1, "33.3%"):
        with pytest.raises(TooManyBadRecords, match=f"the limit is {limit}"):
            lake.run(batch, rows_of(lake, limit))
    for limit in (2, "33.4%"):
        lake.run(batch, rows_of(lake, limit))
        assert batch.problems() == []


def test_an_expression_that_raises_is_its_authors_error_and_leaves_the_output_as_it_was(
    lake: Lake, plans: Plans, produced: Produced
) -> None:
    topic = produced([b'{"id":0,"kind":"x"}', b'{"id":1,"kind":"1"}'])
    batch = plans.batch({(topic, 0): (0, 2)})
    for wrong in ("1 DIV value.id AS n", "CAST(value.kind AS INT) AS n"):
        with pytest.raises(InvalidJob, match="try_cast, try_divide"):
            lake.run(batch, Rows(ORDER, select=[wrong]))
    lake.run(batch, Rows(ORDER, select=["try_cast(value.kind AS INT) AS n"]))
    assert (batch.problems(), lake.table("good", "n")) == ([], [(None,), (1,)])


def test_filtered_and_bad_records_beside_gaps_are_verified(lake: Lake, plans: Plans, with_transactions: str) -> None:
    """Values are numbers: JSON that is no object. Offsets 5 to 9 have no record."""
    topic = with_transactions
    batch = plans.batch({(topic, 0): (0, 12)}, isolation_level="read_committed")
    lake.run(batch, Rows(where="offset % 2 = 0"))
    assert (batch.problems(), fates(batch, topic)) == ([], (4, 0, 3))
    batch = plans.batch({(topic, 0): (0, 12)}, number=2, isolation_level="read_committed")
    other = Lake(lake.spark, lake.kind, lake.folder / "other")
    other.run(batch, Rows(ORDER, bad=BadRecords(other.sink("bad"))))
    assert (batch.problems(), fates(batch, topic)) == ([], (0, 7, 0))
    assert batch.counts((topic, 0))["gaps"] == 5


def test_bad_records_do_not_go_into_another_pipelines_output(lake: Lake, plans: Plans, produced: Produced) -> None:
    """Refused before the attempt begins, though the rows' own output is this pipeline's."""
    topic = produced(VALUES)
    lake.run(plans.batch({(topic, 0): (0, 6)}, pipeline="payments"), rows_of(lake))
    other = Lake(lake.spark, lake.kind, Path(f"{lake.folder}/other"))
    batch = plans.batch({(topic, 0): (0, 6)})
    with pytest.raises(OtherOutput, match="'payments/bad'"):
        other.run(batch, replace(rows_of(other), bad=BadRecords(lake.sink("bad"))))
    assert batch.attempts == []


def test_bad_records_that_move_or_go_nowhere_leave_the_table_of_the_attempt_before(
    lake: Lake, plans: Plans, produced: Produced
) -> None:
    batch = plans.batch({(produced(VALUES), 0): (0, 6)})
    lake.run(batch, rows_of(lake))
    lake.run(batch, replace(rows_of(lake), bad=BadRecords(lake.sink("moved"))))
    assert (batch.problems(), lake.count("bad"), lake.count("moved")) == ([], 0, 2)
    lake.run(batch, Rows(select=["CAST(NULL AS BIGINT) AS id", "CAST(NULL AS STRING) AS kind"]))
    assert (batch.problems(), lake.count("moved"), lake.count("good")) == ([], 0, 6)


def test_bad_records_do_not_go_into_the_rows_table_by_another_name(
    lake: Lake, plans: Plans, produced: Produced
) -> None:
    batch = plans.batch({(produced(VALUES), 0): (0, 6)})
    lake.run(batch, rows_of(lake))
    (lake.folder / "alias").symlink_to(lake.folder / "good")
    with pytest.raises(OtherOutput, match="table of pipeline 'orders', and this is pipeline 'orders/bad'"):
        lake.run(batch, replace(rows_of(lake), bad=BadRecords(lake.sink("alias"))))
    assert batch.attempts == [1]


def test_rows_that_are_together_not_as_ensured_are_not_committed_and_old_rows_stay(
    lake: Lake, plans: Plans, produced: Produced
) -> None:
    """Also where Spark cannot say so while it writes: of DISTINCT."""
    batch = plans.batch({(produced([b'{"id":1}', b'{"id":1}', b'{"id":2}']), 0): (0, 3)})
    unique = Rows(Json("id BIGINT"), ensure={"ids are unique": "count(*) = count(DISTINCT id)", "some": "count(*) > 0"})
    with pytest.raises(ConditionNotMet) as raised:
        lake.run(batch, unique)
    assert "'ids are unique' is not met: count(*) = count(DISTINCT id) (count(*) = 3, count(DISTINCT id) = 2)" in str(
        raised.value
    )
    assert batch.names("report") == []
    lake.run(batch, replace(unique, where="offset > 0"))
    assert (batch.problems(), lake.table("good", "offset")) == ([], [(1,), (2,)])
    with pytest.raises(ConditionNotMet, match="is unchanged"):
        lake.run(batch, unique)
    assert lake.table("good", "offset") == [(1,), (2,)]


def test_avro_of_a_registry_is_decoded_by_the_writers_of_each_version(
    lake: Lake, plans: Plans, produced: Produced, schema_registry: RegistryServer
) -> None:
    registry = Registry(schema_registry.url)
    texts = [schema(ID), schema(ID, {**NAME, "default": "none"})]
    subject = f"{lake.folder.name}-value"
    ids = [register(registry, subject, text) for text in texts]
    topic = produced([with_header(ids[0], order(1)), with_header(ids[1], order(2, b"ab")), with_header(2**30, b"")])
    batch = plans.batch({(topic, 0): (0, 3)})
    rows = Rows(Avro(registry="registry", subject=subject), bad=BadRecords(lake.sink("bad")))
    lake.run(batch, rows, schemas_of(rows, [topic], lambda connection: registry))
    assert (batch.problems(), fates(batch, topic)) == ([], (2, 1, 0))
    assert lake.table("good", "id", "name") == [(1, "none"), (2, "ab")]


def register(registry: Registry, subject: str, text: str) -> int:
    """Register a version; its id."""
    request = Request(
        f"{registry.url}/subjects/{subject}/versions", json.dumps({"schema": text}).encode(), method="POST"
    )
    request.add_header("Content-Type", "application/vnd.schemaregistry.v1+json")
    with urlopen(request, timeout=30) as answer:
        return int(json.load(answer)["id"])


def test_a_batch_without_records_replaces_what_an_attempt_has_written(
    lake: Lake, plans: Plans, produced: Produced
) -> None:
    topic = produced(VALUES)
    batch = plans.batch({(topic, 0): (0, 6)})
    lake.run(batch, rows_of(lake))
    batch.plan({(topic, 0): (6, 6)})
    lake.run(batch, rows_of(lake))
    assert (batch.problems(), lake.count("good"), lake.count("bad")) == ([], 0, 0)


@pytest.mark.slow
def test_a_batch_whose_commit_meets_another_one_is_written_again_and_counted_right(
    lake: Lake, plans: Plans, produced: Produced, tmp_path: Path
) -> None:
    """Two windows of one Delta table are both written again: the slower one reads Kafka twice."""
    reads, may_end, topic = tmp_path / "reads", tmp_path / "may_end", produced(VALUES)
    reads.mkdir()

    def wait(number: int | None) -> int | None:
        (reads / f"{time.monotonic_ns()}").touch()
        wait_for("the other batch is written", may_end.exists)
        return number

    lake.spark.udf.register("wait_for_the_other", wait, "BIGINT")
    slow, other = plans.batch({(topic, 0): (0, 6)}), plans.batch({(topic, 0): (0, 6)}, number=2)
    for batch in (slow, other):
        lake.run(batch, rows_of(lake))
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(
            lake.run, slow, replace(rows_of(lake), select=["wait_for_the_other(value.id) AS id", "value.kind"])
        )
        wait_for("the slow batch is read", lambda: any(reads.iterdir()) or late.done())
        lake.run(other, rows_of(lake))
        may_end.touch()
        late.result(300)
    assert len(list(reads.iterdir())) == 2 * 3  # twice the rows
    assert [(batch.problems(), fates(batch, topic)) for batch in (slow, other)] == [([], (3, 2, 1))] * 2


@pytest.mark.slow
def test_bad_records_of_a_stage_that_runs_again_are_counted_once(
    lake: Lake,
    plans: Plans,
    broker: KafkaBroker,
    topic: Callable[..., str],
    session_settings: Mapping[str, str],
    tmp_path: Path,
) -> None:
    """What the stage has shuffled is lost, so Spark observes its records twice: four bad ones, where two are."""
    name = topic(2)
    broker.produce(name, [(n % 2, None, b"bad" if n < 2 else b"{}", None) for n in range(6)])
    batch, lake = plans.batch({(name, 0): (0, 3), (name, 1): (0, 3)}), replace(lake, kind="iceberg")
    rows = Rows(ORDER, select=["wait(partition) AS day"], bad=BadRecords(lake.sink("bad"), limit=2))
    sink = Iceberg(f"lake.db.{tmp_path.name}_good", partition_by=["day"])  # Iceberg shuffles by partition
    command = [sys.executable, "-m", "tests.spark.lost_shuffle", json.dumps(session_settings), str(tmp_path / "runs")]
    arguments = batch.arguments(batch.job(job_object(sink, rows)))
    driver = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert driver.returncode == 0, driver.stderr
    assert len([*(tmp_path / "runs").glob("0-*")]) > 2
    assert (batch.problems(), lake.count("good"), lake.count("bad")) == ([], 4, 2)
