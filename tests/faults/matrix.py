"""All rows, in the order of the document."""

from tests.faults import (
    rows_airflow,
    rows_kafka,
    rows_outputs,
    rows_s3,
    rows_spark,
    rows_starts,
    rows_stores,
    rows_typed,
)
from tests.faults.rows import ROWS, Row

_KINDS = ("Spark", "Airflow", "Kafka", "Stores")
_MODULES = (rows_spark, rows_airflow, rows_kafka, rows_stores, rows_s3, rows_outputs, rows_typed, rows_starts)

MATRIX: list[Row] = sorted(ROWS, key=lambda row: _KINDS.index(row.kind))
