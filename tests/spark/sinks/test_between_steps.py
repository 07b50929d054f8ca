"""What may happen to a table between two steps of a driver, which goes on or is killed there. Each batch ends exact;
or what was lost is named before the next one is committed, and a person gives it up."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.errors import OutputLost
from tests.spark.plans import Plans
from tests.spark.sinks.conftest import KINDS
from tests.spark.sinks.history import SIZE, History
from tests.spark.sinks.test_drivers import at_look

FIRST = {"delta": ("begun", "about to write", "about to report")}
FIRST["iceberg"] = ("begun", "about to stage", "about to publish", "about to report")
REWRITE = ("begun", "about to write", "about to report")
CASES = [
    *((kind, "goes on", step) for kind in KINDS for step in FIRST[kind]),
    *((kind, "is killed", step) for kind in KINDS for step in FIRST[kind]),
    *((kind, "writes again", step) for kind in KINDS for step in REWRITE),
]
TRIES = 4
_CHECKED = "spark.databricks.delta.retentionDurationCheck.enabled"


class Killed(BaseException):
    """Nothing of the driver runs behind it."""


@dataclass
class Table:
    """
    :ivar number: of the newest batch; :ivar kept: the batches that are committed, and that nobody has given up.
    :ivar before: the version of the table before the newest batch.
    """

    history: History
    number: int = 0
    kept: set[int] = field(default_factory=set)
    before: str = ""

    @property
    def name(self) -> str:
        return self.history.output.sink.name

    @property
    def is_delta(self) -> bool:
        return self.history.kind == "delta"

    @property
    def version(self) -> str:
        if self.history.output.sink.read(self.history.spark) is None:
            return ""
        query = f"DESCRIBE HISTORY {self.name} LIMIT 1"
        if not self.is_delta:
            query = f"SELECT snapshot_id FROM {self.name}.refs WHERE name = 'main'"
        return "".join(str(row[0]) for row in self.history.spark.sql(query).collect())

    def call(self, procedure: str, more: str = "") -> None:
        table = self.name.replace("`", "").removeprefix("lake.")
        self.history.spark.sql(f"CALL lake.system.{procedure}(table => '{table}'{more})").collect()

    def compact(self) -> None:
        if self.is_delta:
            self.history.spark.sql(f"OPTIMIZE {self.name}").collect()
        else:
            self.call("rewrite_data_files", ", options => map('rewrite-all', 'true')")

    def expire(self) -> None:
        """Spare nothing that the table does not need as it is."""
        if self.is_delta:
            self.history.spark.conf.set(_CHECKED, "false")
            self.history.spark.sql(f"VACUUM {self.name} RETAIN 0 HOURS").collect()
            self.history.spark.conf.unset(_CHECKED)
        else:
            self.call("expire_snapshots", ", older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1")

    def roll_back(self) -> None:
        """The newest committed batch is lost."""
        if self.is_delta:
            self.history.spark.sql(f"RESTORE {self.name} TO VERSION AS OF {self.before}").collect()
        else:
            self.call("rollback_to_snapshot", f", snapshot_id => {self.before}")

    def drop(self) -> None:
        if self.is_delta:
            shutil.rmtree(str(self.history.output.sink.path))
        else:
            self.history.spark.sql(f"DROP TABLE {self.name}")

    def replace(self) -> None:
        """Another table of this name, without rows and without a mark. Delta's history goes on."""
        schema = self.history.spark.table(self.name).schema
        columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in schema)
        bounds = "" if self.is_delta else "TBLPROPERTIES ('write.metadata.metrics.column.kafka_batch' = 'full')"
        using = f"USING {self.history.kind} {bounds}"
        self.history.spark.sql(f"REPLACE TABLE {self.name} ({columns}) {using}")

    def run(self) -> None:
        """A run of the next batch, retried as Airflow does; and where rows are lost, of a person who gives them up."""
        self.before = self.version if self.number else ""
        self.number += 1
        self.plan()
        self.end()

    def plan(self, **header: object) -> None:
        self.history.plan(self.number, **header)

    def end(self) -> None:
        """Retry the newest batch until it is committed."""
        batch = self.history.batches[self.number]
        for _ in range(TRIES):
            try:
                self.history.drive(self.number)
            except OutputLost as error:
                self.give_up(error)
                self.plan(expects=None)
            except (Killed, Exception) as error:
                print(f"batch {self.number}: {type(error).__name__}: {str(error)[:300]}")
            else:
                if batch.problems() == []:
                    batch.commit(SIZE, output=batch.read("1.json")["output"])
                    self.kept.add(self.number)
                    return
        raise AssertionError(f"batch {self.number} is not committed after {TRIES} tries")

    def give_up(self, error: OutputLost) -> None:
        """What the refusal names, and nothing else, is lost."""
        named = {int(number) for number in self.kept if self.history.batches[number].key in error.remedy}
        assert named == self.kept - self.seen()
        self.kept -= named

    def seen(self) -> set[int]:
        """The batches that are in the table, each record of theirs once."""
        if self.history.output.sink.read(self.history.spark) is None:
            return set()
        found = self.history.seen
        assert found == self.history.offsets(*found)
        return set(found)


HAPPENS: Mapping[str, Callable[[Table], None]] = {
    "it is compacted": Table.compact,
    "its history expires": Table.expire,
    "it is rolled back": Table.roll_back,
    "it is replaced": Table.replace,
    "it is dropped": Table.drop,
}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "mode", "step"), CASES)
def test_a_batch_ends_exact_or_what_is_lost_is_named(
    spark: SparkSession,
    plans: Plans,
    filled: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    mode: str,
    step: str,
) -> None:
    steps = REWRITE if mode == "writes again" else FIRST[kind]
    table = Table(History(spark, plans, kind, tmp_path, filled(2 * (1 + len(HAPPENS)) * SIZE)))
    table.run()
    table.run()
    for words, happen in HAPPENS.items():
        print(f"──── {words}")
        if mode == "writes again":
            table.kept.discard(table.number)
        else:
            table.number += 1
        table.plan()

        def meanwhile(happen: Callable[[Table], None] = happen) -> None:
            happen(table)
            if mode == "is killed":
                raise Killed

        attempt = 1 + max(table.history.batches[table.number].attempts, default=0)
        with monkeypatch.context() as patch:
            at_look(patch, attempt=attempt, number=1 + steps.index(step), act=meanwhile)
            table.end()
        table.run()
        assert table.seen() == table.kept
