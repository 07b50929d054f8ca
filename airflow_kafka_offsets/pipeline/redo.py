"""A person does a committed batch again: a ``taken`` in its log, as every redo appends, and the arguments for Spark.

Nothing else is needed: the batch keeps its key, its ranges and its place, Spark replaces its rows there, and its
commit stands. From the ``taken`` on, what was written before does not verify the redo any more (docs/log.md, rule 4).
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_offsets.errors import BatchClosed, DataLoss
from airflow_kafka_offsets.offsets.batch.log import Actor, Taken
from airflow_kafka_offsets.offsets.plan.splits import splits_to_start
from airflow_kafka_offsets.offsets.reads.arguments import job_arguments
from airflow_kafka_offsets.pipeline.commit import refuse_another_airflows_batch
from airflow_kafka_offsets.pipeline.group import Cluster
from airflow_kafka_offsets.pipeline.records import Records, look_for_records
from airflow_kafka_offsets.stores.pipeline_log import StoredBatch
from airflow_kafka_offsets.stores.reads import highest_attempts


@dataclass(frozen=True, slots=True)
class Redo:
    """A batch that is to be done again.

    :ivar records: whether its records are still in Kafka.
    :ivar splits: those that a Spark job has to be started for.
    """

    batch: StoredBatch
    records: Records
    splits: tuple[int, ...]

    def refusal(self) -> DataLoss | None:
        """Why it cannot be done: its output stays as it is then."""
        if self.records.there:
            return None
        name = self.batch.log.plan.batch
        return DataLoss(
            self.records.lines, f"{name} is committed, and its output stays as it is. Leave it: there is nothing to do."
        )

    def arguments(self, bootstrap_servers: str | None) -> dict[int, list[str]]:
        """The Spark job's, by split."""
        batch, plan_id, uri = self.batch, self.batch.log.plan.plan_id, self.batch.store.driver_uri
        return {
            split: job_arguments(batch.plan_object, plan_id, split, uri, bootstrap_servers) for split in self.splits
        }


def look_at_redo(batch: StoredBatch, cluster: Cluster, me: Actor) -> Redo:
    """What doing ``batch`` again would take; nothing is written.

    :raises BatchClosed: it is not committed, so that the pipeline's next run does it anyway.
    """
    plan = batch.log.plan
    if not batch.log.committed:
        key = plan.batch.key if plan.batch else "?"
        raise BatchClosed("redo", key, "it is not committed, so its pipeline's next run does it anyway")
    refuse_another_airflows_batch(batch, me)
    return Redo(batch, look_for_records(plan, cluster), tuple(splits_to_start(plan)))


def take_for_redo(found: Redo, cluster: Cluster, me: Actor, *, now_ms: int) -> Redo:
    """Put on record that ``me`` does the batch again.

    :raises DataLoss: its records are gone; nothing was written.
    """
    while True:
        refusal = found.refusal()
        if refusal is not None:
            raise refusal
        taken = found.batch.append(Taken(me, now_ms, highest_attempts(found.batch, found.splits)))
        if taken is not None:
            return Redo(taken, found.records, found.splits)
        found = look_at_redo(found.batch.again(), cluster, me)  # somebody was faster: look again
