"""Whether an event is one by OpenLineage's published schemas, and each of its facets by its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

import airflow_kafka_offsets

PUBLISHED = Path(__file__).parent / "published"
OWN = Path(airflow_kafka_offsets.__file__).parent / "facets"
CORE = "https://openlineage.io/spec/2-0-2/OpenLineage.json"


@cache
def schemas() -> Mapping[str, Any]:
    """Every schema that is here, by its ``$id``."""
    files = [*PUBLISHED.rglob("*.json"), *OWN.glob("*.json")]
    return {schema["$id"]: schema for schema in (json.loads(file.read_text()) for file in files)}


def problems(event: Any, kind: str = f"{CORE}#/$defs/RunEvent") -> list[str]:
    """What is wrong with an event, or with what ``kind`` names; each a line."""
    registry: Registry[Any] = Registry().with_resources(
        (name, Resource.from_contents(schema)) for name, schema in schemas().items()
    )
    validator = Draft202012Validator({"$ref": kind}, registry=registry, format_checker=FormatChecker())
    found = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(event)]
    if not found and kind.endswith("RunEvent"):
        for where, facet in facets_of(event):
            if facet["_schemaURL"].partition("#")[0] in schemas():
                found += [f"{where} {problem}" for problem in problems(facet, facet["_schemaURL"])]
    own = schemas().get(kind.partition("#")[0], {}) if kind.startswith("urn:") else {}
    for definition in own.get("$defs", {}).values():
        known = {"_producer", "_schemaURL", *definition["allOf"][1]["properties"]}
        found += [f"{name} is no word of {kind}" for name in event.keys() - known]
    return found


def facets_of(event: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each facet of an event, with its name."""
    datasets = [*event.get("inputs", []), *event.get("outputs", [])]
    for holder in (event["run"], event["job"], *datasets):
        for kind in ("facets", "inputFacets", "outputFacets"):
            yield from holder.get(kind, {}).items()
