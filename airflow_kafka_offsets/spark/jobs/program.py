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
