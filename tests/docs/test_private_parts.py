"""docs/private-parts.md names what is used of other packages although it is private there, and all of it is there."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyspark
import pytest
from confluent_kafka import KafkaError
from packaging.requirements import Requirement

from testbed.jars import spark_jars
from testbed.java import Java

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_kafka_offsets"
OWN = PACKAGE.name
KAFKAS_CODES = "_TIMED_OUT"  # stands for each error code of librdkafka's own, KafkaError._…
Use = tuple[str, str]  # a private name, and the file that uses it


def table(heading: str) -> list[list[str]]:
    page = (ROOT / "docs/private-parts.md").read_text()
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| \n").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return rows[1:]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


PYTHON, JAVA, TEXTS = table("Python"), table("Java, through Spark's driver"), table("Texts")
PARTS = {quoted(part)[0]: quoted(files) for _, part, files, *_ in PYTHON}
CLASSES = {quoted(part)[0]: quoted(files) for part, files, *_ in JAVA}


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def own_names(trees: list[ast.Module]) -> set[str]:
    """Every name that this package gives to something. A private part of that name would not be found."""
    found = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.Name(id=name, ctx=ast.Store())
            ):
                found.add(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                found.add(name)
    return found


def private_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="KafkaError"), attr=name) if private(name):
                assert hasattr(KafkaError, name)
                yield KAFKAS_CODES
            case ast.Attribute(attr=name) if private(name):
                yield name
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr" | "setattr"), args=[_, ast.Constant(value=str(name)), *_]
            ) if private(name):
                yield name
            case ast.ImportFrom(module=str(module), names=names) if module.partition(".")[0] != OWN:
                is_inside = any(map(private, module.split(".")))
                yield from (alias.name for alias in names if is_inside or private(alias.name))


def uses() -> set[Use]:
    files = {str(path.relative_to(PACKAGE)): ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}
    own = own_names(list(files.values()))
    return {(name, file) for file, tree in files.items() for name in private_names(tree) if name not in own}


def listed() -> set[Use]:
    found = set()
    for part, files in PARTS.items():
        names = re.split("[:.]", part)
        name = next((name for name in names[::-1] if private(name)), names[-1])
        found |= {(names[-1] if "_internal" in names else name, file) for file in files}
    return found


def test_each_private_part_that_the_code_uses_is_listed() -> None:
    assert uses() - listed() == set(), "list it in docs/private-parts.md with its reason, or find a public way"


@pytest.mark.parametrize(
    "code",
    [
        "frame._part",
        "f(x).y._part.z = 1",
        "getattr(frame, '_part', None)",
        "hasattr(frame, '_part')",
        "from library import _part",
        "from library._inside import _part",
        "from library._inside.part import _part as part",
    ],
)
def test_a_private_name_is_found_however_it_is_used(code: str) -> None:
    assert list(private_names(ast.parse(code))) == ["_part"]


@pytest.mark.parametrize("code", ["frame.part", "x.__name__", f"from {OWN} import _part", "part = '_part'"])
def test_what_is_no_private_part_is_not_taken_for_one(code: str) -> None:
    assert list(private_names(ast.parse(code))) == []


def test_each_private_part_that_is_listed_is_used() -> None:
    for name, file in listed() - uses():  # such as a name in a string
        assert name in (PACKAGE / file).read_text(), f"{file} does not use {name}: unlist it"


@pytest.mark.parametrize("part", PARTS)
def test_a_private_part_is_there_in_the_installed_version(part: str) -> None:
    module, _, path = part.partition(":")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        if not hasattr(found, name):
            sources = map(inspect.getsource, found.__mro__[:-1] if inspect.isclass(found) else [found])
            assert re.search(rf"self\.{name}\b.* = |^{name}: |\"{name}\"", "".join(sources), re.MULTILINE)
            return
        found = getattr(found, name)


@pytest.mark.parametrize("part", CLASSES)
def test_a_java_class_is_there_in_the_installed_version(java: Java, part: str) -> None:
    name, _, method = part.partition("#")
    entry = f"{name.replace('.', '/')}.class"
    found = [jar.read(entry) for jar in _jars(java) if entry in jar.NameToInfo]
    assert found, f"{name} is in no jar"
    assert any(method.encode() in content for content in found), f"{name} has no {method}"
    for file in CLASSES[part]:
        assert method in (PACKAGE / file).read_text(), f"{file} does not call {method}: unlist it"


@cache
def _jars(java: Java) -> list[ZipFile]:
    paths = [*(Path(pyspark.__file__).parent / "jars").glob("*.jar"), *spark_jars(java)]
    return [ZipFile(path) for path in paths]


@pytest.mark.parametrize("package", sorted({row[0] for row in [*PYTHON, *TEXTS] if "`" in row[0]}))
def test_a_package_of_which_a_private_part_is_used_has_an_upper_bound(package: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    required = [Requirement(text) for texts in (project["dependencies"], *extras) for text in texts]
    bounds = [str(one.specifier) for one in required if one.name == package.split()[0]]
    assert bounds
    assert all(quoted(package)[0] in bound.split(",") for bound in bounds)


@pytest.mark.parametrize("row", TEXTS, ids=lambda row: row[1])
def test_a_text_that_is_read_is_shown_by_a_test(row: list[str]) -> None:
    assert all((PACKAGE / file).is_file() for file in quoted(row[2]))
    for shown in quoted(row[4]):
        file, _, name = shown.partition("::")
        assert f"def {name}" in (ROOT / file).read_text()
