"""What is particular to files: the swap, what a killed driver leaves, and what lies in a folder or around it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_kafka_offsets.spark.errors import LateAttempt, OtherOutput
from airflow_kafka_offsets.spark.sinks import folders
from airflow_kafka_offsets.spark.sinks.files import FilesSink
from airflow_kafka_offsets.spark.sinks.folders import Folders
from tests.spark.sinks.outputs import A, B, Output, rows

Make = Callable[..., Output]


def folder(output: Output) -> Path:
    assert isinstance(output.sink, FilesSink)
    return Path(output.sink.path)


class Killed(BaseException):
    """The driver is gone, and cleans nothing up."""


@pytest.mark.parametrize("renames", [1, 2])
def test_a_swap_that_was_cut_off_is_ended_by_the_next_attempt(
    output_of: Make, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    output = output_of("files", partition_by=["day"])
    output.write(A, rows(0) + rows(1, day="2026-11-23"))
    with monkeypatch.context() as patch:
        kill_at_rename(patch, renames)
        with pytest.raises(Killed):
            output.write(A, rows(7), attempt=2)
    assert output.view() == {}  # between the renames readers see nothing of the batch
    output.write(B, rows(3))  # another batch does not mind
    assert (len(staged(output)), output.view()) == (1, {B: rows(3)})

    def lost() -> None:
        raise LateAttempt("This driver", "is late", "…")

    with pytest.raises(LateAttempt):
        output.write(A, rows(9), attempt=3, on_look=lost)
    assert output.view() == {A: rows(7), B: rows(3)}  # the swap has ended, and nothing else has happened
    output.write(A, rows(9), attempt=4)
    assert output.view() == {A: rows(9), B: rows(3)}
    assert staged(output) == []


def kill_at_rename(patch: pytest.MonkeyPatch, number: int) -> None:
    """Kill the driver behind its first rename: 1 of the old folder. 2: at the second one, before it."""
    done = 0

    def move(self: Folders, source: str, target: str) -> None:
        nonlocal done
        done += 1
        if done == 2:
            raise Killed
        real(self, source, target)
        if number == 1:
            raise Killed

    real = Folders.move
    patch.setattr(Folders, "move", move)


def staged(output: Output) -> list[Path]:
    return list((folder(output) / "_kafka_staging").iterdir())


def test_what_a_killed_driver_has_staged_is_never_seen_and_goes_with_the_next_attempt(output_of: Make) -> None:
    output = output_of("files")
    output.write(A, rows(0))

    left = folder(output) / "_kafka_staging" / f"{A}--2-abcdef" / "new"
    output.frame(rows(1)).write.parquet(str(left))
    assert output.view() == {A: rows(0)}
    output.write(A, rows(2), attempt=3)
    assert (output.view(), staged(output)) == ({A: rows(2)}, [])


def test_a_rename_onto_a_folder_that_is_there_is_refused(output_of: Make) -> None:
    """Hadoop's moves into it, and says true: readers would see one batch inside of another one."""
    output = output_of("files")
    output.write(A, rows(0))
    output.write(B, rows(1))
    place = Folders(output.spark, str(folder(output)))
    with pytest.raises(LateAttempt):
        place.move(f"{folder(output)}/kafka_batch={A}", f"{folder(output)}/kafka_batch={B}")
    assert output.view() == {A: rows(0), B: rows(1)}
    (folder(output) / f"kafka_batch={A}").rename(folder(output) / f"kafka_batch={B}" / f"kafka_batch={A}")
    with pytest.raises(LateAttempt, match=r"hadoop fs -rm -r"):
        output.offsets(B)


def test_where_the_file_system_does_not_rename_the_batchs_folder_is_overwritten(
    output_of: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(folders, "_RENAMING", set())
    output = output_of("files", partition_by=["day"])
    output.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        with caplog.at_level("INFO"):
            output.write(A, rows(0) + rows(1, day="2026-11-23"))
        output.write(B, rows(2))
        output.write(A, rows(5), attempt=2)
        assert output.view() == {A: rows(5), B: rows(2)}
        output.write(A, [], attempt=3)
        assert (output.view(), output.offsets(A)) == ({B: rows(2)}, [])
    finally:
        output.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert "readers see a part of it" in caplog.text


def test_topics_that_look_like_numbers_are_read_back_as_they_are(output_of: Make) -> None:
    output = output_of("files", partition_by=["topic"])
    named = output.frame(rows(0)).selectExpr("* EXCEPT (topic)", "'007' AS topic")
    batch = output.write(A, named)
    assert [tuple(row) for row in output.sink.read_back(batch).collect()] == [("007", 0, 0)]


# ── the mark, and what lies around ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "other", ["part-0.parquet", "dt=2026-11-21/part-0.parquet", "_delta_log/0.json", "bad/_kafka_offsets.json"]
)
def test_a_folder_that_has_something_else_is_refused_before_it_is_marked(output_of: Make, other: str) -> None:
    output = output_of("files")
    path = folder(output) / other
    path.parent.mkdir(parents=True)
    path.write_text('{"pipeline": "orders"}')
    with pytest.raises(OtherOutput, match="which this sink has not written"):
        output.write(A, rows(0))
    assert [p for p in folder(output).rglob("*") if p.is_file()] == [path]


@pytest.mark.parametrize("sign", ["_kafka_offsets.json", "_delta_log/0.json", "metadata/v1.metadata.json"])
@pytest.mark.parametrize("kind", ["files", "delta"])
def test_a_folder_inside_of_an_output_is_refused(output_of: Make, tmp_path: Path, kind: str, sign: str) -> None:
    """Bad records in `/lake/orders/bad`, where `/lake/orders` has the rows: readers of the one would see both."""
    around = tmp_path / "around" / sign
    around.parent.mkdir(parents=True)
    around.write_text('{"pipeline": "orders"}')
    (tmp_path / "link").symlink_to(tmp_path / "around")
    for path in (f"{tmp_path}/around/{kind}", f"{tmp_path}/around/in/it/{kind}", f"{tmp_path}/link/{kind}"):
        output = output_of(kind, path=path)
        with pytest.raises(OtherOutput, match="around, which is an output itself"):
            output.sink.check(output.spark, "orders")
        assert not Path(path).exists()


def test_a_marked_folder_is_known_by_any_name(output_of: Make, tmp_path: Path) -> None:
    output = output_of("files")
    output.write(A, rows(0))
    (tmp_path / "alias").symlink_to(folder(output))
    for path in (f"{tmp_path}/alias", f"file://{folder(output)}"):
        alias = output_of("files", path=path)
        with pytest.raises(OtherOutput, match="'orders'"):
            alias.sink.check(output.spark, "payments")
        alias.sink.check(output.spark, "orders")


def test_a_delta_table_is_not_made_among_files_of_others(output_of: Make) -> None:
    output = output_of("delta")
    assert output.sink.output.startswith("delta:/")
    path = Path(output.sink.output.removeprefix("delta:"))
    path.mkdir()
    (path / "part-0.parquet").write_bytes(b"")
    with pytest.raises(OtherOutput, match=r"part-0\.parquet"):
        output.sink.check(output.spark, "orders")
    with pytest.raises(OtherOutput, match=r"part-0\.parquet"):
        output.sink.write(output.batch(A), output.frame(rows(0)))
    assert [p.name for p in path.iterdir()] == ["part-0.parquet"]
