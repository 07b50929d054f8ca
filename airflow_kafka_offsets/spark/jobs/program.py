# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""A packaged job as the program that ``spark-submit`` starts."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.errors import NO_RETRY, BatchError

log = logging.getLogger(__name__)


def run(job: Callable[[SparkSession], object]) -> None:
    """Ends with the status ``NO_RETRY`` after an error that no retry can mend, so that the task is not retried."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("airflow_kafka_offsets").setLevel(logging.INFO)
    session = SparkSession.builder.getOrCreate()  # its name is that of the Airflow task
    try:
        job(session)
    except BatchError as error:
        if not error.is_final:
            raise
        log.exception(error)
        sys.exit(NO_RETRY)
    finally:
        session.stop()
