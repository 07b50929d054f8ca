"""A sink before which something happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from airflow_kafka_offsets.spark.sinks.sink_contract import Sink, SinkBatch


class After:
    """Writes as its sink does, after something has happened."""

    def __init__(self, sink: Sink, happens: Callable[[], object]) -> None:
        self.sink, self.happens = sink, happens

    def __call__(self, records: DataFrame, batch: SinkBatch, **more: Any) -> Any:
        self.happens()
        return self.sink(records, batch, **more)

    @property
    def __class__(self) -> type:  # type: ignore[override]  # it passes for its sink, of which the job asks the kind
        return type(self.sink)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sink, name)
