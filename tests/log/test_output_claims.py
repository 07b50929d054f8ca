"""Whose an output is: one pipeline's, one kind of its batches, until it is released; and of two at once one gets it."""

from __future__ import annotations

import json

import pytest

from airflow_kafka_offsets.errors import OutputTaken, StoreDamaged
from airflow_kafka_offsets.log.output_claims import Owner, claim_output, owner_of, release_output
from airflow_kafka_offsets.stores.store import Store
from tests.model.store import MemoryStore
from tests.stores.watched import Process, interleavings

OUT = "s3://lake/orders"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def test_an_output_is_its_first_claimers_and_stays_so(store: MemoryStore) -> None:
    assert owner_of(store, OUT) is None
    for _run in range(3):
        claim_output(store, OUT, "billing", "log")
    assert owner_of(store, OUT) == Owner("billing", "log")
    assert list(store.objects) == ["outputs/s3%3A%2F%2Flake%2Forders/1.json"], "written once"


def test_a_claim_says_which_output_it_is_of(store: MemoryStore) -> None:
    claim_output(store, OUT, "billing", "windows")
    [data] = store.objects.values()
    found = json.loads(data)
    del found["sha256"]
    assert found == {"version": 1, "output": OUT, "owner": {"pipeline": "billing", "kind": "windows"}}


@pytest.mark.parametrize(
    ("pipeline", "kind", "asker"),
    [
        pytest.param("replays", "log", "pipeline 'replays'", id="another pipeline"),
        pytest.param("replays", "windows", "the windows of pipeline 'replays'", id="another pipeline's windows"),
        pytest.param("billing", "windows", "the windows of pipeline 'billing'", id="windows of the same pipeline"),
    ],
)
def test_nobody_else_writes_there_and_both_are_named(store: MemoryStore, pipeline: str, kind: str, asker: str) -> None:
    """Its readers would find every record under two keys."""
    claim_output(store, OUT, "billing", "log")
    with pytest.raises(OutputTaken) as refused:
        claim_output(store, OUT, pipeline, kind)  # type: ignore[arg-type]
    assert (refused.value.output, refused.value.owner, refused.value.asker) == (OUT, "pipeline 'billing'", asker)
    assert owner_of(store, OUT) == Owner("billing", "log")


def test_the_log_does_not_write_where_windows_are(store: MemoryStore) -> None:
    claim_output(store, OUT, "billing", "windows")
    with pytest.raises(OutputTaken, match="belongs to the windows of pipeline 'billing', and pipeline 'billing'"):
        claim_output(store, OUT, "billing", "log")


def test_outputs_with_other_names_are_other_outputs(store: MemoryStore) -> None:
    for number, output in enumerate((OUT, f"{OUT}-eu", "s3://lake", "table", "db.table", "x" * 300, "x" * 301)):
        claim_output(store, output, f"pipeline-{number}", "log")
        assert owner_of(store, output) == Owner(f"pipeline-{number}", "log")


def test_a_released_output_is_free_for_anybody_and_its_history_stays(store: MemoryStore) -> None:
    claim_output(store, OUT, "billing", "log")
    release_output(store, OUT)
    assert owner_of(store, OUT) is None
    claim_output(store, OUT, "replays", "windows")
    assert owner_of(store, OUT) == Owner("replays", "windows")
    with pytest.raises(OutputTaken):
        claim_output(store, OUT, "billing", "log")
    assert [name.rpartition("/")[2] for name in sorted(store.objects)] == ["1.json", "2.json", "3.json"]


def test_to_release_what_is_nobodys_writes_nothing(store: MemoryStore) -> None:
    release_output(store, OUT)
    claim_output(store, OUT, "billing", "log")
    for _twice in range(2):
        release_output(store, OUT)
    assert len(store.objects) == 2


def test_the_newest_entry_counts_by_its_number_and_not_by_its_name(store: MemoryStore) -> None:
    for _ in range(6):
        claim_output(store, OUT, "billing", "log")
        release_output(store, OUT)
    claim_output(store, OUT, "last", "log")
    assert sorted(store.objects)[-1].endswith("9.json"), "the thirteenth is not the last by name"
    assert owner_of(store, OUT) == Owner("last", "log")


def test_a_damaged_claim_is_named_and_nobody_takes_the_output_over_it(store: MemoryStore) -> None:
    claim_output(store, OUT, "billing", "log")
    store.replace({name: data[:-1] for name, data in store.objects.items()})
    for use in (owner_of, release_output, lambda *which: claim_output(*which, "replays", "log")):
        with pytest.raises(StoreDamaged, match=r"outputs/s3%3A%2F%2Flake%2Forders/1\.json"):
            use(store, OUT)


# ── several at once ───────────────────────────────────────────────────────────────────────────────────────────────────


def claims(*pipelines: str):
    def start() -> list[Process]:
        store = MemoryStore()

        def work(pipeline: str):
            def claim(mine: Store) -> str | None:
                claim_output(mine, OUT, pipeline, "log")
                owner = owner_of(store, OUT)
                return owner.pipeline if owner else None

            return claim

        return [Process(store, work(pipeline)) for pipeline in pipelines]

    return interleavings(start)


def test_of_two_pipelines_that_claim_at_once_in_any_order_exactly_one_gets_it() -> None:
    played = list(claims("a", "b"))
    assert len(played) > 5
    for processes in played:
        got = [p.outcome for p in processes if not isinstance(p.outcome, OutputTaken)]
        assert got in (["a"], ["b"]), [process.outcome for process in processes]


def test_two_runs_of_one_pipeline_that_claim_at_once_both_have_it() -> None:
    """The one that was slower looks again, and finds its own claim."""
    for processes in claims("a", "a"):
        assert [process.outcome for process in processes] == ["a", "a"]


def test_a_release_gives_up_what_it_has_seen_and_never_the_claim_of_who_came_after() -> None:
    outcomes = set()
    for releasing, claiming in interleavings(released_and_claimed):
        store, claimed = releasing.outcome, not isinstance(claiming.outcome, OutputTaken)
        assert owner_of(store, OUT) == (Owner("new", "log") if claimed else None)
        outcomes.add(claimed)
    assert outcomes == {True, False}


def released_and_claimed() -> list[Process]:
    store = MemoryStore()
    claim_output(store, OUT, "old", "log")

    def release(mine: Store) -> MemoryStore:
        release_output(mine, OUT)
        return store

    return [Process(store, release), Process(store, lambda mine: claim_output(mine, OUT, "new", "log"))]
