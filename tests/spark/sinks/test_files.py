"""What is particular to files: folders that readers see or do not, and what a file system cannot promise."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.spark.sinks.conftest import A, B, Output, Row, rows, seen
from tests.spark.sinks.lab import Failed, Lab


def folder(output: Output) -> Path:
    return Path(output.place["root"]) / output.place["name"]


@pytest.mark.slow  # the reader is a second Spark
def test_a_reader_never_sees_files_that_are_staged(output_of: Callable[[str], Output]) -> None:
    output = output_of("files by date")
    output.write(A, rows(0))
    look = {"do": "view", "kind": output.kind, "place": output.place}
    done = output.write(A, rows(1, 2, dt="2026-11-23"), attempt=2, on_look={"meanwhile": [look]})
    assert done["meanwhile"] == [{"ok": {f"{A}/0": seen(rows(0))}}]  # all is written, and nothing swapped in
    assert list((folder(output) / "_kafka_staging").iterdir()) == []


OTHER_ROWS = {
    "a streaming query's": ("files", "_spark_metadata/0"),
    "a table's": ("files", "_delta_log/0.json"),
    "a job's": ("files", "part-0.parquet"),
    "a job's by date": ("files by date", "dt=2026-11-21/part-0.parquet"),
    "another layout's": ("files", f"dt=2026-11-21/kafka_batch={B}/kafka_split=0/part-0.parquet"),
}


@pytest.mark.parametrize("whose", OTHER_ROWS)
def test_rows_that_lie_there_in_another_way_are_not_hidden_from_readers(
    output_of: Callable[[str], Output], whose: str
) -> None:
    """Spark reads what `_spark_metadata` names and nothing else; of files and partitions, the partitions alone."""
    kind, *names = OTHER_ROWS[whose]
    output = output_of(kind)
    for name in names:
        path = folder(output) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    with pytest.raises(Failed, match="folder of its own"):
        output.write(A, rows(0))
    left = {str(path.relative_to(folder(output))) for path in folder(output).rglob("*") if path.is_file()}
    assert left == set(names)


@pytest.mark.parametrize("table", ["_delta_log/00.json", "metadata/v1.metadata.json"])
def test_rows_that_the_cleaning_of_a_table_would_delete_are_not_written(
    output_of: Callable[[str], Output], table: str
) -> None:
    """Bad records in `/lake/orders/bad`, where `/lake/{topic}` has the rows; or another pipeline's output."""
    output = output_of("files")
    of_table = folder(output) / "orders" / table
    of_table.parent.mkdir(parents=True)
    of_table.write_bytes(b"")
    for inside in ("orders/bad", "orders/bad/records"):
        with pytest.raises(Failed, match=r"orders, which is a table.* a folder beside it"):
            replace(output, place={**output.place, "name": f"{output.place['name']}/{inside}"}).write(A, rows(0))
    for beside in ("bad", "orders/_bad/records"):  # what cleans a table leaves hidden names
        place = {**output.place, "name": f"{output.place['name']}/{beside}"}
        assert replace(output, place=place).write(A, rows(0))["read"] == seen(rows(0))


def test_folders_that_were_left_out_of_a_repeat_are_removed_and_others_are_not(
    output_of: Callable[[str], Output],
) -> None:
    output = output_of("files by date")
    output.write(A, rows(0) + rows(1, dt="2026-11-23"))
    output.write(A, rows(5, dt="2026-11-23"), split=1)
    output.write(B, rows(6, dt="2026-11-23"))
    output.write(A, rows(0, 1), attempt=2)
    left = {str(path.relative_to(folder(output))) for path in folder(output).glob("dt=*/kafka_batch=*/kafka_split=*")}
    next_day = "dt=2026-11-23/kafka_batch"
    assert left == {
        f"dt=2026-11-22/kafka_batch={A}/kafka_split=0",
        f"{next_day}={A}/kafka_split=1",
        f"{next_day}={B}/kafka_split=0",
    }


ODD = (
    "a/b: 100% {*}",
    "a\u2028b",
    "a\u2029b",
    "a\x85b",
    "a\nb",
    "._COPYING_",
    "x._COPYING_",
    "_temporary",
    ".hidden",
    " é ",
    "..",
)


def test_several_partition_columns_and_values_that_no_folder_can_be_named_by(
    output_of: Callable[[str], Output],
) -> None:
    """Spark escapes some of them, and its readers leave out others; done again, none is lost and none stays."""
    output, odd = output_of("files by date"), {"options": {"partition_by": ["dt", "value"]}}
    given = [[number, "2026-11-22", value] for number, value in enumerate((*ODD, None, "=x"))]
    assert output.write(A, given, **odd)["read"] == seen(given)
    assert output.view() == {f"{A}/0": seen(given)}
    again = [[number, "2026-11-22", value] for number, value in enumerate(ODD[::-1])] + [[99, None, "c"]]
    assert output.write(A, again, attempt=2, **odd)["read"] == seen(again)
    assert output.view() == {f"{A}/0": seen(again)}


def test_another_format_with_its_options(output_of: Callable[[str], Output]) -> None:
    output, json = output_of("files"), {"options": {"format": "json", "options": {"compression": "gzip"}}}
    assert output.write(A, rows(0, 1), **json)["read"] == seen(rows(0, 1))
    assert output.write(A, rows(2), attempt=2, **json)["read"] == seen(rows(2))
    assert [path.suffixes for path in folder(output).rglob("part-*")] == [[".json", ".gz"]]


def test_a_format_that_was_changed_beside_other_batches_is_refused(output_of: Callable[[str], Output]) -> None:
    """Each batch alone is read back well; no reader reads them together."""
    output, json = output_of("files by date"), {"options": {"format": "json"}}
    output.write(A, rows(0))
    assert output.write(A, rows(1), attempt=2, **json)["read"] == seen(rows(1))  # nothing is beside it
    output.write(A, rows(0), attempt=3)
    with pytest.raises(Failed, match="files in the format parquet, and this sink writes json"):
        output.write(B, rows(2), **json)
    assert output.view() == {f"{A}/0": seen(rows(0))}


@pytest.mark.parametrize("format", ["parquet", "orc", "json", "csv"])
def test_a_repeat_without_rows_leaves_no_folder_and_one_row_does(
    output_of: Callable[[str], Output], format: str
) -> None:
    """Spark writes a file without rows, which some formats do not read."""
    output, as_format = output_of("files"), {"options": {"format": format, "options": {"header": True}}}
    output.write(A, rows(0), **as_format)
    own = folder(output) / f"kafka_batch={A}" / "kafka_split=0"
    assert list(own.glob("part-*")) != []
    assert output.write(A, rows(), attempt=2, **as_format)["read"] == []
    assert not own.exists()


def test_a_session_that_overwrites_partitions_dynamically_changes_nothing(
    output_of: Callable[[str], Output], lab: Lab
) -> None:
    output = output_of("files by date")
    lab.ask("settings", values={"spark.sql.sources.partitionOverwriteMode": "dynamic"})
    try:
        output.write(A, rows(0) + rows(1, dt="2026-11-23"))
        output.write(A, rows(0, 1), attempt=2)
    finally:
        lab.ask("settings", values={"spark.sql.sources.partitionOverwriteMode": None})
    assert output.view() == {f"{A}/0": seen(rows(0, 1))}


def test_a_swap_that_was_cut_off_is_finished_before_the_next_attempt_reads(
    output_of: Callable[[str], Output],
) -> None:
    """The old rows are half gone; if the records are gone as well, the new ones must be whole."""
    output = output_of("files by date")
    old = rows(0) + rows(1, dt="2026-11-23")
    output.write(A, old)
    new = rows(0, value="w") + rows(1, dt="2026-11-24", value="w")
    steps = output.write(B, new)["steps"]["files"]  # those of a write that replaces nothing
    swap = next(number for number, step in enumerate(steps) if step.endswith("/folders")) + 1
    output.write(A, new, attempt=2, fault={"on": "files", "at": swap + 1, "how": "dead"})
    cut = output.view()[f"{A}/0"]
    assert cut not in (seen(old), seen(new))  # what the page says of files
    with pytest.raises(Failed, match="records are gone"):
        output.write(A, rows(0), attempt=3, fault={"on": "row", "at": 0, "how": "raise"})
    assert output.view()[f"{A}/0"] == seen(new)


@pytest.mark.parametrize("half", ["old", "new"])
def test_a_swap_that_was_killed_in_a_copy_is_finished(half: str, output_of: Callable[[str], Output]) -> None:
    """On an object store a rename copies each file, and then deletes it: a kill leaves a part at the target."""
    output = output_of("files")
    old, new = rows(0, 1, 2, 3), rows(4, 5, 6, 7)
    output.write(A, old)
    steps = output.write(B, new)["steps"]["files"]  # those of a write that replaces nothing
    swap = next(number for number, step in enumerate(steps) if step.endswith("/folders")) + 1
    output.write(A, new, attempt=2, fault={"on": "files", "at": swap + (half == "new"), "how": "dead"})
    (staging,) = (folder(output) / "_kafka_staging").glob(f"{A}--*")
    place = f"kafka_batch={A}/kafka_split=0"
    source, target = (folder(output), staging / "old") if half == "old" else (staging / "new", folder(output))
    (target / place).mkdir(parents=True)
    first = min((source / place).glob("part-*"))
    (target / place / first.name).write_bytes(first.read_bytes())
    with pytest.raises(Failed, match="records are gone"):
        output.write(A, rows(0), attempt=3, fault={"on": "row", "at": 0, "how": "raise"})
    assert output.view()[f"{A}/0"] == seen(new)


def test_what_killed_attempts_have_staged_goes_with_the_next_one(output_of: Callable[[str], Output]) -> None:
    output = output_of("files")
    output.write(A, rows(0))
    output.write(A, rows(1), attempt=2, fault={"on": "files", "at": 3, "how": "dead"})
    output.write(B, rows(9), fault={"on": "files", "at": 3, "how": "dead"})
    assert len(list((folder(output) / "_kafka_staging").iterdir())) == 2
    output.write(A, rows(2), attempt=3)
    (other,) = (folder(output) / "_kafka_staging").iterdir()  # it may be alive
    assert other.name.startswith(B)


@pytest.mark.parametrize("late_rows", [rows(0), []], ids=["that writes", "that writes nothing"])
def test_a_late_driver_that_has_looked_finds_nothing_staged(
    late_rows: list[Row], output_of: Callable[[str], Output]
) -> None:
    """Else it would take the newer one's other dates for what its own rows have left."""
    output = output_of("files by date")
    newer = {"do": "write", **output.command(A, rows(7, dt="2026-12-24"), attempt=2)}
    with pytest.raises(Failed, match=r"LateAttempt: Attempt 1 at split 0 of batch .* stops before it writes"):
        output.write(A, late_rows, attempt=1, on_look={"meanwhile": [newer]})
    assert output.view() == {f"{A}/0": seen(rows(7, dt="2026-12-24"))}


def test_a_late_driver_that_sleeps_in_its_swap_leaves_the_newer_ones_folders(
    output_of: Callable[[str], Output],
) -> None:
    output = output_of("files by date")
    newer = {"do": "write", **output.command(A, rows(7, dt="2026-12-24"), attempt=2)}
    with pytest.raises(Failed, match=r"LateAttempt: .* may hold rows of both"):
        output.write(A, rows(0), attempt=1, in_swap=[newer])
    assert output.view() == {f"{A}/0": seen(rows(7, dt="2026-12-24"))}


def test_a_swap_that_does_not_find_what_was_staged_takes_no_old_row_away(output_of: Callable[[str], Output]) -> None:
    output = output_of("files by date")
    output.write(A, rows(0, dt="2026-11-21"))
    remove = f"import glob, shutil; [shutil.rmtree(new) for new in glob.glob('{folder(output)}/_kafka_staging/*/new')]"
    with pytest.raises(Failed, match="is gone, and not in its place"):
        output.write(A, rows(1), attempt=2, in_swap=[{"do": "page", "code": remove}])
    assert output.view() == {f"{A}/0": seen(rows(0, dt="2026-11-21"))}
