"""Typed rows in a job of one's own: the same definition, the same proof, and sinks of one's own.

::

    def write(records, batch):
        rows = decode(records, batch)
        return rows.divided(good(rows.rows, batch), bad(rows.bad, batch))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_kafka_offsets.spark.job_batch import Batch
from airflow_kafka_offsets.spark.report import LEFT_OUT, ROW, SET_ASIDE, Divided, union_of, with_fate
from airflow_kafka_offsets.spark.row_frames import bad_of, left_out_of, row_frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class DecodedRecords:
    """What becomes of a batch's records. No record is in two of the three frames.

    :ivar rows: the columns of ``select``, with topic, partition and offset.
    :ivar bad: ``topic``, ``partition``, ``offset``, ``timestamp``, ``key``, ``value``, ``reason``, and ``headers`` if
        they were read (``for_each_batch(…, includeHeaders=True)``).
    :ivar left_out: topic, partition and offset of what ``where`` or ``tombstones`` leaves out.
    :ivar source_names: of topic, partition and offset, what they are called in the rows.
    """

    rows: DataFrame
    bad: DataFrame
    left_out: DataFrame
    source_names: dict[str, str]

    def divided(self, rows: DataFrame, bad: DataFrame | None = None) -> Divided:
        """What ``write`` returns, so that the report counts all records.

        :param rows: what reads back the output of the rows; :param bad: that of the bad records. Without it they count
            as missing, and the commit refuses the split if there are any.
        """
        parts = [
            with_fate(rows, ROW, self.source_names),
            with_fate(bad, SET_ASIDE),
            with_fate(self.left_out, LEFT_OUT),
        ]
        return Divided(union_of([part for part in parts if part is not None]))


def decode(records: DataFrame, batch: Batch) -> DecodedRecords:
    """The records as the resolve task's ``value``, ``key``, ``select``, ``where`` and ``expect`` say.

    Spark reads Kafka once for each of the frames that is used, unless the records are persisted before. The session's
    ``spark.sql.subexpressionElimination.enabled`` is set to false (``spark/row_frames.py`` says why). The limit of bad
    records is checked by the commit.

    :param records: what ``write`` is handed.
    :param batch: that ``write`` is handed with them.
    :raises InvalidRequest: the resolve task says nothing of rows, or Spark does not take what it says.
    :raises StoreUnavailable: the row definition is not in the work store.
    """
    frames = row_frames(records, batch.row_definition)
    return DecodedRecords(frames.rows, bad_of(frames.rest), left_out_of(frames.rest), frames.source_names)
