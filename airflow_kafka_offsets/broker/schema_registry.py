"""What a schema registry that speaks Confluent's API has of some subjects at this moment, deleted versions too.

Records name their writer's schema by its id, so the text of each id that a record may have is asked for. Whoever asks
after the ends of the logs are known gets them all, because a producer registers a schema before it sends. Without the
versions that were deleted, a record that decoded yesterday would be a bad one when its batch is done again.

Each version is a request of its own: a few run at once, and all together have one deadline.
"""

from __future__ import annotations

import logging
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_kafka_offsets.broker.secrets import mask
from airflow_kafka_offsets.errors import InvalidRequest, RegistryUnavailable
from airflow_kafka_offsets.values.avro_references import standalone

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

T = TypeVar("T")
Version = tuple[str, int]
"""A subject, and the number of a schema in it."""

_AT_ONCE = 8
_NO_SUBJECT = 40401
_NOT_FOUND = (_NO_SUBJECT, 40402, 40403)
"""A subject, a version, a schema; without one of these codes it is the path that is not there."""


@dataclass(frozen=True, slots=True)
class RegisteredSchemas:
    """The reader's schema, and the writer's schema of every id that a record of these subjects may have.

    :ivar subject: the reader's.
    :ivar version: the reader's number in its subject.
    :ivar schema_id: the reader's id.
    :ivar kind: ``AVRO`` or ``JSON``.
    :ivar text: the reader's. An Avro text stands alone: it has what it refers to.
    :ivar texts: by id, of all versions of all subjects that are of this kind; the reader's is one of them.
    """

    subject: str
    version: int
    schema_id: int
    kind: str
    text: str
    texts: Mapping[int, str]


def subject_schemas(
    connection: Mapping[str, str], subjects: Sequence[str], version: int | None = None, timeout_s: float = 15.0
) -> RegisteredSchemas:
    """The schemas of the subjects, as the registry has them now.

    :param connection: settings of ``SchemaRegistryClient``, with secrets (``hooks/registry_connection.py``).
    :param subjects: one at least; the reader's schema is of the first.
    :param version: the reader's, which may be a deleted one; by default the newest that is not.
    :param timeout_s: for all questions together.
    :raises InvalidRequest: no such subject or version, a kind of schema that is not read here, or settings that the
        client does not take.
    :raises RegistryUnavailable: no answer in time, no right, no client installed, or a text that is no schema.
    """
    registry = _Registry(connection, timeout_s)
    try:
        return registry.schemas(subjects, version)
    finally:
        registry.close()


@dataclass(frozen=True, slots=True)
class _Found:
    """:ivar refers_to: other schemas that the text needs; followed for Avro alone."""

    schema_id: int
    kind: str
    text: str
    refers_to: tuple[Version, ...]


class _Registry:
    """Asks one registry until a deadline. Each question ends in an answer or in an error of this package."""

    def __init__(self, connection: Mapping[str, str], timeout_s: float) -> None:
        login, token = (connection.get(name, "") for name in ("basic.auth.user.info", "bearer.auth.token"))
        of_login = (login, login.partition(":")[2], b64encode(login.encode()).decode())
        secrets = (*of_login, token, connection.get("ssl.key.password", ""))
        self._secrets = (*secrets, *(repr(secret)[1:-1] for secret in secrets))  # httpx quotes a header that it refuses
        self._address = mask(connection["url"], {})
        self._timeout_s = timeout_s
        self._end = time.monotonic() + timeout_s
        self._client = self._make_client(connection)
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="schema registry")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._client.__exit__()

    def schemas(self, subjects: Sequence[str], version: int | None) -> RegisteredSchemas:
        reader = (subjects[0], self._newest(subjects[0]) if version is None else version)
        versions = [(subject, number) for subject in dict.fromkeys(subjects) for number in self._every(subject)]
        if reader not in versions:
            known = ", ".join(str(number) for subject, number in versions if subject == reader[0])
            problem = f"{self._named(reader[0])} has no version {version}: use one of {known}, or leave it out."
            raise InvalidRequest((problem,))
        found = self._with_references(versions)
        schema_id, kind = found[reader].schema_id, found[reader].kind
        if kind not in ("AVRO", "JSON"):
            problem = (
                f"{self._named(reader[0])} is of type {kind}: use a job of your own, which decodes the bytes itself."
            )
            raise InvalidRequest((problem,))
        texts = {found[each].schema_id: self._text(each, found) for each in versions if found[each].kind == kind}
        return RegisteredSchemas(*reader, schema_id, kind, texts[schema_id], texts)

    def _newest(self, subject: str) -> int:
        numbers = self._numbers(subject, deleted=False)
        if not numbers and self._every(subject):
            problem = f"{self._named(subject)} has deleted versions alone: register one, or name another subject."
            raise InvalidRequest((problem,))
        return max(numbers)

    def _every(self, subject: str) -> list[int]:
        numbers = self._numbers(subject, deleted=True)
        if not numbers:
            raise InvalidRequest(
                (
                    f"{self._named(subject)} is not there, or may not be seen: name the subject of the records (by "
                    "default their topic with -value or -key), or give the connection's login the right to read it.",
                )
            )
        return sorted(numbers)

    def _numbers(self, subject: str, *, deleted: bool) -> list[int]:
        """Of its versions; none where there is no such subject."""
        return self._all(f"list the versions of subject {subject!r}", [partial(self._list, subject, deleted)])[0]

    def _list(self, subject: str, deleted: bool) -> list[int]:
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            return [int(number) for number in self._client.get_versions(subject, deleted=deleted)]
        except SchemaRegistryError as error:
            if error.error_code == _NO_SUBJECT:
                return []
            raise

    def _with_references(self, versions: Sequence[Version]) -> dict[Version, _Found]:
        """These versions, and those that Avro's among them refer to, and so on."""
        found: dict[Version, _Found] = {}
        wanted = list(versions)
        while wanted:
            subjects = ", ".join(dict.fromkeys(repr(subject) for subject, _ in wanted))
            answers = self._all(f"read the schemas of subject {subjects}", [partial(self._read, *of) for of in wanted])
            found |= zip(wanted, answers, strict=True)
            wanted = [of for of in dict.fromkeys(of for each in answers for of in each.refers_to) if of not in found]
        return found

    def _read(self, subject: str, version: int) -> _Found:
        answer: Any = self._client.get_version(subject, version, deleted=True)
        schema = answer.schema
        kind = schema.schema_type or "AVRO"
        references = (schema.references or ()) if kind == "AVRO" else ()
        refers_to = tuple((reference.subject, reference.version) for reference in references)
        return _Found(int(answer.schema_id), kind, str(schema.schema_str), refers_to)

    def _text(self, version: Version, found: Mapping[Version, _Found]) -> str:
        """As the registry has it; with all that it refers to, if it is Avro's."""
        if found[version].kind != "AVRO":
            return found[version].text
        referenced: list[Version] = []
        wanted = list(found[version].refers_to)
        while wanted:
            each = wanted.pop()
            if each not in referenced:
                referenced.append(each)
                wanted += found[each].refers_to
        try:
            return standalone(found[version].text, [found[each].text for each in referenced])
        except ValueError as error:
            raise RegistryUnavailable(
                f"{self._named(version[0])} has a version {version[1]} that is no Avro schema",
                str(error),
                "Register one that is, and remove that version for good.",
            ) from None

    def _all(self, what: str, questions: Iterable[Callable[[], T]]) -> list[T]:
        futures = [self._pool.submit(question) for question in questions]
        return [self._answer(what, future) for future in futures]

    def _answer(self, what: str, future: Future[T]) -> T:
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            return future.result(max(0.0, self._end - time.monotonic()))
        except SchemaRegistryError as error:
            raise self._refused(what, error) from None
        except TimeoutError:
            raise RegistryUnavailable(
                f"Cannot {what} at {self._address}",
                f"no answer within {self._timeout_s:g} s",
                "Check that the registry is up and can be reached from here, then retry.",
                retriable=True,
            ) from None
        except (AttributeError, KeyError, TypeError, ValueError) as error:  # of the client, which expects other JSON
            raise RegistryUnavailable(
                f"Cannot {what} at {self._address}",
                f"what answers there is no schema registry ({self._told(error)})",
                "Check the address and its path: Apicurio's is /apis/ccompat/v7.",
            ) from None
        except Exception as error:  # of httpx or httpx2, whichever the client has found
            raise RegistryUnavailable(
                f"Cannot {what} at {self._address}",
                self._told(error),
                "Check its connection (host, port, schema, ssl.*), and that the registry can be reached from here.",
                retriable=True,
            ) from None

    def _refused(self, what: str, error: Any) -> RegistryUnavailable:
        status, told = error.http_status_code, self._told(error)
        where = f"{what} at {self._address}"
        if status == 401:
            remedy = "Check the login and password of its connection, or the token in its extra."
            return RegistryUnavailable(f"Not allowed to {where}", told, remedy)
        if status == 403:
            remedy = "Give the login of its connection, or its token, the right to read that subject."
            return RegistryUnavailable(f"Not allowed to {where}", told, remedy)
        if error.error_code in _NOT_FOUND:  # Apicurio lists the versions of a deleted subject, and gives none of them
            return RegistryUnavailable(
                f"Cannot {where}", told, "Try again; then restore that subject, or leave it out."
            )
        remedy = "Check the address and its path (Apicurio's is /apis/ccompat/v7), and the registry's log."
        return RegistryUnavailable(f"Cannot {where}", told, remedy, retriable=status == 429 or status >= 500)

    def _named(self, subject: str) -> str:
        return f"Subject {subject!r} in the schema registry at {self._address}"

    def _make_client(self, connection: Mapping[str, str]) -> SchemaRegistryClient:
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
        except ImportError as error:
            raise RegistryUnavailable(
                f"Cannot ask the schema registry at {self._address}",
                f"{type(error).__name__}: {error}",
                "Install its client here: pip install 'airflow-kafka-offsets[schemaregistry]'.",
            ) from error
        for library in ("httpx", "httpx2"):  # the client takes one of them, which logs a line for each request
            logging.getLogger(library).setLevel(logging.WARNING)
        # Two tries of a server that accepts and never answers end before the deadline, and with its reason.
        tries = {"timeout": self._timeout_s / 3, "max.retries": 1, "retries.wait.ms": 300}
        try:
            return SchemaRegistryClient({**connection, **tries})
        except (OSError, TypeError, ValueError) as error:  # ssl.SSLError is an OSError
            problem = f"The schema registry at {self._address} cannot be asked: {self._told(error)}"
            remedy = "Check the address in its connection, and the files that its ssl.* settings name."
            raise InvalidRequest((f"{problem}. {remedy}",)) from None

    def _told(self, error: Exception) -> str:
        """What the client, or the registry, says: in one line, without secrets, and no page of HTML."""
        return f"{type(error).__name__}: {mask(' '.join(str(error).split()), {}, *self._secrets)[:300]}".rstrip(".")
