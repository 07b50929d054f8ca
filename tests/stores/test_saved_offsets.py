"""Where a query stands is read where its checkpoint lies; a batch that has begun and is not committed is refused."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from airflow_kafka_offsets.errors import InvalidRequest, StoreUnavailable
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.request.offset_maps import parse_partition_offsets
from airflow_kafka_offsets.stores.open import open_store
from airflow_kafka_offsets.stores.saved_offsets import text_at
from airflow_kafka_offsets.stores.store import Store
from tests.stores.kinds import SHARED, Kind

BATCH = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'


def of_batch(end: int) -> str:
    return f"v1\n{BATCH}\n" + json.dumps({"orders": {"0": end, "1": 7}})


def checkpoint(folder: Path, *, begun: int, done: int) -> str:
    """Of a query whose batch n ends at ten times n + 10; it began at 3."""
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"5fac0e90-c84d-4f1c-95f1-7487b5266baa"}')
    (folder / "sources/0/0").write_text('\0v1\n{"orders":{"0":3}}')
    for number in range(begun):
        (folder / f"offsets/{number}").write_text(of_batch(10 * number + 10))
        (folder / f"offsets/.{number}.crc").write_bytes(b"crc")
    for number in range(done):
        (folder / f"commits/{number}").write_text('v1\n{"nextBatchWatermarkMs":0}')
    return str(folder)


def offset_at(place: str) -> int:
    return parse_partition_offsets(text_at("specific_offsets", place, open_store))[TopicPartition("orders", 0)]


@pytest.mark.parametrize("kind", SHARED, ids=lambda kind: kind.name)
def test_a_query_that_has_ended_its_batch_stands_where_that_ended(kind: Kind, tmp_path: Path) -> None:
    """Also where one file of it is named: batch 10 is after 9, and is not sorted as text."""
    assert kind.uri is not None
    place, store = kind.uri(tmp_path), kind.open(tmp_path)()
    source = Path(checkpoint(tmp_path / "made", begun=11, done=11))
    for file in source.rglob("*"):
        if file.is_file():
            store.create(str(file.relative_to(source)), file.read_bytes())
    assert [offset_at(at) for at in (place, f"{place}/", f"{place}/offsets/9", f"{place}/sources/0/0")] == [
        *(110, 110, 100, 3)
    ]


@pytest.mark.parametrize("kind", SHARED, ids=lambda kind: kind.name)
def test_a_hudi_table_stands_where_its_newest_commit_with_a_checkpoint_says(kind: Kind, tmp_path: Path) -> None:
    """``tests/spark/test_hudi_table.py`` has tables of Hudi itself."""
    assert kind.uri is not None
    place, store = kind.uri(tmp_path), kind.open(tmp_path)()
    of_streamer = {"deltastreamer.checkpoint.key": "orders,0:42,1:17", "schema": "{}"}
    for name, extra in (
        ("20261125150000000.commit", {"deltastreamer.checkpoint.key": "orders,0:9"}),
        ("20261125150100000.deltacommit", of_streamer),
        ("20261125150200000.replacecommit", None),
        ("20261125150300000.rollback", {"deltastreamer.checkpoint.key": "orders,0:99"}),
    ):
        store.create(f".hoodie/{name}", json.dumps({"extraMetadata": extra}).encode())
    for name in ("20261125150400000.commit.requested", "20261125150400000.inflight"):
        store.create(f".hoodie/{name}", b"")
    assert text_at("specific_offsets", place, open_store) == "orders,0:42,1:17"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"extraMetadata": [1]}', b"Obj\x01", b"\xff"], ids=repr)
def test_a_commit_of_hudi_that_cannot_be_read_is_refused_with_the_way_out(data: bytes, tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    for time, text in (("20261125150000000", b"{}"), ("20261125150100000", data)):
        (tmp_path / ".hoodie" / f"{time}.commit").write_bytes(text)
    with pytest.raises(ValueError, match=r"commit .hoodie/20261125150100000.commit cannot be read here.*hudi-cli"):
        text_at("specific_offsets", str(tmp_path), open_store)


@pytest.mark.parametrize(
    ("done", "ranges", "before"),
    [
        pytest.param(2, r"orders\[0\]: 20 to 30", "/offsets/1", id="after others"),
        pytest.param(0, r"orders\[0\]: 3 to 30, orders\[1\]: its start to 7", "/sources/0/0", id="the first"),
    ],
)
def test_a_batch_that_has_begun_is_not_decided_for_anybody(done: int, ranges: str, before: str, tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "query", begun=3, done=done)
    said = rf"batch 2 has begun and is not committed.*\({ranges}\).*none of them, give {place}{before}; "
    with pytest.raises(ValueError, match=rf"{said}if it has them all, give {place}/offsets/2$"):
        offset_at(place)


@dataclass
class GoesOn:
    """A checkpoint whose query commits its batch and begins the next one between two listings."""

    store: Store
    place: Path
    listed: list[str] = field(default_factory=list)

    def list(self, folder: str) -> list[str]:
        found = self.store.list(folder)
        self.listed += [folder] if folder else []
        if len(self.listed) == 1:
            (self.place / "commits/2").write_text("v1")
            (self.place / "offsets/3").write_text(of_batch(40))
        return found

    def get(self, name: str) -> bytes | None:
        return self.store.get(name)


def test_a_query_that_goes_on_while_it_is_looked_at_is_refused(tmp_path: Path) -> None:
    """Its batch 3 would be in its output and in the pipeline's, were batch 2 taken for the last."""
    folder = tmp_path / "query"
    place = checkpoint(folder, begun=3, done=2)
    with pytest.raises(ValueError, match="has begun and is not committed"):
        text_at("specific_offsets", place, lambda uri: GoesOn(open_store(uri), folder))  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    ("begun", "done", "lost", "said"),
    [
        pytest.param(0, 0, (), "its start is in .*/query/sources/0/0", id="no batch yet"),
        pytest.param(1, 2, (), "lacks offsets/1", id="a commit that nothing belongs to"),
        pytest.param(3, 2, ("offsets/1",), "lacks offsets/1", id="half of it is gone"),
    ],
)
def test_a_checkpoint_that_does_not_tell_is_refused(
    begun: int, done: int, lost: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    place = checkpoint(tmp_path / "query", begun=begun, done=done)
    for name in lost:
        (Path(place) / name).unlink()
    with pytest.raises(ValueError, match=said):
        offset_at(place)


def test_what_is_not_there_or_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "noise").write_bytes(b"\xff\xfe")
    for name, said in (
        ("none", "cannot be read here"),
        ("folder", "no file is there"),
        ("noise", "no text"),
    ):
        with pytest.raises(ValueError, match=f"^is '{tmp_path}/{name}'.*{said}"):
            offset_at(str(tmp_path / name))


def test_the_parameter_is_named_and_not_a_work_store(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="specific_offsets ftp://lake/query cannot be used"):
        offset_at("ftp://lake/query")
    with pytest.raises(InvalidRequest, match="specific_offsets s3://aws@lake/query names the connection 'aws'"):
        offset_at("s3://aws@lake/query")
    (Path(checkpoint(tmp_path / "query", begun=1, done=1)) / "offsets/0").rename(tmp_path / "elsewhere")
    (tmp_path / "query/offsets/0").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreUnavailable, match=f"Cannot read {tmp_path}/query, which specific_offsets names"):
        offset_at(str(tmp_path / "query"))
