"""A task's lineage as Airflow's OpenLineage provider takes it. Nobody imports this file unless that provider asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    InputDatasetFacet,
    RunFacet,
    input_statistics_input_dataset,
    output_statistics_output_dataset,
    schema_dataset,
)

from airflow_kafka_offsets.log.task_lineage import TaskLineage

OWN_FACETS: Mapping[str, tuple[str, type]] = {
    "kafkaOffsets_batch": ("KafkaOffsetsBatchRunFacet", RunFacet),
    "kafkaOffsets_ranges": ("KafkaOffsetsRangesInputDatasetFacet", InputDatasetFacet),
}
"""The class of each facet that is this package's own. Its JSON Schema is in ``facets/``, under the class's name."""


def schema_url(name: str) -> str:
    """What identifies a facet's schema: its ``$id``, and where the facet is in it."""
    return f"urn:airflow-kafka-offsets:facets:1-0-0:{name}.json#/$defs/{name}"


def operator_lineage(lineage: TaskLineage) -> OperatorLineage[Any, Any]:
    return OperatorLineage(
        inputs=[
            InputDataset(namespace, name, inputFacets={key: _facet(key, facets[key]) for key in facets})
            for (namespace, name), facets in lineage.inputs.items()
        ],
        outputs=[_output(namespace, name, facets) for (namespace, name), facets in lineage.outputs.items()],
        run_facets={"kafkaOffsets_batch": _facet("kafkaOffsets_batch", lineage.batch)} if lineage.batch else {},
    )


def _output(namespace: str, name: str, facets: Mapping[str, Any]) -> OutputDataset:
    made = {key: _facet(key, facets[key]) for key in facets}
    of_run = {key: made.pop(key) for key in ("outputStatistics",) if key in made}
    return OutputDataset(namespace, name, facets=made, outputFacets=of_run)


def _facet(key: str, values: Mapping[str, Any]) -> Any:
    match key:
        case "inputStatistics":
            return input_statistics_input_dataset.InputStatisticsInputDatasetFacet(**values)
        case "outputStatistics":
            return output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(**values)
        case "schema":
            fields = [schema_dataset.SchemaDatasetFacetFields(**field) for field in values["fields"]]
            return schema_dataset.SchemaDatasetFacet(fields=fields)
    name, base = OWN_FACETS[key]
    own_schema = {"_get_schema": staticmethod(lambda: schema_url(name))}
    return attr.make_class(name, list(values), bases=(base,), class_body=own_schema)(**values)
