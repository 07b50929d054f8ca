"""What is particular to Delta: transactions that are skipped or refused, conflicts by partition, and appends."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.sinks.conftest import WINDOW, A, B, Output, rows, seen
from tests.spark.sinks.lab import Failed, Lab


@pytest.mark.parametrize("kind", ["delta", "delta table"])
def test_a_late_driver_is_fenced_off_even_after_its_last_look(kind: str, output_of: Callable[[str], Output]) -> None:
    output = output_of(kind)
    output.write(A, rows(0))
    newer = {"do": "write", **output.command(A, rows(7), attempt=3)}
    with pytest.raises(Failed, match=r"LateAttempt: Attempt 2 at split 0 of batch .* stops before it writes"):
        output.write(A, rows(1, 2), attempt=2, on_look={"meanwhile": [newer]})
    assert output.view() == {f"{A}/0": seen(rows(7))}


@pytest.mark.parametrize("kind", ["delta", "delta table"])
@pytest.mark.parametrize("newer_rows", [rows(7), []], ids=["that writes", "that writes nothing"])
def test_a_driver_that_is_overtaken_in_the_middle_of_its_write_fails(
    kind: str, newer_rows: list[list[object]], output_of: Callable[[str], Output], lab: Lab
) -> None:
    output = output_of(kind)
    output.write(B, rows(5))
    gate = f"{output.place['root']}/{output.place['name']}"
    late = output.command(A, rows(0, 1), attempt=1, fault={"on": "row", "how": "gate", "at": 0, "gate": gate})
    newer = {"do": "write", **output.command(A, newer_rows, attempt=2)}
    first, second = lab.ask(
        "together",
        commands=[{"do": "write", **late}, {"do": "after_gate", "gate": gate, "command": newer}],
    )
    assert first["error"] == "LateAttempt"
    assert second["ok"]["ok"]["read"] == seen(newer_rows)
    assert output.view().get(f"{A}/0", []) == seen(newer_rows)


@pytest.mark.parametrize("kind", ["delta", "upsert delta"])
def test_a_folder_of_files_does_not_become_a_table(kind: str, output_of: Callable[[str], Output]) -> None:
    """The DAG's format was changed, and its path was not: readers of the table would see the new batches alone."""
    output, files = output_of(kind), output_of("files")
    files.write(A, rows(0, 1))
    with pytest.raises(Failed, match="is no Delta table"):
        output.write(B, rows(2), columns={"id": "1"})
    assert files.view() == {f"{A}/0": seen(rows(0, 1))}


def test_what_a_first_write_that_failed_has_left_is_no_obstacle(output_of: Callable[[str], Output]) -> None:
    output = output_of("delta")
    with pytest.raises(Failed):
        output.write(A, rows(0, 1), fault={"on": "row", "at": 1, "how": "raise"})
    assert output.write(A, rows(0, 1), attempt=2)["read"] == seen(rows(0, 1))


@pytest.mark.parametrize("kind", ["delta", "delta table"])
def test_splits_that_write_at_the_same_time_do_not_get_in_each_others_way(
    kind: str, output_of: Callable[[str], Output], lab: Lab
) -> None:
    output = output_of(kind)
    output.write(B, rows(5))
    splits = [{"do": "write", **output.command(A, rows(split), split=split)} for split in range(3)]
    done = lab.ask("together", commands=splits)
    assert [answer["ok"]["looks"] for answer in done] == [1, 1, 1]  # a second try looks again
    assert {key: found[0][0] for key, found in output.view().items()} == {f"{A}/{n}": n for n in range(3)} | {
        f"{B}/0": 5
    }


def test_windows_that_do_try_again_and_table_that_is_made_by_several_at_once(
    output_of: Callable[[str], Output], lab: Lab
) -> None:
    output = output_of("delta")
    keys = [f"{WINDOW}{number}" for number in range(3)]
    done = lab.ask("together", commands=[{"do": "write", **output.command(key, rows(1))} for key in keys])
    assert all("ok" in answer for answer in done), done
    assert output.view() == {f"{key}/0": seen(rows(1)) for key in keys}


def test_the_session_s_own_overwrite_mode_changes_nothing(output_of: Callable[[str], Output], lab: Lab) -> None:
    output = output_of("delta table")
    output.write(A, rows(0, 1))
    output.write(B, rows(5))
    lab.ask("settings", values={"spark.sql.sources.partitionOverwriteMode": "dynamic"})
    try:
        output.write(A, rows(2), attempt=2)
    finally:
        lab.ask("settings", values={"spark.sql.sources.partitionOverwriteMode": None})
    assert output.view() == {f"{A}/0": seen(rows(2)), f"{B}/0": seen(rows(5))}
    history = lab.ask("sql", statement=f"DESCRIBE HISTORY {output.place['name']} LIMIT 1")
    assert any(f'"kafka_batch": "{A}", "kafka_split": 0, "attempt": 2,' in str(value) for value in history[0])


@pytest.mark.parametrize("name", ["txnAppId", "txnVersion"])
def test_an_upsert_that_the_session_lets_delta_pass_over_is_refused(
    name: str, output_of: Callable[[str], Output], lab: Lab
) -> None:
    """Delta's own way to a MERGE that is done once, in a function that was a streaming query's: nothing was merged."""
    output, setting = output_of("upsert delta"), "spark.databricks.delta.write"
    output.write(A, [[0, "2026-11-22", "a", 1]])
    both = {f"{setting}.txnAppId": "orders", f"{setting}.txnVersion": "7"}
    lab.ask("settings", values={f"{setting}.{name}": both[f"{setting}.{name}"]})
    try:
        with pytest.raises(Failed, match=rf"The session has {setting}.{name}: Delta passes over a MERGE"):
            output.write(B, [[1, "2026-11-22", "b", 2]])
    finally:
        lab.ask("settings", values=dict.fromkeys(both))
    assert list(output.view()) == [f"{A}/0"]
    output.write(B, [[1, "2026-11-22", "b", 2]])
    assert list(output.view()) == [f"{A}/0", f"{B}/0"]


@pytest.mark.parametrize(("kind", "setting"), [("delta", "ignoreMissingFiles"), ("upsert delta", "ignoreCorruptFiles")])
def test_a_session_that_passes_over_a_file_that_it_cannot_read_leaves_no_old_row_beside_a_new_one(
    kind: str, setting: str, output_of: Callable[[str], Output], lab: Lab
) -> None:
    """A file system that does not answer at this moment is enough: the file is whole, and seen by the next reader."""
    output, name = output_of(kind), f"spark.sql.files.{setting}"
    folder = Path(output.place["root"]) / output.place["name"]
    output.write(A, rows(0, 1), columns={"id": "offset"})
    output.write(B, rows(2), columns={"id": "offset"})
    lab.ask("sql", statement=f"OPTIMIZE delta.`{folder}`")  # one file has the rows of both
    before, file = output.view(), max(folder.rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    content = file.read_bytes()
    file.unlink()
    if setting == "ignoreCorruptFiles":
        file.write_bytes(b"none")
    lab.ask("settings", values={name: "true"})
    try:
        with pytest.raises(Failed, match="FAILED_READ_FILE"):
            output.write(A, rows(0, 1), attempt=2, columns={"id": "offset"})
    finally:
        lab.ask("settings", values={name: None})
    file.write_bytes(content)
    assert output.view() == before
    output.write(A, rows(0, 1), attempt=3, columns={"id": "offset"})
    assert output.view() == before


def test_a_table_in_a_catalog_that_is_not_delta_s_keeps_its_rows(make_lab: Callable[..., Lab], lab_root: Path) -> None:
    """Clusters that have Iceberg's session catalog: there ``saveAsTable`` put a new table in the place of this one."""
    setting = "spark.sql.catalog.spark_catalog"
    iceberg = {f"{setting}.type": "hadoop", f"{setting}.warehouse": f"{lab_root}/lake"}
    with make_lab(**{setting: "org.apache.iceberg.spark.SparkSessionCatalog", **iceberg}) as lab:
        path = Output("delta", {"root": str(lab_root), "name": "in_another_catalog"}, lab)
        path.write(A, rows(0, 1))
        lab.ask(
            "sql", statement=f"CREATE TABLE in_another_catalog USING delta LOCATION '{lab_root}/in_another_catalog'"
        )
        table = Output("delta table", path.place, lab)
        with pytest.raises(Failed, match=r"not Delta's\. Nothing was written\. .*or name the table by its path"):
            table.write(B, rows(2))
        assert table.view() == {f"{A}/0": seen(rows(0, 1))}


def test_a_table_of_many_columns_knows_the_bounds_of_the_key(output_of: Callable[[str], Output]) -> None:
    """Delta keeps those of the first 32 columns: the key's are the first."""
    output = output_of("delta")
    output.write(A, rows(0))
    (commit,) = (Path(output.place["root"]) / output.place["name"] / "_delta_log").glob("*.json")
    schema = next(line for line in commit.read_text().splitlines() if '"metaData"' in line)
    assert schema.index("kafka_batch") < schema.index("topic")


def test_a_table_of_40_columns_whose_key_stands_last_is_not_read_whole(
    output_of: Callable[[str], Output], lab: Lab
) -> None:
    output = output_of("delta")
    name = f"delta.`{output.place['root']}/{output.place['name']}`"
    wide = ", ".join(
        ["topic STRING, partition INT, offset BIGINT, dt DATE, value STRING, id INT", *(f"c{n} INT" for n in range(34))]
    )
    lab.ask("sql", statement=f"CREATE TABLE {name} ({wide}) USING delta")
    lab.ask("sql", statement=f"ALTER TABLE {name} ADD COLUMNS (kafka_batch STRING, kafka_split INT)")
    for attempt in (1, 2):
        for number in range(4):
            output.write(f"{A}{number}", rows(number), attempt=attempt)
    assert [output.ask("files_read", key=f"{A}{number}") for number in range(4)] == [1, 1, 1, 1]
    (kept,) = lab.ask("sql", statement=f"SHOW TBLPROPERTIES {name} ('delta.dataSkippingStatsColumns')")
    assert kept[1].startswith("`topic`,`partition`,`offset`,`dt`,`value`,`id`,`c0`,"), "what had bounds keeps them"
    assert kept[1].endswith(",`c25`,`kafka_batch`")


def test_an_append_is_done_once_and_then_refused(output_of: Callable[[str], Output], lab: Lab) -> None:
    output, append = output_of("delta"), {"options": {"mode": "append"}}
    with pytest.raises(Failed, match="records are gone"):
        output.write(A, rows(0, 1), fault={"on": "row", "at": 1, "how": "raise"}, **append)
    output.write(A, rows(0, 1), attempt=2, **append)  # nothing had landed
    output.write(B, rows(5), **append)
    for attempt in (3, 4):
        with pytest.raises(Failed, match="has been appended already"):
            output.write(A, rows(0, 1, 2), attempt=attempt, **append)
    assert output.view() == {f"{A}/0": seen(rows(0, 1)), f"{B}/0": seen(rows(5))}

    lab.ask(
        "sql", statement=f"DELETE FROM delta.`{output.place['root']}/{output.place['name']}` WHERE kafka_batch = '{A}'"
    )
    with pytest.raises(Failed, match="has been appended already"):  # Delta would skip it without a word
        output.write(A, rows(0, 1), attempt=5, **append)
    output.write(A, rows(0, 1), attempt=6)  # as the message says: overwrite
    assert output.view() == {f"{A}/0": seen(rows(0, 1)), f"{B}/0": seen(rows(5))}
