"""Names are created once, bodies belong to their headers, and what is torn is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_offsets.errors import StoreDamaged, StoreUnavailable
from airflow_kafka_offsets.kafka_values import RunKey, TopicPartition
from airflow_kafka_offsets.log.identity import Identity, IdentityBody
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, put_job
from airflow_kafka_offsets.plan.body import Offset, PlanBody, PlannedRange
from airflow_kafka_offsets.store.memory import MemoryStore
from airflow_kafka_offsets.store.objects import decode, encode
from tests.log.test_entries import A, B, commit, plan

TP = TopicPartition("orders", 0)
RUN = RunKey("dag", "scheduled__2026-11-26T00:00:00+00:00", "orders")


@pytest.fixture
def log() -> PipelineLog:
    return PipelineLog(MemoryStore(), "orders")


def test_of_two_writers_of_an_entry_one_wins(log: PipelineLog) -> None:
    assert log.append(1, 1, plan(A))
    assert not PipelineLog(log.store, "orders").append(1, 1, plan(B))
    assert log.existing(1).plan.by == A


def test_the_newest_batch_is_the_one_with_the_highest_number(log: PipelineLog) -> None:
    assert log.newest() is None
    for number in (1, 2, 99, 100, 101):
        log.append(number, 1, plan(number=number))
    assert log.newest().number == 101


def test_a_batch_of_which_only_a_body_was_written_is_none(log: PipelineLog) -> None:
    log.append(1, 1, plan())
    log.write_body(2, 1, PlanBody())
    assert log.newest().number == 1


def test_a_body_is_read_by_the_header_that_names_it(log: PipelineLog) -> None:
    body = PlanBody({TP: PlannedRange(0, 5, 1)})
    log.append(7, 1, plan(ranges=log.write_body(7, 1, body)))
    log.append(7, 2, replace(commit(A), ranges=log.write_body(7, 2, {TP: Offset(5)})))
    again = PipelineLog(log.store, "orders")
    batch = again.existing(7)
    assert (again.body(batch), again.position_after(batch)) == (body, {TP: Offset(5)})


def test_a_body_that_another_one_took_the_place_of_is_named(log: PipelineLog) -> None:
    name = log.write_body(7, 1, PlanBody({TP: PlannedRange(0, 5)}))
    other = log.write_body(7, 1, PlanBody({TP: PlannedRange(0, 9)}))
    log.append(7, 1, plan(ranges=name))
    objects = log.store.objects
    folder = log.folder(7)
    objects[f"{folder}/{name.name}"] = objects[f"{folder}/{other.name}"]
    again = PipelineLog(log.store, "orders")
    with pytest.raises(StoreDamaged, match=name.name):
        again.body(again.existing(7))


def test_a_torn_header_is_named(log: PipelineLog) -> None:
    log.append(1, 1, plan())
    name = f"{log.folder(1)}/1.json"
    log.store.objects[name] = log.store.objects[name][:-9]
    with pytest.raises(StoreDamaged, match=r"0000000001/1\.json"):
        PipelineLog(log.store, "orders").newest()


@pytest.mark.parametrize("kind", ["header", "body"])
def test_an_object_of_another_version_is_named(log: PipelineLog, kind: str) -> None:
    body = log.write_body(7, 1, PlanBody())
    log.append(7, 1, plan(ranges=body))
    name = f"{log.folder(7)}/{'1.json' if kind == 'header' else body.name}"
    log.store.objects[name] = encode({**decode(log.store.objects[name]), "version": 2})
    again = PipelineLog(log.store, "orders")
    with pytest.raises(StoreDamaged, match="version 2 is not known") as refused:
        again.body(again.existing(7))
    assert name in str(refused.value)


def test_a_missing_entry_is_named(log: PipelineLog) -> None:
    log.append(1, 1, plan())
    log.append(1, 3, plan(B))
    with pytest.raises(StoreDamaged, match="without gaps"):
        log.existing(1)


def test_of_many_batches_nothing_stays_in_memory(log: PipelineLog) -> None:
    for number in (1, 2):
        log.append(number, 1, plan(number=number, ranges=log.write_body(number, 1, PlanBody({TP: PlannedRange(0, 5)}))))
    log = PipelineLog(log.store, "orders")
    assert [body.offsets for body in log.read_each((1, 2), log.body)] == [5, 5]
    batch = log.existing(1)
    log.store.objects.clear()
    with pytest.raises(StoreDamaged, match="it is not there"):
        log.body(batch)


def test_a_run_and_a_window_are_bound_once(log: PipelineLog) -> None:
    assert log.batch_of(RUN) is None
    assert [log.bind(RUN, 3), log.bind(RUN, 4), log.batch_of(RUN)] == [3, 3, 3]
    assert [log.name_window((0, 9), 3), log.name_window((0, 9), 4), log.batch_of_window((0, 9))] == [3, 3, 3]


def test_names_of_runs_do_not_collide(log: PipelineLog) -> None:
    runs = [RunKey("dag", "r/1", "t"), RunKey("dag", "r", "1/t"), RunKey("dag", "r", "t", 1), RunKey("dag", "r", "t-1")]
    assert [log.bind(run, number) for number, run in enumerate(runs, 1)] == [1, 2, 3, 4]


def test_a_store_that_accepts_a_name_twice_is_refused(log: PipelineLog) -> None:
    class Careless(MemoryStore):
        def create(self, name: str, data: bytes) -> bool:
            self.objects[name] = data
            return True

    careless = PipelineLog(Careless(), "orders")
    identity = Identity(number=1, pipeline="orders", log="2e", by=A, at_ms=1, kind="sequence", cluster_id="c",
                        ranges=careless.write_identity_body(1, IdentityBody()))  # fmt: skip
    careless.create_identity(identity)
    with pytest.raises(StoreUnavailable, match="a second create of one name succeeded"):
        careless.probe(identity)
    assert log.create_identity(replace(identity, ranges=log.write_identity_body(1, IdentityBody())))
    log.probe(identity)


def test_a_store_that_does_not_list_what_was_created_is_refused() -> None:
    class Lagging(MemoryStore):
        def list(self, folder: str) -> list[str]:
            return []

    lagging = PipelineLog(Lagging(), "orders")
    identity = Identity(number=1, pipeline="orders", log="2e", by=A, at_ms=1, kind="sequence", cluster_id="c",
                        ranges=lagging.write_identity_body(1, IdentityBody()))  # fmt: skip
    lagging.create_identity(identity)
    with pytest.raises(StoreUnavailable, match="it was just created, and is not listed"):
        lagging.probe(identity)


def test_pipelines_and_shards_have_folders_of_their_own() -> None:
    store, names = MemoryStore(), ("orders", "orders/0-of-2", "x y")
    for name in names:
        PipelineLog(store, name).append(1, 1, plan())
    assert store.list("") == ["orders/", "x%20y/"]
    assert store.list("orders") == ["0-of-2/", "batches/"]
    assert [PipelineLog(store, "orders/1-of-2").newest(), PipelineLog(store, "x y").newest().number] == [None, 1]


def test_a_job_object_is_named_by_its_digest() -> None:
    store = MemoryStore()
    log = PipelineLog(store, "orders/0-of-2")
    assert put_job(log, {"version": 1}) == put_job(log, {"version": 1})
    assert put_job(log, {"version": 1, "rows": None}) != put_job(log, {"version": 1})
    assert len(store.list("orders/jobs")) == 2
