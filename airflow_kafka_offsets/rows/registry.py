# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Schemas of a registry that speaks Confluent's API.

A record names its writer's schema by an id, in five bytes before it (Confluent's wire format). The job object gets the
text of every id that a record of the topics may have, deleted versions too: a record that decoded yesterday must not be
bad when its batch is written again. A producer registers a schema before it sends, so a client that asks after the end
offsets are known gets them all.
"""

from __future__ import annotations

import json
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from airflow_kafka_offsets.errors import RegistryUnavailable, clean_text
from airflow_kafka_offsets.rows.checks import avro, refuse
from airflow_kafka_offsets.rows.config import Avro, Debezium, Rows

_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class RegisteredSchemas:
    """The schemas of a value or a key at one moment. Each text stands alone: it has what it refers to.

    :ivar schema: the reader's: the newest version.
    :ivar by_id: the writer's schema of every id.
    :ivar origin: the newest version in words, such as ``orders-value version 5``.
    """

    schema: str
    by_id: Mapping[int, str]
    origin: str


@dataclass(frozen=True, slots=True)
class Registry:
    """A schema registry, and how to log in to it.

    :ivar url: with its path (Apicurio's is ``/apis/ccompat/v7``), without a login.
    :ivar token: a bearer token, instead of ``user`` and ``password``.
    :ivar ca_file: PEM of the authorities to trust; :ivar cert_file: PEM of this client's certificate and key.
    :ivar timeout_s: for all questions together.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    cert_file: str | None = None
    timeout_s: float = 15.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or "@" in parts.netloc:
            refuse(["The schema registry's URL does not begin with http:// or https://, or has a login in it."])

    def get(self, path: str) -> Any:
        """What the registry answers; ``None`` where it has no such subject or version."""
        request = Request(self.url.rstrip("/") + path, headers={"Accept": "application/json"})
        if login := self._login():
            request.add_unredirected_header("Authorization", login)  # a redirect to another host must not get it
        try:
            with urlopen(request, timeout=self.timeout_s, context=self._tls()) as answer:
                return json.load(answer)
        except HTTPError as error:
            body = error.read(2_000)
            if error.code == 404 and b'"error_code":404' in body.replace(b" ", b""):
                return None
            may_retry = error.code == 429 or error.code >= 500
            raise self.unavailable(f"HTTP {error.code}: {body.decode(errors='replace')}", may_retry) from None
        except json.JSONDecodeError as error:
            raise self.unavailable(f"what answers is not a schema registry ({error})") from None
        except (OSError, ValueError) as error:  # ValueError: a login that is no header
            raise self.unavailable(f"{type(error).__name__}: {error}", retriable=True) from None

    def unavailable(self, reason: str, retriable: bool = False) -> RegistryUnavailable:
        words = clean_text(reason)
        for secret in filter(None, (self._login(), self.password, self.token)):
            words = words.replace(secret.removeprefix("Basic "), "***")
        remedy = "Check the registry's connection: address and path, login, the right to read the subjects."
        return RegistryUnavailable(f"Cannot read schemas from {self.url}", words[:300], remedy, retriable)

    def _login(self) -> str | None:
        if self.token:
            return f"Bearer {self.token}"
        login = f"{self.user}:{self.password or ''}".encode()
        return f"Basic {b64encode(login).decode()}" if self.user else None

    def _tls(self) -> ssl.SSLContext | None:
        if not self.url.startswith("https:"):
            return None
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.cert_file:
            context.load_cert_chain(self.cert_file)
        return context


def schemas_of(rows: Rows, topics: Sequence[str], connect: Callable[[str], Registry]) -> dict[str, RegisteredSchemas]:
    """The schemas of ``value`` and ``key``, where a registry has them.

    :param topics: of the batch; their subjects are read where ``Avro.subject`` names none.
    :param connect: the registry of a connection's id.
    :raises InvalidRequest: a subject does not exist or is not Avro, or the topics have different schemas.
    :raises RegistryUnavailable: no answer in time, a missing right, or a text that is no schema.
    """
    found = {}
    value = rows.value.format if isinstance(rows.value, Debezium) else rows.value
    for name, given in (("value", value), ("key", rows.key)):
        if isinstance(given, Avro) and given.registry is not None:
            subjects = [given.subject] if given.subject else [f"{topic}-{name}" for topic in topics]
            found[name] = registered_schemas(connect(given.registry), subjects, one_reader=given.schema is None)
    return found


class _Version(NamedTuple):
    subject: str
    number: int

    def __str__(self) -> str:
        return f"{self.subject} version {self.number}"


class _Schema(NamedTuple):
    schema_id: int
    kind: str
    text: str
    references: Mapping[str, _Version]


def registered_schemas(registry: Registry, subjects: Sequence[str], *, one_reader: bool = True) -> RegisteredSchemas:
    """The schemas of some subjects.

    :param one_reader: whether the newest versions of all subjects have to be one schema: nothing else says which
        columns the rows have.
    """
    end, pool = time.monotonic() + registry.timeout_s, ThreadPoolExecutor(_AT_ONCE)

    def each(ask: Callable[[Registry, Any], Any], of: Iterable[Any]) -> list[Any]:
        return list(pool.map(partial(ask, registry), of, timeout=max(0.0, end - time.monotonic())))

    try:
        found: list[list[_Version]] = each(_versions, subjects)
        newest, versions = [of_subject[0] for of_subject in found], [v for of_subject in found for v in of_subject]
        schemas: dict[_Version, _Schema] = {}
        wanted = set(versions)
        while wanted:
            schemas |= zip(wanted, each(_schema, wanted), strict=True)
            wanted = {version for schema in schemas.values() for version in schema.references.values()} - set(schemas)
    except TimeoutError:
        raise registry.unavailable(f"no answer within {registry.timeout_s:g} s", retriable=True) from None
    except (LookupError, TypeError, ValueError) as error:
        raise registry.unavailable(f"the answer is not that of a schema registry ({error!r})") from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    refuse(
        f"{version} is of type {schemas[version].kind}; only Avro is decoded here: decode it in a job of your own."
        for version in newest
        if schemas[version].kind != "AVRO"
    )
    texts = {version: _standalone(version, schemas) for version in schemas if schemas[version].kind == "AVRO"}
    if one_reader and len({texts[version] for version in newest}) > 1:
        refuse(
            [
                f"{', '.join(map(str, newest))} are different schemas, so nothing says which columns the rows have. "
                "Make one pipeline per topic, or give Avro(schema=…) with all columns."
            ]
        )
    records = {version: text for version, text in texts.items() if not [*avro("", text)]}  # else its records are bad
    by_id = {schemas[version].schema_id: records[version] for version in versions if version in records}
    refuse(problem for version in newest for problem in avro(str(version), texts[version]))
    return RegisteredSchemas(texts[newest[0]], by_id, str(newest[0]))


def _versions(registry: Registry, subject: str) -> list[_Version]:
    """The newest version of a subject, then every version, deleted ones too."""
    path = f"/subjects/{quote(subject, safe='')}/versions?deleted="
    numbers, every = ([int(number) for number in registry.get(path + word) or ()] for word in ("false", "true"))
    if not numbers:
        refuse(
            [
                f"The schema registry at {registry.url} has no subject {subject!r}, or this login may not see it. "
                "Name the subject of the records in Avro(subject=…)."
            ]
        )
    return [_Version(subject, number) for number in (max(numbers), *every)]


def _schema(registry: Registry, version: _Version) -> _Schema:
    found = registry.get(f"/subjects/{quote(version.subject, safe='')}/versions/{version.number}?deleted=true")
    if found is None:
        raise registry.unavailable(f"{version} is listed and cannot be read", retriable=True)
    references = {r["name"]: _Version(r["subject"], int(r["version"])) for r in found.get("references") or ()}
    return _Schema(int(found["id"]), found.get("schemaType") or "AVRO", str(found["schema"]), references)


def _standalone(version: _Version, schemas: Mapping[_Version, _Schema]) -> str:
    """The text with the types that it refers to written out: Spark's ``from_avro`` takes a single text."""
    if not schemas[version].references:
        return schemas[version].text
    from fastavro.repository.base import AbstractSchemaRepository, SchemaRepositoryError
    from fastavro.schema import SchemaParseException, UnknownType, load_schema

    names, wanted = {"": version}, [version]
    while wanted:
        found = schemas[wanted.pop()].references
        wanted += [each for name, each in found.items() if name not in names]
        names |= found

    class Referenced(AbstractSchemaRepository):
        def load(self, name: str) -> Any:
            if name not in names:
                raise SchemaRepositoryError(f"no reference defines the type {name}")
            return json.loads(schemas[names[name]].text)

    try:
        whole: Any = load_schema("", repo=Referenced())
    except (SchemaParseException, UnknownType, SchemaRepositoryError, ValueError, LookupError) as error:
        raise RegistryUnavailable(
            f"{version} is not a whole Avro schema",
            clean_text(f"{type(error).__name__}: {error}"),
            "Register a version that is, and delete this one for good.",
        ) from None
    return json.dumps({name: value for name, value in whole.items() if not name.startswith("__")})
