"""docs/schemas describes what is saved: every object of each golden store, and commit metadata, fits its schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.verify_reads import PartitionRead, ReadReport
from airflow_kafka_offsets.plan.plan_json import plan_to_dict
from airflow_kafka_offsets.stores.objects import encode
from airflow_kafka_offsets.values.row_definition import FieldFormat, Origin, RowDefinition
from tests.builders import draft, planned
from tests.docs.pages import DOCS, blocks_of
from tests.golden.worked import HERE, work

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/work-store.schema.json").read_text())
VERSIONS = sorted(folder.name for folder in HERE.iterdir() if (folder / "store").is_dir())


def kept(folder: Path) -> Iterator[tuple[str, str, Any]]:
    """Each object: its definition, its name, and what it holds."""
    store = folder / "store"
    for path in sorted(store.rglob("*")):
        if path.is_file():
            name = str(path.relative_to(store))
            yield kind_of(name), name, json.loads(path.read_text())
    for group, commits in json.loads((folder / "cluster.json").read_text())["groups"].items():
        for *_, metadata in commits:
            yield "metadata", f"group {group}", json.loads(metadata)


def kind_of(name: str) -> str:
    if name.startswith("outputs/"):
        return "output"
    if "/window-claims/" in name:
        return "claim"
    if "/runs/" in name:
        return "run"
    return next((kind for kind in ("begun", "report") if name.endswith(f".{kind}.json")), "entry")


def validator(kind: str, schema: Any) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": schema["$defs"]})


def closed(schema: Any) -> Any:
    """The schema without room for a field that it does not describe."""
    schema = deepcopy(schema)
    for definition in _objects(schema["$defs"]):
        definition.setdefault("additionalProperties", False)
    return schema


def _objects(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        if "properties" in part and part.get("type") == "object":
            yield part
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from _objects(inner)


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def check(folder: Path) -> None:
    """Every object fits, and has no field that is not described."""
    strict = closed(SCHEMA)
    checks = {kind: validator(kind, strict) for kind in SCHEMA["$defs"]}
    found = set()
    for kind, name, value in kept(folder):
        found.add(kind)
        problem = best_match(checks[kind].iter_errors(value))
        assert problem is None, f"{name}: {problem.json_path}: {problem.message} (docs/schemas and the codec differ)"
    assert found == {"entry", "report", "begun", "run", "output", "claim", "metadata"}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_version_has_kept_fits_the_schema(version: str) -> None:
    check(HERE / version)


def test_what_is_written_now_fits_the_schema(tmp_path: Path) -> None:
    work(tmp_path)
    check(tmp_path)


def test_the_report_that_a_page_shows_fits_the_schema_and_verifies_what_the_page_says() -> None:
    (block,) = [block for block in blocks_of(DOCS / "other-languages.md") if block.language == "json"]
    shown = json.loads(block.code)
    validator("report", closed(SCHEMA)).validate({**shown, "sha256": "0" * 64})
    read = ReadReport.from_dict(shown)
    assert read.partitions == {TopicPartition("orders", 0): PartitionRead(37, 37, 3, 39)}
    assert (read.proof, read.wrote) == ("rows", True)


def test_a_row_definition_fits_the_schema() -> None:
    definition = RowDefinition(
        FieldFormat("avro", "{}", {7: "{}"}, Origin("orders-value", 3)),
        FieldFormat("string"),
        "leave-out",
        ("value.*",),
        "value.a > 0",
        {"b": "c"},
    )
    strict = validator("row_definition", closed(SCHEMA))
    for one in (definition, RowDefinition()):
        strict.validate(json.loads(encode(one.to_dict())))


def test_a_draft_fits_the_schema_and_is_no_plan() -> None:
    """It is what ``kafka-offsets plan`` prints: without a batch, who made it, and splits."""
    strict, made = closed(SCHEMA), json.loads(json.dumps(plan_to_dict(draft([planned(0, 4, 10)], split_count=2))))
    validator("draft", strict).validate(made)
    assert not validator("plan", strict).is_valid(made)


def test_another_version_s_object_does_not_fit() -> None:
    kind, _, value = next(kept(HERE / VERSIONS[-1]))
    with pytest.raises(ValidationError):
        validator(kind, SCHEMA).validate({**value, "version": 2})
