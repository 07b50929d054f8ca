# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What is wrong with a value that a DAG has, each as a sentence. A template is checked when it is rendered."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from airflow_kafka_offsets.errors import InvalidRequest

BATCH_COLUMN = "kafka_batch"
_NAME = r"(?:`[^`]+`|[^.`/\s]+)"
_TABLE = re.compile(rf"{_NAME}(?:\.{_NAME})*")
_CHANGING = re.compile(
    r"(?i)\b(?:current_timestamp|current_date|current_time|localtimestamp|curdate|monotonically_increasing_id"
    r"|(?:rand|randn|random|uuid|shuffle)\s*\(|(?:now|unix_timestamp|spark_partition_id)\s*\(\s*\))"
)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`")


def refuse(problems: Iterable[str]) -> None:
    """:raises InvalidRequest: there are problems."""
    if found := tuple(problems):
        raise InvalidRequest(found)


def is_template(value: object) -> bool:
    """Whether only a run knows the value: a Jinja template, or what another task returns (an ``XComArg``)."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    return hasattr(value, "iter_references") and not isinstance(value, type)


def text(name: str, value: object, example: str) -> Iterator[str]:
    """Of text that is not empty."""
    if not is_template(value) and not (isinstance(value, str) and value.strip()):
        yield f"{name} is {value!r}; give {example}."


def condition(name: str, value: object) -> Iterator[str]:
    """Of a condition in Spark SQL, which must say the same of a record whenever it is read."""
    yield from text(name, value, "a Spark SQL condition")
    if isinstance(value, str) and (found := _CHANGING.search(_QUOTED.sub("", value))):
        yield (
            f"{name} has {found[0]}, so that a record which is read again could have another fate. Compare with the "
            "record's timestamp, or with a template of the run."
        )


def texts(name: str, value: object, example: str) -> Iterator[str]:
    """Of a list of texts."""
    if is_template(value):
        return
    if isinstance(value, str) or not isinstance(value, Sequence):
        yield f"{name} is {value!r}; give a list: {example}."
        return
    for item in value:
        yield from text(name, item, example)


def mapping(name: str, value: object, example: str) -> Iterator[str]:
    if not is_template(value) and value is not None and not isinstance(value, Mapping):
        yield f"{name} is {value!r}; give {example}."


def kind(name: str, value: object, kinds: tuple[type, ...]) -> Iterator[str]:
    """Of a config object."""
    if not is_template(value) and not isinstance(value, kinds):
        names = ", ".join(f"{k.__name__}(…)" for k in kinds)
        yield f"{name} is {value!r}; give {names}."


def choice(name: str, value: object, words: Sequence[object]) -> Iterator[str]:
    if not is_template(value) and value not in words:
        yield f"{name} is {value!r}; it is one of {', '.join(map(repr, words))}."


def ddl(name: str, value: object) -> Iterator[str]:
    """Of columns in Spark's DDL. Spark itself reads them, in the job."""
    yield from text(name, value, 'columns in Spark\'s DDL, such as "id BIGINT, at TIMESTAMP"')
    if isinstance(value, str) and re.search(r"(?i)\bNOT\s+NULL\b", _QUOTED.sub("", value)):
        yield (
            f"{name} has NOT NULL, which Spark's from_json ignores. Leave it out and write the condition into "
            'Rows(expect={"id is present": "value.id IS NOT NULL"}).'
        )


def avro(name: str, value: object) -> Iterator[str]:
    """Of the JSON text of an Avro record."""
    if value is None or is_template(value):
        return
    try:
        schema = json.loads(value) if isinstance(value, str) else None
    except ValueError:
        schema = None
    if not isinstance(schema, dict) or schema.get("type") != "record" or not isinstance(schema.get("fields"), list):
        yield f"{name} is not the JSON text of an Avro record; give one with type, name and fields."


def limit(name: str, value: object) -> Iterator[str]:
    """Of a count of records, or a share of them."""
    share = re.fullmatch(r"(\d{1,3}(?:\.\d{1,9})?)%", value) if isinstance(value, str) else None
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if value is None or is_count or is_template(value) or (share is not None and float(share[1]) <= 100):
        return
    yield f'{name} is {value!r}; give a number of records such as 100, or a share such as "0.1%".'


def table(name: str, value: object) -> Iterator[str]:
    if not is_template(value) and not (isinstance(value, str) and _TABLE.fullmatch(value)):
        yield f"{name} is {value!r}; give table, schema.table or catalog.schema.table."


def path(name: str, value: object) -> Iterator[str]:
    """Of a folder. Its name must not depend on who asks, and must be safe in logs."""
    if is_template(value):
        return
    if not isinstance(value, str):
        yield f"{name} is {value!r}; give the path of a folder."
        return
    scheme, slashes, rest = value.rpartition("://")
    if scheme and ":" in rest.split("/", 1)[0].rpartition("@")[0]:
        yield f"{name} has a password in it. Configure the file system instead: paths are logged."
        return
    if not slashes and not rest.startswith("/"):
        yield f"{name} is {value!r}, a relative path. Give an absolute one, with its file system if need be (s3a://…)."
    if re.search(r"[*?\[\]{}\\`]", rest) or re.search(r"(^|/)\.\.?(/|$)", rest):
        yield f"{name} is {value!r}; an output is one folder, without wildcards, '.' and '..'."


def table_parts(value: str) -> list[str]:
    """``lake.`my.orders``` → ``["lake", "my.orders"]``"""
    return [part.strip("`") for part in re.findall(_NAME, value)]


def tidy(value: str) -> str:
    """A folder's path with single slashes and none at its end."""
    scheme, _, rest = value.rpartition("://")
    name = re.sub("/+", "/", rest).rstrip("/") or "/"
    return f"{scheme}://{name}" if scheme else name


def folder(value: str) -> str:
    """A folder by one name, by whichever of its file system's schemes it is reached."""
    scheme, slashes, name = tidy(value).rpartition("://")
    same = {"s3": "s3a", "s3n": "s3a", "abfs": "abfss"}
    return f"{same.get(scheme.lower(), scheme.lower())}{slashes}{name}"
