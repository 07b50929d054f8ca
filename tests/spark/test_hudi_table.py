"""A Hudi Streamer's position is read from its table, whose commits Hudi itself has written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_kafka_offsets.request.offset_maps import parse_partition_offsets
from airflow_kafka_offsets.stores.avro_file import first_record
from airflow_kafka_offsets.stores.open import open_store
from airflow_kafka_offsets.stores.saved_offsets import text_at
from testbed.jars import hudi_jars
from testbed.java import Java
from testbed.java_compiler import compile_jar
from tests.builders import tp

PROGRAM = Path(__file__).with_name("hudi") / "WriteHudiCommits.java"
KEY, KEY_2 = "deltastreamer.checkpoint.key", "streamer.checkpoint.key.v2"
Commits = Callable[..., Path]


@pytest.fixture(scope="session")
def classpath(java: Java, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    import pyspark

    jars = [*hudi_jars(java), *sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))]
    return [compile_jar(java, [PROGRAM], jars, tmp_path_factory.mktemp("hudi") / "commits.jar"), *jars]


@pytest.fixture
def commits(java: Java, classpath: list[Path], tmp_path: Path) -> Commits:
    """`commits(version, "deltacommit=key=value", …)`: the folder of the table."""

    def write(version: int, *words: str) -> Path:
        table = tmp_path / "table"
        command = [str(java.executable), "-cp", os.pathsep.join(map(str, classpath)), "WriteHudiCommits"]
        command += [str(table), str(version), *words]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **java.env}, timeout=120)
        assert done.returncode == 0, done.stderr
        return table

    return write


def position(table: Path) -> str:
    return text_at("specific_offsets", str(table), open_store)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_the_newest_commit_with_a_checkpoint_says_where_the_streamer_stands(commits: Commits, version: int) -> None:
    """A compaction after it has none, and a commit that has not ended is rolled back by Hudi."""
    table = commits(
        version, f"deltacommit={KEY}=orders,0:7", f"deltacommit={KEY}=orders,0:42,1:17", "commit=other=x", "deltacommit"
    )
    names = sorted(file.name for file in (table / ".hoodie").rglob("[0-9]*commit"))
    assert len(names) == 3
    assert all(("_" in name) == (version > 6) for name in names)
    assert parse_partition_offsets(position(table)) == {tp(0): 42, tp(1): 17}


@pytest.mark.parametrize("version", [6, 9])
def test_a_table_without_a_checkpoint_says_where_else_to_look(commits: Commits, version: int) -> None:
    with pytest.raises(ValueError, match=r"no active commit has the checkpoint of a Hudi Streamer.*show_archived"):
        position(commits(version, "commit=other=x"))


def test_the_key_of_hudi_1_is_read_too(commits: Commits) -> None:
    assert position(commits(9, f"commit={KEY_2}=orders,0:3")) == "orders,0:3"


def test_a_commit_that_is_cut_off_at_any_byte_is_named_and_no_older_one_is_taken(commits: Commits) -> None:
    """A position of before would read records again."""
    table = commits(9, f"commit={KEY}=orders,0:1", f"commit={KEY}=orders,0:2")
    newest = max((table / ".hoodie" / "timeline").glob("[0-9]*_*.commit"))
    whole = newest.read_bytes()
    assert first_record(whole)["extraMetadata"] == {KEY: "orders,0:2"}
    end = max(size for size in range(len(whole)) if _is_refused(whole[:size]))
    assert len(whole) - end <= 17, "what is behind the record is the marker between blocks"
    newest.write_bytes(whole[:end])
    with pytest.raises(ValueError, match=f"whose commit .hoodie/timeline/{newest.name} cannot be read here.*hudi-cli"):
        position(table)


def _is_refused(data: bytes) -> bool:
    try:
        first_record(data)
    except ValueError:
        return True
    return False
