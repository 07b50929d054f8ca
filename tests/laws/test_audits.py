"""The audit of a chain that runs have made says what was made; and one that somebody has changed since is found.

Whoever changes it knows the format: each object has a true digest. What an audit cannot find is a log that was changed
in all places at once, which is another log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.log.audit import AuditedBatch, Finding, FindingKind, audit_batches
from airflow_kafka_offsets.log.entries import Entry, Planned, entry_to_dict
from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.log.whole_log import audit_log, whole_records
from airflow_kafka_offsets.plan.plan import PlannedPartition
from airflow_kafka_offsets.plan.position import SavedOffset
from airflow_kafka_offsets.stores.objects import encode
from tests.builders import altered
from tests.laws.examples import of_examples
from tests.laws.test_chains import EVENTS, ISOLATION, LOSS, LOST_AND_SKIPPED, START, World, world_of
from tests.reads import is_read

law = of_examples(120)


def audited_in(world: World) -> list[AuditedBatch]:
    """An ordinary batch is told by its columns; the whole reading says the same of it."""
    audited, damaged = audit_log(world.pipeline.log)
    assert damaged == []
    assert audited == list(audit_batches(whole_records(world.pipeline.log, None, None)))
    return audited


def found_in(world: World) -> dict[str, list[Finding]]:
    return {one.key: list(one.findings) for one in audited_in(world)}


def total(findings: list[Finding], kind: FindingKind) -> int:
    return sum(found.count or 0 for found in findings if found.kind == kind)


@law
@given(START, LOSS, ISOLATION, st.booleans(), EVENTS)
@LOST_AND_SKIPPED
def test_every_chain_audits_as_it_was_made(mode, loss, isolation, fails_first, events):
    world = world_of(mode, isolation, loss)
    batches = world.play(fails_first, events)
    audited = audited_in(world)
    assert [one.key for one in audited] == [batch.log.plan.batch.key for batch in batches]
    for one, batch in zip(audited, batches, strict=True):
        plan, findings = batch.log.plan, list(one.findings)
        assert (one.state, one.read) == ("committed", plan.record_count_upper_bound)
        assert (total(findings, "lost"), total(findings, "skipped")) == (plan.lost, plan.skipped)
        assert one.is_contiguous == (plan.lost == plan.skipped == 0)
        kinds = {found.kind for found in findings}
        assert kinds <= {"lost", "skipped", "planned anew", "done twice", "short"}
        assert ("short" in kinds) == (not is_read(batch)), "a cleared run may have died while it did its batch again"
        unasked = [found for found in findings if found.undecided and found.kind != "short"]
        assert {found.kind for found in unasked} <= {"lost"}
        new = sum(p.lost for p in plan.partitions if p.continuity == "new")
        assert total(unasked, "lost") <= new, "only of a partition that no run had seen is nobody asked"


# ── somebody changes it ───────────────────────────────────────────────────────────────────────────────────────────────


def put(world: World, batch: StoredBatch, number: int, entry: Entry) -> None:
    objects: dict[str, bytes] = world.pipeline.store.objects  # type: ignore[attr-defined]
    objects[f"{batch.folder}/{number}.json"] = encode(entry_to_dict(entry))


def read_on(batch: StoredBatch) -> list[PlannedPartition]:
    """What it reads of partitions that the batch before has read: of a new one, the log alone knows where it begins."""
    position = batch.log.planned.position
    return [p for p in batch.log.plan.to_read() if position is not None and p.topic_partition in position.offsets]


def remove_it(world: World, batch: StoredBatch) -> set[FindingKind]:
    store: Any = world.pipeline.store
    store.replace({name: data for name, data in store.objects.items() if not name.startswith(f"{batch.folder}/")})
    return {"not in the log"}


def begin_later(world: World, batch: StoredBatch) -> set[FindingKind]:
    """The plan reads one offset less, and says nothing of it; the commit is that plan's."""
    planned = batch.log.planned
    [first, *_] = read_on(batch)
    shorter = replace(first.within(first.start_offset + 1, first.end_offset), gap=0)
    rows = tuple(shorter if p is first else p for p in planned.plan.partitions)
    plan = altered(planned.plan, partitions=rows)
    put(world, batch, batch.log.plan_number, Planned(plan, planned.position))
    for number, entry in enumerate(batch.log.later, batch.log.plan_number + 1):
        put(world, batch, number, replace(entry, plan_id=plan.plan_id) if entry is batch.log.committed else entry)
    return {"gap"}


def move_the_commit(world: World, batch: StoredBatch) -> set[FindingKind]:
    """The commit says one offset more than the plan reads."""
    committed = batch.log.committed
    assert committed is not None
    assert committed.position is not None
    tp = batch.log.plan.to_read()[0].topic_partition
    offsets = {**committed.position.offsets, tp: SavedOffset(committed.position.offsets[tp].offset + 1)}
    number = batch.log.plan_number + 1 + batch.log.later.index(committed)
    put(world, batch, number, replace(committed, position=replace(committed.position, offsets=offsets)))
    return {"gap"}


def remove_its_reports(world: World, batch: StoredBatch) -> set[FindingKind]:
    store: Any = world.pipeline.store
    reports = {name for name in store.objects if name.startswith(f"{batch.folder}/") and ".report." in name}
    store.replace({name: data for name, data in store.objects.items() if name not in reports})
    return {"short"}


CHANGES = st.sampled_from([remove_it, begin_later, move_the_commit, remove_its_reports])


@law
@given(START, LOSS, ISOLATION, EVENTS, CHANGES, st.integers(0, 9))
def test_a_chain_that_somebody_has_changed_since_is_found(mode, loss, isolation, events, change, which):
    world = world_of(mode, isolation, loss)
    world.play(False, events)
    for count in (2, 3, 4):  # so that there is something between the first and the last
        world.produce(0, [1] * count)
        world.run("ok")
    before = found_in(world)
    batches = world.pipeline.batches()
    middle = [one for one in batches[1:-1] if read_on(one) and not one.log.plan.verified and is_read(one)]
    kinds = change(world, middle[which % len(middle)])
    after = found_in(world)
    new = [found for key, findings in after.items() for found in findings if found not in before[key]]
    assert kinds <= {found.kind for found in new}
