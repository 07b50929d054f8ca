"""A sink as a few words: what ``kafka_spark_batch(sink={"format": "delta", "table": "lake.orders"})`` says.

The words become arguments of the job that is in the wheel (``spark/jobs/write_batch.py``), one for each word: no JSON,
because YARN's cluster mode deletes two braces in a row, and no secret, because ``ps`` shows arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, TypedDict, get_args

from airflow_kafka_offsets.errors import refuse
from airflow_kafka_offsets.plan.topic_outputs import TOPIC, of_topic
from airflow_kafka_offsets.spark.sinks.delta_sink import delta
from airflow_kafka_offsets.spark.sinks.evolution import Evolve
from airflow_kafka_offsets.spark.sinks.files_sink import files
from airflow_kafka_offsets.spark.sinks.iceberg_sink import iceberg
from airflow_kafka_offsets.spark.sinks.jdbc_sink import jdbc
from airflow_kafka_offsets.spark.sinks.sink_contract import Sink, as_option
from airflow_kafka_offsets.spark.sinks.upsert_sink import upsert
from airflow_kafka_offsets.values.sql_text import expression_problems

SinkFormat = Literal["parquet", "orc", "json", "csv", "avro", "delta", "iceberg", "jdbc"]


class UpsertWords(TypedDict, total=False):
    """A table of entities: one row for each key, which has the record with the newest offset.

    - ``keys``: the columns that identify a row.
    - ``delete_when``: Spark SQL over the record. Where it is true, the row of the key has true in ``kafka_deleted``,
      and null in its other columns.
    """

    keys: Sequence[str]
    delete_when: str


class SinkWords(TypedDict, total=False):
    """``format``, and what that format's function in ``spark.sinks`` takes.

    - ``parquet``, ``orc``, ``json``, ``csv``, ``avro``: ``path``, ``partition_by``, ``options``, ``evolve``
    - ``delta``: ``path`` or ``table``, ``partition_by``, ``mode``, ``options``, ``evolve``, ``upsert``
    - ``iceberg``: ``table``, ``partition_by``, ``options``, ``evolve``, ``upsert``
    - ``jdbc``: ``url``, ``table``, ``options``, ``evolve``, ``upsert``; user and password are Spark settings
      (docs/sinks.md)

    ``{topic}`` in ``path`` or ``table`` gives each topic an output of its own: ``"lake.{topic}"``. A topic's name is
    lower case there, and has ``_`` for ``.`` and ``-``.

    ``evolve`` says what happens to rows whose columns the output has not. ``"fail"`` (default): they are refused, with
    the column and both types. ``"add"``: the output gets new columns and wider numbers. A column that the rows lack is
    null, and no column is ever dropped or narrowed.
    """

    format: SinkFormat
    path: str
    table: str
    url: str
    partition_by: Sequence[str]
    mode: Literal["overwrite", "append"]
    options: Mapping[str, object]
    evolve: Evolve
    upsert: UpsertWords


class BadRecordWords(SinkWords, total=False):
    """Those of a sink, and ``limit``: how many of a batch's records may be bad, ``100`` or ``"0.1%"``; default: 0."""

    limit: int | str


_OF_FORMAT: Mapping[str, tuple[Callable[..., Sink], frozenset[str], frozenset[str]]] = {
    # what makes the sink, the words that it needs, and those that it may have
    **{
        name: (files, frozenset({"path"}), frozenset({"partition_by", "options", "evolve", "format"}))
        for name in ("parquet", "orc", "json", "csv", "avro")
    },
    "delta": (delta, frozenset(), frozenset({"path", "table", "partition_by", "mode", "options", "evolve", "upsert"})),
    "iceberg": (iceberg, frozenset({"table"}), frozenset({"partition_by", "options", "evolve", "upsert"})),
    "jdbc": (jdbc, frozenset({"url", "table"}), frozenset({"options", "evolve", "upsert"})),
}
SINK, BAD_RECORDS = "--sink-", "--bad-records-"
DECODE = "--decode"
UPSERT = "upsert"
_LISTS = {"partition_by"}
_PAIRS = {"options"}
_SOME_TOPIC = "kafka_topic_name"
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}")


def problems_of(words: Any) -> list[str]:
    """What is wrong with the names of the words, whatever their values will be; each a sentence."""
    if not isinstance(words, Mapping):
        return [f'sink is {words!r}; expected words such as {{"format": "parquet", "path": "/lake/orders"}}.']
    name: Any = words.get("format")
    if name not in get_args(SinkFormat):
        return [f"sink has the format {name!r}; use one of {', '.join(get_args(SinkFormat))}."]
    _, needed, allowed = _OF_FORMAT[name]
    missing = sorted(needed - words.keys())
    unknown = sorted(map(str, words.keys() - needed - allowed - {"format"}))
    takes = ", ".join(sorted((needed | allowed) - {"format"}))
    return [
        *(f"sink lacks {word!r}, which format {name!r} needs." for word in missing),
        *(f"sink has {word!r}, and format {name!r} takes {takes}." for word in unknown),
        *_braces_problems(words.get("table")),
        *_upsert_problems(words.get(UPSERT)),
    ]


def _braces_problems(table: Any) -> list[str]:
    """A typing mistake would be a table's name. What is wrong with a path, its sink says."""
    if "{" not in _TEMPLATE.sub("", str(table)).replace(TOPIC, ""):
        return []
    return [f"sink has the table {table!r}: use {TOPIC}, or a name without braces."]


def _upsert_problems(words: Any) -> list[str]:
    if words is None:
        return []
    if not isinstance(words, Mapping) or words.keys() - UpsertWords.__annotations__.keys() or "keys" not in words:
        return [f'sink has the upsert {words!r}; give {{"keys": ["id"]}}, and "delete_when" if records delete rows.']
    found = []
    if isinstance(words["keys"], str) or not words["keys"] or not all(isinstance(key, str) for key in words["keys"]):
        found.append(f"sink has the upsert keys {words['keys']!r}; give a list of columns.")
    if words.get("delete_when") is not None:
        found += expression_problems("delete_when", words["delete_when"])
    return found


def sink_of(words: Mapping[str, Any], topic: str | None = None) -> Sink:
    """The sink that the words say.

    :param topic: whose output it is, where ``{topic}`` is in the words.
    :raises InvalidRequest: what is wrong with them.
    """
    problems = problems_of(words)
    refuse(problems)
    make, _, allowed = _OF_FORMAT[words["format"]]
    given = {word: value for word, value in words.items() if word != "format" or "format" in allowed}
    entities: UpsertWords | None = given.pop(UPSERT, None)
    if topic is not None:
        given |= {word: of_topic(given[word], topic) for word in ("path", "table") if given.get(word)}
    sink = make(**given)
    return sink if entities is None else upsert(sink, entities["keys"])


def is_of_each_topic(words: Mapping[str, Any]) -> bool:
    return any(TOPIC in (words.get(word) or "") for word in ("path", "table"))


def output_of(words: Mapping[str, Any]) -> str:
    """What the sink writes; where each topic has an output, ``{topic}`` stands in its name.

    :raises InvalidRequest: what is wrong with the words.
    """
    if not is_of_each_topic(words):
        return sink_of(words).output
    return sink_of(words, _SOME_TOPIC).output.replace(_SOME_TOPIC, TOPIC)


def sink_into(words: Mapping[str, Any], output: str) -> Mapping[str, Any] | None:
    """The same words for the output that the batch has, where a template gives each run another one.

    :returns: ``None``: they cannot name it. The URL of the database is another one, or capitals of a table's name are
        not in the output's name, and a catalog may tell them apart.
    """
    if output_of(words) == output:
        return words
    if words.get("path") is not None:  # with its own scheme: s3 and s3a are one output, and Spark may know only one
        scheme, slashes, _ = words["path"].rpartition("://")
        into = {**words, "path": f"{scheme}{slashes}{output.rpartition('://')[2]}" if slashes else output}
    elif words["table"] == words["table"].lower():
        into = {**words, "table": output.rpartition(":")[2]}
    else:
        return None
    return into if output_of(into) == output else None


def sink_arguments(words: Mapping[str, Any], prefix: str = SINK) -> list[str]:
    """``--sink-format delta --sink-table lake.orders --sink-partition-by dt``, for :func:`words_of_arguments`."""
    found: list[str] = []
    for word, value in words.items():
        if word == UPSERT:  # the row definition has it
            continue
        if word in _PAIRS:
            values = [f"{name}={as_option(setting)}" for name, setting in (value or {}).items()]
        else:
            values = list(value) if word in _LISTS else [value]
        found += [part for one in values for part in (prefix + word.replace("_", "-"), str(one))]
    return found


def words_of_arguments(argv: Sequence[str], prefix: str = SINK) -> dict[str, Any]:
    """The words of a sink that a job's arguments hold; other arguments are left alone."""
    words: dict[str, Any] = {}
    given = iter(argv)
    for argument in given:
        if not argument.startswith(prefix):
            continue
        word, value = argument.removeprefix(prefix).replace("-", "_"), next(given, "")
        if word in _LISTS:
            words.setdefault(word, []).append(value)
        elif word in _PAIRS:
            name, _, setting = value.partition("=")
            words.setdefault(word, {})[name] = setting
        else:
            words[word] = value
    return words


def formats_of_arguments(argv: Sequence[str]) -> set[str]:
    """What a job's arguments say that it reads and writes; nothing where the job is one of the user's own."""
    return {value for flag, value in pairwise(argv) if flag in (f"{SINK}format", f"{BAD_RECORDS}format", DECODE)}
