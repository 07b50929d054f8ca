# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The contract of a sink. A batch may be written more than once: by a retry, by another run, by a driver that wakes up
late. So once a write is published, the output's rows under the batch's key are exactly the given ones; if it raises,
they are all old or all new; rows of other keys are not touched; and the rows of a key can be read back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark.batch import Batch, Written
from airflow_kafka_offsets.spark.plan import Plan

BATCH_COLUMN = "kafka_batch"


class Sink(ABC):
    """An output that is written batch by batch.

    :ivar output: its name, without a password: ``delta:/lake/orders``.
    """

    __slots__ = ()
    output: str

    def check(self, spark: SparkSession, plan: Plan) -> None:  # noqa: B027
        """Refuse an output that this pipeline must not write, before the attempt begins. Write nothing.

        :raises OtherOutput: the output carries the mark of another pipeline, or of another log.
        """

    def look(self, spark: SparkSession, plan: Plan) -> None:  # noqa: B027
        """Return if the output has what the log says. It is called before the attempt begins, and before its report.

        :raises OutputLost: rows of earlier batches are not there. :raises LogBehind: rows of later ones are.
        """

    def present(self, spark: SparkSession, keys: Sequence[str]) -> set[str]:
        """Which of these batches have rows. A sink that cannot tell names them all."""
        return {*keys}

    def is_conflict(self, error: Exception) -> bool:
        """Whether another writer was in the way, so that the same write may succeed now."""
        return False

    @abstractmethod
    def write(self, batch: Batch, rows: DataFrame) -> Written | DataFrame:
        """Replace the rows of ``batch.key`` with ``rows``, and none of other keys. Call ``batch.look()`` right before.

        :param rows: without the column ``kafka_batch``, which the sink adds.
        :returns: what reads the rows back, with topic, partition and offset of each.
        :raises LateAttempt: a newer attempt has taken this one's place.
        """
