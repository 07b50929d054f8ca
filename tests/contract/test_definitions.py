"""With which row definitions rows were written: what the log knows of it when the next batch is planned."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

from airflow_kafka_offsets.log.read_reports import definitions_written
from airflow_kafka_offsets.operators.row_parameters import row_changes
from airflow_kafka_offsets.request.policies import Skip
from airflow_kafka_offsets.stores.objects import create_object
from airflow_kafka_offsets.stores.store import Store
from airflow_kafka_offsets.values.row_definition import FieldFormat, RowDefinition, object_name
from tests.contract.conftest import NOW_MS, AnyCluster
from tests.contract.pipeline import Pipeline, Run
from tests.contract.troubles import produce
from tests.stores.builders import as_it_is_now

ONE, TWO = "1" * 32, "2" * 32


def written_with(pipeline: Pipeline, rows: str | None) -> Pipeline:
    return replace(pipeline, rows=rows)


def known(run: Run) -> tuple[str, ...]:
    """What the batch's plan knows of the rows before it."""
    return as_it_is_now(run.batch).log.planned.history.definitions


def test_a_plan_knows_with_which_definitions_the_batch_before_was_written(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    first = written_with(in_memory, ONE).run("one")
    produce(memory, in_memory)
    second = written_with(in_memory, TWO).resolve("two", splits=2)
    assert (known(first), known(second), second.assignment.is_new) == ((), (ONE,), True)
    second.job(0).begin().write().report()
    written_with(in_memory, ONE).resolve("two", splits=2).job(1).begin().write().report()
    second.commit()
    produce(memory, in_memory)
    assert known(in_memory.resolve("three")) == (ONE, TWO), "its splits were written with different ones"


def test_what_writes_no_typed_rows_passes_on_what_was_known_before_it(in_memory: Pipeline, memory: AnyCluster) -> None:
    written_with(in_memory, ONE).run("one")
    produce(memory, in_memory)
    assert known(in_memory.run("written as they are")) == (ONE,)
    produce(memory, in_memory)
    given_up = in_memory.resolve("given up")
    in_memory.skip(Skip(given_up.batch_key))
    assert known(in_memory.run("given up")) == (ONE,)
    in_memory.reset_to_earliest()
    assert known(in_memory.resolve("after a reset")) == (ONE,)
    assert known(in_memory.resolve("after a reset", re_plan=True)) == (ONE,)


def test_a_pipeline_without_typed_rows_names_no_definition_in_its_log(in_memory: Pipeline, memory: AnyCluster) -> None:
    in_memory.run("one")
    produce(memory, in_memory)
    batch = in_memory.run("two").batch
    for name in batch.store.list(batch.folder):
        found = json.loads(batch.store.get(f"{batch.folder}/{name}") or b"")
        assert found.get("definitions", []) == [], name


def test_a_window_knows_what_the_one_before_it_was_written_with(in_memory: Pipeline, memory: AnyCluster) -> None:
    hour = 3_600_000
    bounds = [
        {
            "startup_mode": "timestamp",
            "startup_timestamp": NOW_MS + n * hour,
            "bounded_mode": "timestamp",
            "bounded_timestamp": NOW_MS + (n + 1) * hour,
        }
        for n in range(2)
    ]
    memory.produce(in_memory.topic, timestamps_ms=[NOW_MS + hour])
    written_with(in_memory, ONE).run("one", **bounds[0])
    second = in_memory.resolve("two", **bounds[1])
    assert (known(second), second.assignment.is_new) == ((ONE,), True)
    assert not in_memory.resolve("two", **bounds[1]).assignment.is_new


def test_the_newest_report_of_each_split_says_what_the_rows_are_of(in_memory: Pipeline) -> None:
    run = written_with(in_memory, ONE).resolve("one", splits=2)
    assert definitions_written(run.batch) == []
    run.spark()
    written_with(in_memory, TWO).resolve("one").job(0).begin().write().report()
    assert definitions_written(run.batch) == [ONE, TWO], "split 1 has its rows of the first"
    written_with(in_memory, TWO).resolve("one").job(1).begin().write().report()
    run.job(0).begin()
    assert definitions_written(run.batch) == [TWO], "an attempt that has begun has not reported"
    nothing = run.job(1).begin().attempt
    assert nothing is not None
    nothing.report_nothing_written()
    assert definitions_written(run.batch) == [TWO]


# ── what it costs to say what has changed ─────────────────────────────────────────────────────────────────────────────


class Counted:
    """A store that notes which of its verbs are called."""

    def __init__(self, real: Store) -> None:
        self._real, self.calls = real, list[str]()

    def __getattr__(self, verb: str) -> Any:
        self.calls.append(verb)
        return getattr(self._real, verb)

    uri, is_remote = "counted", False


def ddl(schema: str) -> RowDefinition:
    return RowDefinition(value=FieldFormat("json", schema))


def told(run: Run, now: RowDefinition, is_new: bool | None = None) -> tuple[list[str], list[str]]:
    """What has changed, and which of the store's verbs that took."""
    store = Counted(run.batch.store)
    batch = replace(as_it_is_now(run.batch), store=cast(Store, store))
    changes, warnings = row_changes(now, batch, run.assignment.is_new if is_new is None else is_new)
    assert not warnings
    return changes, store.calls


def test_a_new_batch_asks_for_nothing_and_for_one_object_where_its_schema_is_another(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    old, new = ddl("id INT"), ddl("id INT, note STRING")
    create_object(in_memory.store, old.object_name, old.to_dict())
    assert told(written_with(in_memory, old.digest).run("one"), old) == ([], [])
    produce(memory, in_memory)
    second = in_memory.resolve("two", splits=2)
    assert told(second, old) == ([], [])
    line = "The schema of value has changed: new column note STRING."
    assert told(second, new) == ([line], ["get"])
    assert told(in_memory.resolve("two"), new) == ([line], ["list", "get"]), "a retry looks for reports of its own"


def test_a_batch_that_is_done_again_reads_one_report_a_split(in_memory: Pipeline) -> None:
    old, new = ddl("id INT"), ddl("id INT, note STRING")
    create_object(in_memory.store, old.object_name, old.to_dict())
    written_with(in_memory, old.digest).resolve("one", splits=2).spark()
    again = in_memory.resolve("one")
    assert told(again, old) == ([], ["list", "get", "get"])
    assert told(again, new)[1] == ["list", "get", "get", "get"]


def test_a_definition_that_is_gone_or_torn_is_not_spoken_of(in_memory: Pipeline, memory: AnyCluster) -> None:
    written_with(in_memory, ONE).run("one")
    produce(memory, in_memory)
    second = in_memory.resolve("two")
    assert told(second, ddl("id INT")) == ([], ["get"]), "the object is not there"
    in_memory.store.create(object_name(ONE), b"{")
    assert told(second, ddl("id INT")) == ([], ["get"]), "it is torn"
