"""The resolve task's parameters for rows: what is wrong with them, and what Spark gets of them.

The row definition belongs to the run that does a batch, and not to the batch: a clear with a mended schema writes the
batch with that one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.errors import InvalidRequest, KafkaOffsetsError
from airflow_kafka_offsets.hooks.registry_connection import registered_schemas
from airflow_kafka_offsets.hooks.templates import is_settled
from airflow_kafka_offsets.operators.saved_places import text_on_worker
from airflow_kafka_offsets.request.parameters import ResolveParameters
from airflow_kafka_offsets.request.problems import Problems, parsed
from airflow_kafka_offsets.spark.sinks.sink_arguments import (
    BAD_RECORDS,
    DECODE,
    UPSERT,
    is_of_each_topic,
    output_of,
    problems_of,
    sink_arguments,
    sink_of,
)
from airflow_kafka_offsets.spark.sinks.sink_contract import HIDDEN
from airflow_kafka_offsets.stores.objects import create_object, read_object
from airflow_kafka_offsets.stores.store import Store
from airflow_kafka_offsets.values.json_schema import ddl_of
from airflow_kafka_offsets.values.row_definition import (
    LIMIT,
    FieldFormat,
    FieldWords,
    Limit,
    Origin,
    RowDefinition,
    ValueAndKey,
    format_of,
    object_name,
    parse_limit,
    problems_of_words,
    sink_words,
)
from airflow_kafka_offsets.values.schema_changes import older_versions, schema_changes

if TYPE_CHECKING:
    from airflow_kafka_offsets.log.pipeline_log import StoredBatch

NO_BYTES = "csv"  # a format that cannot hold a record's bytes


def row_problems(asked: ResolveParameters, written: ResolveParameters) -> list[str]:
    """What is wrong, as far as it is decided; each a sentence.

    :param asked: with the default of each parameter that a template decides; :ivar written: as the DAG has them.
    """
    problems = Problems()
    problems += problems_of_words(
        asked.value, asked.key, asked.tombstones, asked.select or (), asked.where or None, asked.expect or {}
    )
    bad: Any = asked.bad_records
    if bad is not None and not isinstance(bad, Mapping):
        problems.add(f'bad_records is {bad!r}; give the words of a sink, and "limit".')
    elif bad is not None:
        problems.take("bad_records", lambda: parse_limit(bad.get(LIMIT)), Limit())
        if bad.get("format") == NO_BYTES:
            problems.add("bad_records has the format 'csv', which cannot hold bytes: use parquet or a table.")
        elif bad.get("mode") == "append" or bad.get(UPSERT):
            word = UPSERT if bad.get(UPSERT) else "mode='append'"
            problems.add(f"bad_records has {word}: a batch that is done again replaces its own. Leave it out.")
        elif is_of_each_topic(bad):
            problems.add("bad_records has {topic} in it: name one place. Each bad record has its topic in a column.")
        else:
            problems += [f"bad_records: {problem}" for problem in problems_of(sink_words(bad))] or _output_problems(
                bad, asked.sink, asked.output_name
            )
        if not _decides_what_is_bad(written):
            problems.add(
                "bad_records is given, and nothing decides which records are bad: give value, key, where, select or "
                "expect."
            )
    elif isinstance(written.bad_records, Mapping) and is_settled(written.bad_records.get("format")):
        problems += [f"bad_records: {problem}" for problem in problems_of(sink_words(written.bad_records))]
    if (asked.sink or {}).get("mode") == "append" and _says_rows(written):
        problems.add("The sink has mode='append', and a batch that is done again replaces its rows: leave it out.")
    return problems


def _output_problems(bad: Mapping[str, Any], sink: Any, output: str | None) -> list[str]:
    problems = Problems()
    problems.take_all(lambda: sink_of(sink_words(bad)))
    with suppress(InvalidRequest):  # what is wrong with the sink is said where it is checked
        output = output_of(sink) if sink is not None else output
    if problems or output is None or (aside := set_aside_output(bad)) is None:
        return problems
    if aside == output:
        problems.add(f"bad_records and the rows name the same output, {output}: one would replace the other's rows.")
    for inner, outer in ((aside, output), (output, aside)):
        if inner.startswith(f"{outer}/") and not inner.removeprefix(f"{outer}/").startswith(HIDDEN):
            problems.add(
                f"Of the outputs of bad_records and of the rows, {inner} lies in {outer}: its readers see both. In a "
                "Delta table VACUUM deletes what is not the table's. Give bad_records a folder beside it."
            )
    return problems


def _upsert_words(asked: ResolveParameters) -> Mapping[str, Any]:
    sink: Any = asked.sink  # it may be a template as a whole
    return (sink.get(UPSERT) if isinstance(sink, Mapping) else None) or {}


def _says_rows(asked: ResolveParameters) -> bool:
    given = (asked.value, asked.key, asked.select or None, asked.where or None, asked.expect or None)
    return asked.tombstones != "row" or any(word is not None for word in given)


def _decides_what_is_bad(asked: ResolveParameters) -> bool:
    return _says_rows(asked) or bool(_upsert_words(asked))


def set_aside_output(bad: Mapping[str, Any] | None) -> str | None:
    return sink_of(sink_words(bad)).output if bad else None


def limit_of(asked: ResolveParameters) -> Limit | None:
    """How many records may be bad; ``None`` where nothing decides which are."""
    if not _decides_what_is_bad(asked):
        return None
    return parse_limit((asked.bad_records or {}).get(LIMIT))


def row_arguments(asked: ResolveParameters) -> list[str]:
    """The Spark job's arguments about rows, apart from the definition's digest."""
    decoded = [field["format"] for field in (asked.value, asked.key) if field]
    bad = sink_arguments(asked.bad_records, BAD_RECORDS) if asked.bad_records else []
    return [*(part for name in sorted(set(decoded)) for part in (DECODE, name)), *bad]


def put_definition(
    asked: ResolveParameters, store: Store, topics: Collection[str], with_records: Collection[str] = ()
) -> RowDefinition | None:
    """Put the row definition into the work store, and return it; ``None`` where records stay as they are.

    :param topics: of the batch. Its ends are known, so a registry that is asked now has the schema of each record.
    :param with_records: those of which it reads something. One without records may have no schema yet.
    :raises InvalidRequest: a schema's file cannot be read, or a schema is none.
    :raises RegistryUnavailable: a registry does not answer, or does not let this client in.
    """
    upsert = _upsert_words(asked)
    of_each_topic = is_of_each_topic(asked.sink or {})
    if not _decides_what_is_bad(asked) and not of_each_topic:
        return None
    has_subjects = of_each_topic and any(map(_has_subject_of_topic, (asked.value, asked.key)))
    definition = RowDefinition(
        *((None, None) if has_subjects else _formats(asked, topics)),
        "leave-out" if asked.tombstones == "leave-out" else "row",
        tuple(asked.select or ()),
        asked.where or None,
        dict(asked.expect or {}),
        tuple(upsert.get("keys", ())),
        upsert.get("delete_when"),
        _formats_by_topic(asked, topics, with_records) if has_subjects else {},
    )
    create_object(store, definition.object_name, definition.to_dict())  # one that is there is the same
    return definition


def _formats(asked: ResolveParameters, topics: Collection[str]) -> ValueAndKey:
    return _field("value", asked.value, topics), _field("key", asked.key, topics)


def _formats_by_topic(
    asked: ResolveParameters, topics: Collection[str], with_records: Collection[str]
) -> dict[str, ValueAndKey]:
    """:raises InvalidRequest: a topic with records has no schema; or, where none has records, no topic has one."""
    if with_records:
        return {topic: _formats(asked, [topic]) for topic in with_records}
    found, refused = {}, None
    for topic in sorted(topics):
        try:
            found[topic] = _formats(asked, [topic])
        except InvalidRequest as error:  # a batch that reads nothing, such as a skipped one, does without
            refused = error
    if refused is not None and not found:
        raise refused
    return found


def _has_subject_of_topic(words: FieldWords | None) -> bool:
    return words is not None and bool(words.get("registry")) and not words.get("subjects")


def _field(name: str, words: FieldWords | None, topics: Collection[str]) -> FieldFormat | None:
    if words is not None and words.get("registry"):
        return _registered(name, words, topics)
    if words is None or not words.get("schema_file"):
        return format_of(name, words)
    what, file = f"{name} has a schema_file that", words["schema_file"]
    return format_of(name, words, parsed(what, lambda: text_on_worker(what, file)))


def _registered(name: str, words: FieldWords, topics: Collection[str]) -> FieldFormat:
    subjects = words.get("subjects") or [f"{topic}-{name}" for topic in sorted(topics)]
    if len(subjects) > 1 and not words.get("subjects"):
        raise InvalidRequest(
            (
                f"{name} is decoded with a registry, and the batch has the topics {', '.join(sorted(topics))}, whose "
                f'subjects may have different schemas. Give each topic a table: "lake.{{topic}}". Or name the subjects '
                f"of one table: \"subjects\": {subjects}; the first one's schema is the table's.",
            )
        )
    version = words.get("version")
    schemas = registered_schemas(words["registry"], subjects, None if version is None else int(version))
    found = f"subject {schemas.subject!r}, version {schemas.version}"
    if schemas.kind.lower() != words["format"]:
        raise InvalidRequest(
            (f"{name} has the format {words['format']!r}, and {found} is of the kind {schemas.kind}: change the one.",)
        )
    origin = Origin(schemas.subject, schemas.version)
    if words["format"] == "avro":
        return FieldFormat("avro", schemas.text, schemas.texts, origin)
    ddl = words.get("schema") or ddl_of(schemas.text, f"the JSON Schema of {found}")
    return FieldFormat("json", ddl, dict.fromkeys(schemas.texts, ""), origin)


def row_changes(now: RowDefinition, batch: StoredBatch, is_new: bool) -> tuple[list[str], list[str]]:
    """Sentences on what has changed, and warnings where rows are written anew with an older version.

    A new batch is compared with the batches before it, and one that is done again with its own rows. It is only a
    message: a definition that is not there is not spoken of, and nothing that fails here fails a run.

    :param is_new: whether no Spark job knows the batch yet.
    """
    from airflow_kafka_offsets.log.read_reports import definitions_written

    try:
        written = [] if is_new else definitions_written(batch)
        wanted = [digest for digest in written or batch.log.planned.history.definitions if digest != now.digest]
        found = [read_object(batch.store, object_name(digest), RowDefinition.from_dict) for digest in wanted]
    except KafkaOffsetsError:
        return [], []
    before = [definition for definition in found if definition is not None]
    changes = dict.fromkeys(line for one in before for line in schema_changes(one, now))
    older = sorted({older for one in before for older in older_versions(one, now)}) if written else []
    return list(changes), [
        f"{batch.log.plan.batch} has rows that were written with version {was} of subject {subject}, and this run "
        f"writes them anew with version {is_now}, which is older: what only version {was} has will be missing. If "
        "that is not meant, clear the run with the DAG's newer version (in Airflow: Run with latest bundle version)."
        for subject, was, is_now in older
    ]
