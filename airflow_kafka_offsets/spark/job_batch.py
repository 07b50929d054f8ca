"""The batch that a Spark job was started for: what it reads, and under which key it writes.

A batch of the log is an ``int``, its number, so that a ``foreachBatch`` function runs as it is. A window has no number:
to use one as a number raises, because whatever counts by it would take two windows for one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NoReturn

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.errors import InvalidRequest, StoreUnavailable
from airflow_kafka_offsets.kafka_values import topics_made_anew
from airflow_kafka_offsets.log.entries import Planned
from airflow_kafka_offsets.log.pipeline_log import entries_since_clean, read_plan
from airflow_kafka_offsets.log.read_reports import SplitAttempt, set_aside_before
from airflow_kafka_offsets.plan.job_arguments import JobArguments, parse_job_arguments
from airflow_kafka_offsets.plan.plan import Plan, PlannedPartition
from airflow_kafka_offsets.spark.client_properties import keep_secrets_out_of_the_log
from airflow_kafka_offsets.spark.hadoop_store import open_driver_store
from airflow_kafka_offsets.stores.objects import read_object
from airflow_kafka_offsets.stores.store import Store
from airflow_kafka_offsets.values.row_definition import RowDefinition, object_name

_MOST_COLUMNS, _LONGEST_TYPE = 500, 2_000


class Batch:
    """One split of one batch, and how far this job is with it.

    :param arguments: what this job was started with.
    :param store: the work store that they name.
    :ivar plan: the plan that this job was started for.
    :ivar split: which of its splits; splits have the numbers from 0.
    :ivar bootstrap_servers: the cluster that the plan was made on, if the job's arguments name it.
    :ivar output: what the batch writes, as the resolve task has it; ``None`` where it has none.
    :ivar rows: the digest of the row definition; ``None`` where the records stay as they are.
    :ivar set_aside: the words of the sink for bad records; ``None`` where there is none.
    :ivar columns: of each output that a sink has written, its columns and their types.
    """

    _read_topic: Callable[[str], DataFrame]
    _same_topics: Callable[[], bool]
    _is_compacted: Callable[[], bool]

    def __init__(self, arguments: JobArguments, store: Store, plan: Plan) -> None:
        self.plan, self.split, self.store = plan, arguments.split, store
        self.plan_object, self.bootstrap_servers = arguments.plan_object, arguments.bootstrap_servers
        self.output, self.rows = plan.asked.output, arguments.rows
        self.set_aside: Mapping[str, Any] | None = None
        self.columns: dict[str, dict[str, str]] = {}
        self._attempt: SplitAttempt | None = None
        self._frames: list[DataFrame] = []
        self._outputs: set[str | None] = set()

    @property
    def key(self) -> str:
        """What the rows of this batch have in their column ``kafka_batch``; the same whoever does the batch again."""
        return self.plan.batch.key

    @property
    def number(self) -> int:
        """The batch's number in the pipeline's log.

        :raises TypeError: a window has none.
        """
        raise NotImplementedError

    @property
    def window(self) -> tuple[datetime, datetime] | None:
        """``[start, end)`` of a window by time, UTC; else ``None``."""
        if self.plan.asked.window_bounds is None:
            return None
        start_ms, end_ms = self.plan.asked.window_bounds
        return datetime.fromtimestamp(start_ms / 1000, UTC), datetime.fromtimestamp(end_ms / 1000, UTC)

    @property
    def row_filter(self) -> str:
        """This split's rows in the output, in SQL: ``kafka_batch = '…' AND kafka_split = 0``."""
        return f"kafka_batch = '{self.key}' AND kafka_split = {self.split}"

    @cached_property
    def partitions(self) -> Sequence[PlannedPartition]:
        """What this split reads; empty for one without records, which still overwrites its output."""
        return self.plan.splits[self.split]

    @property
    def attempt(self) -> int:
        """The number of this attempt at the split; it rises with each."""
        return self._begun.number

    @property
    def scanned(self) -> DataFrame:
        """The frame of :func:`read_batch` itself, for a report of what Spark scanned."""
        if not self._frames:
            raise InvalidRequest(["batch.scanned comes after read_batch with the same batch."])
        return self._frames[-1]

    @property
    def size(self) -> int:
        """How many records the split has at most."""
        return sum(p.range.size for p in self.partitions)

    @property
    def topics(self) -> set[str]:
        """Those that may have rows of this split: by this plan, or by one of the batch before."""
        parts = [plan.splits[self.split] for plan in self._plans if self.split < plan.split_count]
        return {p.topic_partition.topic for part in parts for p in part}

    @property
    def topics_of_all_splits(self) -> set[str]:
        return {topic for plan in self._plans for topic in plan.topics}

    @property
    def topics_made_anew(self) -> set[str]:
        """Those that the split reads, and of which an earlier plan of the batch has read another log."""
        now = self.plan.found.topic_ids
        of_plans = (topics_made_anew(plan.found.topic_ids, now) for plan in self._plans)
        return {p.topic_partition.topic for p in self.partitions} & set().union(*of_plans)

    @cached_property
    def _plans(self) -> list[Plan]:
        """This one, and those of the batch before."""
        if self.plan_object.endswith("/1.json"):
            return [self.plan]
        entries = entries_since_clean(self.store, self.folder, self.store.list(self.folder))
        return [self.plan, *(entry.plan for _, entry in entries if isinstance(entry, Planned))]

    def records_of(self, topic: str) -> DataFrame:
        """What the split reads of one topic, by itself. It comes after :func:`read_batch`."""
        frame = self._read_topic(topic)
        self._frames.insert(0, frame)
        return frame

    @property
    def row_definition(self) -> RowDefinition:
        """How the run that does this batch makes rows of records.

        :raises InvalidRequest: the resolve task has none of the parameters that say so.
        :raises StoreUnavailable: it is not in the work store.
        """
        if self.rows is None:
            raise InvalidRequest(
                ["The resolve task says nothing of rows: give it value=, or another of the parameters for rows."]
            )
        found = read_object(self.store, object_name(self.rows), RowDefinition.from_dict)
        if found is None:
            raise StoreUnavailable(
                f"Cannot find row definition {self.rows} in the work store {self.store.uri}",
                f"object {object_name(self.rows)} is not there",
                "Clear the run's resolve task, which puts it there.",
            )
        return found

    @property
    def may_have_gaps(self) -> bool:
        """Whether some offsets may have no record: a topic is compacted, or only committed records are read."""
        return self.plan.asked.isolation_level == "read_committed" or self.may_be_compacted

    @cached_property
    def may_be_compacted(self) -> bool:
        """Whether a topic is. Spark's own client is asked once."""
        return self._is_compacted()

    @cached_property
    def earlier_set_aside(self) -> list[Mapping[str, Any]]:
        """The words of each sink for bad records that an earlier attempt at this split may have written to.

        Asked once: who begins with a lower number after this attempt finds this one, and stops before it writes.
        """
        if self.attempt == 1:
            return []
        return set_aside_before(self.store, self.folder, self.split, self.attempt)

    @property
    def folder(self) -> str:
        """Where the work store has all that is known of the batch."""
        return self.plan_object.rpartition("/")[0]

    @property
    def may_have_written(self) -> bool:
        """Whether the job has come to a second output: then it has changed the first."""
        return len(self._outputs) > 1

    def look(self, output: str | None = None) -> None:
        """Go on only while nobody has taken this job's place; a sink calls it right before the output changes.

        :param output: which one changes next. A job that is stopped at its second one has changed the first.
        :raises LateAttempt: another attempt at this split has begun since.
        :raises PlanReplaced: the batch was planned anew since.
        """
        self._outputs.add(output)
        self._begun.look(wrote=self.may_have_written)

    def note_columns(self, output: str, written: DataFrame) -> None:
        """For the report. A wide table's first columns stand for it: it is there to be looked at, and proves nothing.

        :param written: what reads the output back.
        """
        fields = written.schema.fields[:_MOST_COLUMNS]
        self.columns[output] = {field.name: field.dataType.simpleString()[:_LONGEST_TYPE] for field in fields}

    @property
    def _begun(self) -> SplitAttempt:
        if self._attempt is None:
            raise InvalidRequest(["This comes after read_batch with the same batch: it begins the attempt."])
        return self._attempt


class NumberedBatch(Batch, int):
    """A batch of the pipeline's log; as an ``int`` it is its number.

    It is written as its number too: in a path, in SQL, and on the way to Java, to which Py4J sends numbers as text.
    """

    def __new__(cls, arguments: JobArguments, store: Store, plan: Plan) -> NumberedBatch:
        return int.__new__(cls, plan.batch.number or 0)

    @property
    def number(self) -> int:
        return int(self)

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        """A function that Spark sends to its executors takes the number along, and nothing else."""
        return int, (int(self),)


class WindowBatch(Batch):
    """A window, which has no number."""

    def _refuse(self) -> NoReturn:
        raise TypeError(
            f"The window {self.key} has no batch number: two windows would have one. Use batch.key, or batch.window."
        )

    number = property(_refuse)
    __int__ = __index__ = _refuse

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int | float):  # "if batch_id == 0:" would be false for ever
            self._refuse()
        return self is other

    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """A function that Spark sends to its executors takes the key along, as text."""
        return str, (self.key,)

    def __str__(self) -> str:
        return self.key

    def __repr__(self) -> str:
        return f"<window, split {self.split}, key {self.key}>"


def planned_batch(argv: Sequence[str] | None = None, spark: SparkSession | None = None) -> Batch:
    """The batch and split that this job was started for.

    :param argv: the job's arguments, by default ``sys.argv[1:]``; those that are not the batch's are left alone.
    :param spark: reads a work store that is no folder; by default the active session.
    :raises InvalidRequest: arguments are missing or wrong.
    :raises StoreUnavailable: the plan is not in the work store, or not seen from here.
    """
    keep_secrets_out_of_the_log(spark)
    arguments = parse_job_arguments(sys.argv[1:] if argv is None else argv)
    store = open_driver_store(arguments.store_uri, spark)
    plan = _plan(store, arguments)
    if arguments.split >= plan.split_count:
        raise InvalidRequest(
            [f"--split is {arguments.split}, and plan {plan.plan_id} has splits 0 to {plan.split_count - 1}."]
        )
    kind = WindowBatch if plan.batch.number is None else NumberedBatch
    return kind(arguments, store, plan)


def _plan(store: Store, arguments: JobArguments) -> Plan:
    planned = read_plan(store, arguments.plan_object)
    if planned is None or planned.plan.plan_id != arguments.plan_id:
        found = "is not there" if planned is None else f"holds plan {planned.plan.plan_id}"
        raise StoreUnavailable(
            f"Cannot find plan {arguments.plan_id} in the work store {store.uri}",
            f"object {arguments.plan_object} {found}",
            "This driver must see the work store that the resolve task wrote. A local folder works on one machine: "
            "set [kafka_offsets] work_store to a place that all machines reach.",
        )
    return planned.plan
