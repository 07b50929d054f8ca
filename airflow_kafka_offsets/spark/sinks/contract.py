"""The contract of a sink. A batch may be written more than once: by a retry, by another run, by a driver that wakes up
late. So after ``write`` the output's rows under the batch's key are exactly the given ones; if it raises, they are all
old or all new; rows of other keys are not touched; and the rows of a key can be read back."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark.batch import Batch, Written

BATCH_COLUMN = "kafka_batch"


@runtime_checkable
class Sink(Protocol):
    """An output that is written batch by batch.

    :ivar output: names the output, the same for each way to write it down, without a password: ``delta:/lake/orders``.
    """

    @property
    def output(self) -> str: ...

    def check(self, spark: SparkSession, pipeline: str) -> None:
        """Refuse an output that this pipeline must not write, before the attempt begins. Write nothing.

        An attempt that has begun names its output, and only a person's ``reset`` makes up for a wrong one.

        :param pipeline: the name that the output has to carry, if it carries one.
        :raises OtherOutput: the output carries another pipeline's name.
        """

    def write(self, batch: Batch, rows: DataFrame) -> None:
        """Replace the rows of ``batch.key`` with ``rows``, and none of other keys. Call ``batch.look()`` right before.

        :param rows: without the column ``kafka_batch``, which the sink adds.
        :raises LateAttempt: a newer attempt has taken this one's place.
        """

    def read_back(self, batch: Batch) -> DataFrame | Written:
        """The rows that the output has under ``batch.key``, with topic, partition and offset of each."""
