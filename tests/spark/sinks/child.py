"""A driver in a process of its own: it does what it is asked through a socket, one line of JSON for each command.

A command is a dictionary: `do` names a function below, the rest are its arguments. The answer is what it returns, or
`{"error": …}`. Who asks sees the socket end when the driver is killed.
"""

import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from airflow_kafka_offsets.spark import for_each_batch, planned_batch, sinks
from airflow_kafka_offsets.spark.driver_jvm import Folders
from airflow_kafka_offsets.spark.jobs.audit_output import count_places
from airflow_kafka_offsets.spark.row_sink import RowSink
from airflow_kafka_offsets.spark.sinks.files_sink import JOURNAL
from airflow_kafka_offsets.spark.sinks.jdbc_sink import JdbcSink
from airflow_kafka_offsets.spark.sinks.postgresql import Connection
from airflow_kafka_offsets.spark.sinks.sink_arguments import sink_of
from airflow_kafka_offsets.spark.sinks.sink_contract import overtaken
from tests.spark.sinks import outputs
from tests.spark.sinks.after import After
from tests.spark.sinks.faults import Steps, kill_group

COLUMNS = "topic STRING, partition INT, offset BIGINT, dt DATE, value STRING, id INT"


@dataclass
class Batch:
    """A batch whose look does what a test wants done at that moment."""

    key: str
    split: int
    attempt: int
    driver: "Driver"
    on_look: Mapping[str, Any] = field(default_factory=dict)
    looks: int = 0
    answers: list[dict[str, Any]] = field(default_factory=list)

    @property
    def row_filter(self) -> str:
        return f"kafka_batch = '{self.key}' AND kafka_split = {self.split}"

    def look(self, output: str) -> None:
        self.looks += 1
        if "raise" in self.on_look:
            raise RuntimeError(self.on_look["raise"])
        if self.on_look.get("kill") == self.looks:
            kill_group()
        if self.looks == 2:
            self.answers.extend(self.driver.answer(command) for command in self.on_look.get("after_write", ()))
        if self.looks == self.on_look.get("late"):
            raise overtaken(self, output, "attempt 9", wrote=True)
        if "meanwhile" in self.on_look and self.looks == 1:
            self.answers.extend(self.driver.answer(command) for command in self.on_look["meanwhile"])
        if "beside" in self.on_look and self.looks == 1:
            self.driver.beside(self.on_look["beside"])


class Said(logging.Handler):
    """What this project says at INFO."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        logger = logging.getLogger("airflow_kafka_offsets")
        logger.setLevel(logging.INFO)
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class Driver:
    """`place` is given with each command: where the test's own output is."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        self.spark = SparkSession.builder.config(map=dict(conf)).getOrCreate()
        self.steps = Steps(self.spark)
        self._said = Said()
        self._threads: list[threading.Thread] = []
        self._later: list[dict[str, Any]] = []

    def answer(self, command: Mapping[str, Any]) -> dict[str, Any]:
        arguments = dict(command)
        try:
            return {"ok": getattr(self, arguments.pop("do"))(**arguments)}
        except Exception as error:
            causes = [str(error), str(error.__cause__ or "")]
            return {"error": type(error).__name__, "message": "\n".join(causes)}

    def write(
        self,
        kind: str,
        place: Mapping[str, str],
        key: str,
        rows: Sequence[Sequence[Any]],
        split: int = 0,
        attempt: int = 1,
        fault: Mapping[str, Any] | None = None,
        on_look: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        in_swap: Sequence[Mapping[str, Any]] = (),
        before_insert: Sequence[Mapping[str, Any]] = (),
        extra: str | None = None,
        nulls: Sequence[str] = (),
        columns: Mapping[str, str | None] | None = None,
    ) -> Any:
        """The rows that the sink reads back; and, with a fault, the steps that there were.

        `columns` of the records are computed by SQL, or left out.
        """
        fault = dict(fault or {})
        records = self._records(rows, fault)
        if extra is not None:
            records = records.withColumn(extra, f.lit("a column of the user's own"))
        records = records.withColumns({name: f.lit(None).cast("int") for name in nulls})
        for name, expression in (columns or {}).items():
            records = records.drop(name) if expression is None else records.withColumn(name, f.expr(expression))
        batch = Batch(key, split, attempt, self, on_look or {})
        sink = outputs.sink(kind, place, **(options or {}))
        if in_swap:
            self._do_in_swap(in_swap)
        if before_insert:
            self._do_before_insert(before_insert)
        nested = self.steps._counts
        if not nested:
            self.steps.begin(fault if fault.get("on") in ("files", "calls") else None)
        error: Exception | None = None
        try:
            written = sink(records, batch)
            read = _rows(written) if isinstance(written, DataFrame) else None
        except Exception as raised:
            error = raised
        if not nested:
            for thread in self._threads:  # before the end, which closes every connection that is open
                thread.join()
            self._threads.clear()
        steps = {} if nested else self.steps.end()
        if not nested:
            answers, self._later = batch.answers + self._later, []
        else:
            answers = batch.answers
        if error is not None and fault.get("on") not in ("files", "calls"):
            raise error
        return {
            "read": None if error is not None else read,
            "raised": None if error is None else f"{type(error).__name__}: {error}",
            "steps": steps,
            "looks": batch.looks,
            "meanwhile": answers,
        }

    def row_job(
        self,
        argv: Sequence[str],
        sink: Mapping[str, Any],
        bad: Mapping[str, Any] | None = None,
        between: Sequence[Mapping[str, Any]] | str = (),
    ) -> list[dict[str, Any]]:
        """The job of one split of a batch with a row definition; the answers to the commands between its outputs.

        :param between: what is done when the rows are written, and bad records come next: commands, or ``kill``.
        """
        answers: list[dict[str, Any]] = []

        def happens() -> None:
            if between == "kill":
                kill_group()
            answers.extend(self.answer(command) for command in between)  # type: ignore[arg-type]

        batch, place = planned_batch(argv, self.spark), {**bad, "limit": "100%"} if bad else {}
        write = RowSink(sink, batch.row_definition, place, batch.topics_of_all_splits)
        if between and write.set_aside is not None:
            write.set_aside = After(write.set_aside, happens)
        for_each_batch(self.spark, write, argv)
        return answers

    def rows_of(self, words: Mapping[str, Any], columns: str = "offset") -> list[list[Any]]:
        """What a reader of the whole output sees, by offset; none where there is no output yet."""
        if words["format"] == "jdbc":
            password = self.spark.conf.get("spark.kafka_offsets.jdbc.password")
            place = {"root": "", "name": words["table"], "url": words["url"], "password": str(password)}
            frame = outputs.whole("jdbc", self.spark, place)
        else:
            kind = "iceberg" if words["format"] == "iceberg" else "delta"
            root, _, name = words.get("path", f"/{words.get('table', '')}").rpartition("/")
            frame = outputs.whole(kind, self.spark, {"root": root, "name": name.removeprefix("lake.db.")})
        found = [] if frame is None else frame.orderBy("offset").selectExpr(*columns.split("; ")).collect()
        return [[value if isinstance(value, int) else str(value) for value in row] for row in found]

    def set_offsets(self, words: Mapping[str, Any], topic: str, key: str) -> None:
        """What a person does whom a batch asks to."""
        table = sink_of(words, topic)
        mine = f"kafka_batch = '{key}' AND topic = '{topic}'"
        if isinstance(table, JdbcSink):
            with table.database.connection(self.spark) as connection:
                connection.run(f'UPDATE {table.table.sql} SET "offset" = -1 WHERE {mine}')
        else:
            self.spark.sql(f"UPDATE {table.sql_name} SET offset = -1 WHERE {mine}")  # type: ignore[attr-defined]

    def _do_in_swap(self, commands: Sequence[Mapping[str, Any]]) -> None:
        """When files are about to be swapped, and what the swap has to do has been read."""
        plain = Folders.read_lines

        def read_lines(folders: Folders, path: str) -> list[str]:
            lines = plain(folders, path)
            if not path.endswith(f"/{JOURNAL}"):
                return lines
            Folders.read_lines = plain  # type: ignore[method-assign]
            self._later.extend(self.answer(command) for command in commands)
            return lines

        Folders.read_lines = read_lines  # type: ignore[method-assign]

    def _do_before_insert(self, commands: Sequence[Mapping[str, Any]]) -> None:
        """When a database has been looked at, and the statement that writes comes next."""
        plain = Connection.run

        def run(connection: Connection, sql: str, *parameters: str | int) -> int:
            if sql.startswith("INSERT"):
                Connection.run = plain  # type: ignore[method-assign]
                self._later.extend(self.answer(command) for command in commands)
            return plain(connection, sql, *parameters)

        Connection.run = run  # type: ignore[method-assign]

    def view(self, kind: str, place: Mapping[str, str]) -> dict[str, list[list[Any]]]:
        """What a reader sees, by key and split."""
        frame = outputs.whole(kind, self.spark, place)
        found: dict[str, list[list[Any]]] = {}
        if frame is not None:
            for key, split, *row in _rows(frame, "kafka_batch", "kafka_split"):
                found.setdefault(f"{key}/{split}", []).append(row)
        return found

    def schema(self, kind: str, place: Mapping[str, str]) -> dict[str, str]:
        frame = outputs.whole(kind, self.spark, place)
        return {} if frame is None else dict(frame.dtypes)

    def table(self, kind: str, place: Mapping[str, str], columns: Sequence[str]) -> list[list[str | None]]:
        """Some columns of what a reader sees, as text, by offset."""
        frame = outputs.whole(kind, self.spark, place)
        assert frame is not None
        rows = frame.orderBy("offset").selectExpr(*columns).collect()
        return [[None if value is None else str(value) for value in row] for row in rows]

    def said(self) -> list[str]:
        """Since it was last asked."""
        lines, self._said.lines = self._said.lines, []
        return lines

    def written(self, kind: str, place: Mapping[str, str], key: str, split: int = 0) -> Any:
        frame = outputs.sink(kind, place).written(self.spark, Batch(key, split, 1, self))
        return None if frame is None else _rows(frame)

    def counted(self, kind: str, place: Mapping[str, str], key: str, split: int = 0) -> list[list[Any]]:
        """What a report asks of the frame that is read back."""
        frame = outputs.sink(kind, place).written(self.spark, Batch(key, split, 1, self))
        assert frame is not None
        by = frame.groupBy("topic", "partition").agg(f.count("*"), f.min("offset"), f.max("offset"))
        return [list(row) for row in by.collect()]

    def files_read(self, kind: str, place: Mapping[str, str], key: str, split: int = 0) -> int:
        frame = outputs.sink(kind, place).written(self.spark, Batch(key, split, 1, self))
        return 0 if frame is None else len(frame.inputFiles())

    def keys(self, kind: str, place: Mapping[str, str]) -> list[str]:
        return outputs.sink(kind, place).keys(self.spark)

    def places(self, kind: str, place: Mapping[str, str], bounds: list[str] | None = None) -> list[list[Any]]:
        """What an audit counts of the output."""
        frame = outputs.sink(kind, place).rows(self.spark, tuple(bounds) if bounds else None)  # type: ignore[attr-defined]
        found = {} if frame is None else count_places(frame)
        return [[*found_in, *astuple(rows)] for found_in, rows in sorted(found.items())]

    def sql(self, statement: str) -> list[list[Any]]:
        return [[None if value is None else str(value) for value in row] for row in self.spark.sql(statement).collect()]

    def database(self, place: Mapping[str, str], statement: str) -> list[str]:
        """A statement of somebody else's in the database; the first column of what it gives."""
        sink = outputs.sink("jdbc", place)
        with sink.database.connection(self.spark) as connection:  # type: ignore[attr-defined]
            if statement.startswith("SELECT"):
                found: list[str] = connection.values(statement)
                return found
            connection.run(statement)
            return []

    def page(self, code: str, rows: Sequence[Sequence[Any]] = (), key: str = "", argv: Sequence[str] = ()) -> list[str]:
        """Run what a page prints, with the names that it takes for granted; the keys that its sink's output holds."""
        records = self._records(rows, {}).withColumns(
            {"timestamp": f.to_timestamp("dt"), "customer_id": f.col("offset")}
        )
        granted = {"spark": self.spark, "records": records, "batch": Batch(key, 0, 1, self), "to_date": f.to_date}
        names: dict[str, Any] = {**vars(sinks), **granted}
        sys.argv[:] = argv
        exec(compile(code, "page", "exec"), names)
        return names["sink"].keys(self.spark) if "sink" in names else []

    def together(self, commands: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """All at the same time, each in a thread of its own."""
        answers: list[dict[str, Any]] = [{} for _ in commands]

        def run(position: int) -> None:
            answers[position] = self.answer(commands[position])

        self.steps._counts = True  # they are all nested: none of them counts
        threads = [threading.Thread(target=run, args=(position,)) for position in range(len(commands))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.steps._counts = False
        return answers

    def after_gate(self, gate: str, command: Mapping[str, Any]) -> dict[str, Any]:
        """Do it while the records of another one wait at their gate, and then open that."""
        _await(Path(gate + ".reached"))
        answer = self.answer(command)
        Path(gate + ".open").touch()
        return answer

    def settings(self, values: Mapping[str, str | None]) -> None:
        for name, value in values.items():
            self.spark.conf.unset(name) if value is None else self.spark.conf.set(name, value)

    def beside(self, command: Mapping[str, Any]) -> None:
        """Begin a command in another thread, and return when it waits for the lock of the one that looks."""
        thread = threading.Thread(target=lambda: self._later.append(self.answer(command)))
        thread.start()
        self._threads.append(thread)
        waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        end = time.monotonic() + 60
        while self.database(command["place"], waits) == ["0"]:
            if time.monotonic() > end:
                raise TimeoutError("nobody waits for the lock")
            time.sleep(0.02)

    def _records(self, rows: Sequence[Sequence[Any]], fault: Mapping[str, Any]) -> DataFrame:
        """Rows of [offset, date, value, optionally id and partition], in two tasks."""
        filled = ([*row, None, None][:5] for row in rows)
        full = [
            ("orders", partition or 0, offset, dt, value, number) for offset, dt, value, number, partition in filled
        ]
        loose = "topic STRING, partition INT, offset BIGINT, dt STRING, value STRING, id INT"
        frame = self.spark.createDataFrame(full, loose).repartition(2, "offset")
        frame = frame.withColumn("dt", f.to_date("dt"))
        if fault.get("on") == "row":
            at = fault["at"]
            if fault["how"] == "kill":
                group = os.getpgid(0)

                @f.udf("long")
                def deadly(offset: int) -> int:
                    if offset == at:
                        os.killpg(group, 9)
                        time.sleep(600)
                    return offset

                frame = frame.withColumn("offset", deadly("offset"))
            elif fault["how"] == "gate":
                gate = fault["gate"]

                @f.udf("long")
                def waiting(offset: int) -> int:
                    if offset == at:
                        Path(gate + ".reached").touch()
                        _await(Path(gate + ".open"))
                    return offset

                frame = frame.withColumn("offset", waiting("offset"))
            else:
                gone = f.raise_error(f.lit("records are gone")).cast("long")
                frame = frame.withColumn("offset", f.when(f.col("offset") == at, gone).otherwise(f.col("offset")))
        return frame


def _await(file: Path) -> None:
    end = time.monotonic() + 60
    while not file.exists():
        if time.monotonic() > end:
            raise TimeoutError(f"{file} does not appear")
        time.sleep(0.02)


def _rows(frame: DataFrame, *more: str) -> list[list[Any]]:
    """Offset, date, value and id of each row, sorted."""
    columns = [*more, "offset", "dt", "value", "id"]
    missing = [name for name in columns if name not in frame.columns]
    frame = frame.withColumns({name: f.lit(None) for name in missing})
    rows = frame.select(
        *more, f.col("offset").cast("long"), f.col("dt").cast("string"), "value", f.col("id").cast("int")
    ).collect()
    return sorted(([*row] for row in rows), key=lambda row: json.dumps(row))


def main() -> None:
    link = socket.socket(fileno=int(sys.argv[1]))
    with link, link.makefile("rw", encoding="utf-8") as lines:
        driver: Driver | None = None
        for line in lines:
            command = json.loads(line)
            if driver is None:
                driver = Driver(command)
                answer: dict[str, Any] = {"ok": None}
            else:
                answer = driver.answer(command)
            lines.write(json.dumps(answer) + "\n")
            lines.flush()
    os.killpg(os.getpgid(0), 9)  # who asked is gone, or has asked all


if __name__ == "__main__":
    main()
