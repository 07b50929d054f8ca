"""The table of parameters: name, type, default, meaning, and where each may stand. There is no other list of them.

From it come the resolve task's signature, docstring and templates, the task group's types and docs/parameters.md
(``python -m tests.parameters.made`` writes them anew), the command line's options, the words of a run's conf and the
checks when a DAG is parsed. A new parameter is a row here, and whoever reads it.

Nothing is checked here: a template may not be rendered yet.
:func:`~airflow_kafka_offsets.request.parse_request.parse_request` makes a valid request of the values, or one error
with every problem.
"""

# ruff: noqa: RUF009  (a row is a field of a dataclass)
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from airflow_kafka_offsets.kafka_values import IsolationLevel
from airflow_kafka_offsets.request.modes import BOUNDED_MODES, STARTUP_MODES, SplitBy
from airflow_kafka_offsets.request.policies import ANSWERS, CommitMode, PolicyAnswers, ResetStrategy
from airflow_kafka_offsets.values.row_definition import Tombstones

if TYPE_CHECKING:
    from airflow_kafka_offsets.request.modes import BoundedModeName, Offsets, StartupModeName, Times
    from airflow_kafka_offsets.spark.sinks.sink_arguments import BadRecordWords, SinkWords
    from airflow_kafka_offsets.values.row_definition import FieldWords

T = TypeVar("T", bound="ScopeParameters")

# ── how a row is written ──────────────────────────────────────────────────────────────────────────────────────────────

ABOUT = "which topics, group and pipeline"
START = "where the batch starts"
END = "where the batch ends"
SIZE = "how much, and by how many Spark jobs"
ROWS = "how records become rows"
WRITTEN = "what is written, and where it is remembered"
CHANGED = "what to do if something has changed"
ORDERS = "orders for one run"

DAG, CONF, COMMAND = "DAG", "a run's conf", "command line"
MOST_DAGS = (
    *("kafka_config_id", "topics", "group_id", "startup_mode", "bounded_mode", "max_records", "splits", "sink"),
    *("output_name", "policies"),
)
"""Those that most DAGs do with: the page and the docstring have them first."""


@dataclass(frozen=True, slots=True)
class Row:
    """What the table says besides name, type and default.

    :ivar meaning: in Markdown. The parameter's default is said where it is no value of its own.
    :ivar shown: what stands for the value in ``--help``.
    :ivar words: all values that there are.
    :ivar places: where it may stand; in a DAG it may be a template.
    :ivar at_terminal: what ``--help`` says in place of ``meaning``.
    """

    heading: str
    meaning: str
    shown: str = ""
    words: tuple[str, ...] = ()
    places: tuple[str, ...] = (DAG, COMMAND)
    at_terminal: str = ""


def _row(default: object, *of_row: Any, **more: Any) -> Any:
    return field(default=default, metadata={"row": Row(*of_row, **more)})


def row_of(parameter: Field[Any]) -> Row:
    row: Row = parameter.metadata["row"]
    return row


def names_of(kind: type[ScopeParameters]) -> tuple[str, ...]:
    return tuple(parameter.name for parameter in fields(kind) if parameter.init)


def names_in(place: str, kind: type[ScopeParameters]) -> tuple[str, ...]:
    """The parameters that may stand there."""
    return tuple(parameter.name for parameter in fields(kind) if place in row_of(parameter).places)


def parameters_of(kind: type[T], task: object) -> T:
    """The parameters that ``task`` has as attributes of the same names."""
    return kind(**{name: getattr(task, name) for name in names_of(kind) if hasattr(task, name)})


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_EVERYWHERE = (DAG, CONF, COMMAND)
_TIME = (
    "epoch milliseconds, ISO 8601, a datetime, or back from now: `now-2h`, `-PT2H`; for each topic or partition: "
    '`{"orders": …, "payments": {"0": …, "*": …}, "*": …}`'
)


@dataclass
class ScopeParameters:
    """Which topics, group and pipeline; sensors and triggers have these too.

    A task is one of these itself, and Airflow renders its templates into it: so they are not frozen.
    """

    topics: Sequence[str] | str | None = _row(
        None, ABOUT, "topic names, as a list or with commas. Give `topics`, `topic_pattern` or `partitions`", "A,B"
    )
    topic_pattern: str | None = _row(None, ABOUT, "a regular expression, matched against the whole name", "REGEX")
    partitions: Mapping[str, Sequence[int]] | str | None = _row(
        None, ABOUT, 'these partitions and no others: `{"orders": [0, 2]}`', "JSON"
    )
    group_id: str | None = _row(
        None,
        ABOUT,
        "the consumer group; default: `group.id` of the Kafka connection",
        "GROUP",
        at_terminal="the consumer group; default: `group.id` of the client configuration",
    )
    isolation_level: IsolationLevel | str | None = _row(
        None,
        ABOUT,
        "default: the Kafka connection's, else `read_uncommitted`; Spark reads with the same",
        "LEVEL",
        get_args(IsolationLevel),
        _EVERYWHERE,
        "default: the client configuration's, else `read_uncommitted`",
    )
    pipeline_id: str | None = _row(
        None,
        ABOUT,
        "name of the saved position; default: `<group>/<dag>/<task>`. A mapped task needs one that goes with what it "
        "maps over",
        "PIPELINE",
        at_terminal="go on from this pipeline's position; without it the startup mode decides",
    )

    def to_dict(self) -> dict[str, Any]:
        """As keyword arguments; a trigger is stored as such."""
        return {name: getattr(self, name) for name in names_of(ScopeParameters)}


@dataclass
class RequestParameters(ScopeParameters):
    """What a run reads, from where to where, and what it does where there is a choice."""

    startup_mode: StartupModeName | str = _row(
        "group-offsets",
        START,
        "where the first batch starts; later ones start where the last one ended",
        "MODE",
        STARTUP_MODES,
    )
    startup_timestamp: Times | None = _row(
        None, START, f"{_TIME}. Default: the start of the run's data interval, or of its partition", "TIME"
    )
    specific_offsets: Offsets | None = _row(
        None,
        START,
        'the next record to read: `{"orders": {"0": 42, "1": "latest-1000"}, "payments": "earliest+10"}`, or '
        "`partition:0,offset:42;…` as in Flink; or `@` and the place of a file or of a Structured Streaming "
        "checkpoint or a Hudi table, such as `@s3://aws_default@lake/checkpoints/orders`",
        "OFFSETS",
        at_terminal='next record to read: {"orders": {"0": 42}}, Flink\'s partition:0,offset:42;… or @PLACE: a file '
        "with either or the CSV of kafka-consumer-groups --export, or a Structured Streaming checkpoint",
    )
    auto_offset_reset: ResetStrategy | str | None = _row(
        None,
        START,
        "what a partition without a commit means; also `by_duration:PT1H`, the last hour. Default: the Kafka "
        "connection's. Where nobody says, a first run that needs it is refused",
        "WORD",
        get_args(ResetStrategy),
        _EVERYWHERE,
        "what a partition without a commit means; also by_duration:PT1H; default: the client configuration's",
    )
    bounded_mode: BoundedModeName | str = _row("latest-offset", END, "where the batch ends", "MODE", BOUNDED_MODES)
    bounded_timestamp: Times | None = _row(
        None,
        END,
        "the first time not to read, written as `startup_timestamp`. Default: the end of the run's data interval, or "
        "of its partition",
        "TIME",
    )
    bounded_offsets: Offsets | None = _row(
        None, END, "of every partition the first record not to read; written as `specific_offsets`", "OFFSETS"
    )
    partition_width: str | timedelta | None = _row(
        None,
        END,
        "how long the partitions of a partitioned DAG are (`CronPartitionTimetable`): `PT1H`, or a `timedelta`; days "
        "are days in the timetable's zone",
        "WIDTH",
    )
    require_complete_window: bool | str = _row(
        False, END, "fail where records of the window may still arrive; `WindowCompleteSensor` waits by the same rule"
    )
    idle_timeout: timedelta | float | str | None = _row(
        None,
        END,
        "how long after the end a partition without newer records is waited for: seconds, a `timedelta` or `PT5M`, "
        "which is the default",
        "DURATION",
    )
    from_plan: Mapping[str, Any] | str | None = _row(
        None,
        START,
        "a plan as JSON, as `kafka-offsets plan --output json` writes it, or `@` and the path of a file with it: "
        "exactly its partitions, starts and ends, in place of modes, times and offsets",
        "@FILE",
        at_terminal="read exactly the partitions, starts and ends of a plan: @FILE with the JSON of plan --output json",
    )
    max_records: int | str | None = _row(
        None, SIZE, "limit of the run in offsets; partitions share it, and the rest is left for the next run", "N"
    )
    max_records_per_partition: int | str | None = _row(None, SIZE, "limit of each partition in offsets", "N")
    splits: int | str = _row(1, SIZE, "how many Spark jobs read the batch", "N")
    split_by: SplitBy | str = _row(
        "size",
        SIZE,
        "even sizes, for which a large partition is cut; or as Flink assigns partitions, which stay whole",
        "WORD",
        get_args(SplitBy),
    )
    output_name: str | None = _row(
        None,
        WRITTEN,
        "what the Spark job writes, a path or a table, so that no other pipeline is given it. A `sink` says it itself. "
        "`kafka_spark_batch` calls it `output`, which in an Airflow operator is its XCom",
        "NAME",
        at_terminal="what the Spark job writes, a path or a table",
    )
    commit_mode: CommitMode | str = _row(
        "on-success",
        WRITTEN,
        "whether the group follows the position, or is left alone (Flink's DISABLED)",
        "WORD",
        get_args(CommitMode),
        _EVERYWHERE,
    )
    policies: PolicyAnswers | Sequence[str] | str | None = _row(
        None,
        CHANGED,
        'what to do in a situation that is not the usual one: `{"data_loss": "advance"}`; else its default holds',
        "SITUATION=ANSWER",
        ANSWERS,
        _EVERYWHERE,
        "what to do in a situation that is not the usual one, such as data_loss=advance; may be given again",
    )
    hold: Sequence[str] | str | None = _row(
        None,
        CHANGED,
        'partitions that are not read for now: `["orders-3"]`. They keep their position, and a run without this word '
        "reads them from there",
        "A-0,B-3",
        (),
        _EVERYWHERE,
    )
    min_retention_margin: timedelta | float | str | None = _row(
        None,
        CHANGED,
        "how near retention may come to records that the run reads or leaves, before policy `retention_margin` is "
        "asked: seconds, a `timedelta` or `PT6H`. Default: nobody looks",
        "DURATION",
    )
    filter_restored_partitions: bool | str = _row(
        True,
        CHANGED,
        "leave out topics that are no longer subscribed to, as Flink does; the position holds their offsets in either "
        "case",
    )
    restart: str | None = _row(
        None,
        CHANGED,
        "a word, such as today's date, that applies the startup mode once more; the log records it, so that later runs "
        "do not. In a run's conf also `true`: for that run",
        "WORD",
        (),
        _EVERYWHERE,
    )
    re_plan: bool | str = _row(
        False, ORDERS, "plan the unfinished batch anew, or a window that is committed", places=(CONF, COMMAND)
    )
    redo: bool | str = _row(
        False, ORDERS, "do this run's batch again, although another run has committed it", places=(CONF, COMMAND)
    )
    skip: Any = _row(
        None,
        ORDERS,
        "leave out the unfinished batch, or what it has up to an offset: "
        '`{"batch": KEY, "past": "orders-3:4711", "reason": "…"}`; `only` instead of `past` leaves out that one alone; '
        "or its key",
        "KEY",
        (),
        (CONF, COMMAND),
    )


@dataclass
class ResolveParameters(RequestParameters):
    """All parameters of the resolve task."""

    kafka_config_id: str = _row("kafka_default", ABOUT, "a `kafka` connection of the Kafka provider", places=(DAG,))
    overlap_timeout: timedelta | float | str = _row(
        "PT2H", CHANGED, "how long another run that has the batch is waited for, deferred", places=(DAG,)
    )
    work_store: str | None = _row(
        None, WRITTEN, "URI of the work store; default: `[kafka_offsets] work_store`", places=(DAG,)
    )
    sink: SinkWords | None = _row(
        None,
        WRITTEN,
        'what the job of this package writes: `{"format": "parquet", "path": "/lake/orders"}`. It gives `output_name`, '
        "and arguments of the job",
        places=(DAG,),
    )
    value: FieldWords | None = _row(
        None,
        ROWS,
        'how a record\'s value is decoded: `{"format": "json", "schema": "id BIGINT, at TIMESTAMP"}`; `string`, `json` '
        "or `avro`, with `schema`, `schema_file` or `registry`. Without it the value stays as bytes",
        places=(DAG,),
    )
    key: FieldWords | None = _row(None, ROWS, "how a record's key is decoded; as `value`", places=(DAG,))
    tombstones: Tombstones | str = _row(
        "row",
        ROWS,
        "whether a record without a value becomes a row of nulls, or is left out",
        words=get_args(Tombstones),
        places=(DAG,),
    )
    select: Sequence[str] | None = _row(
        None,
        ROWS,
        'the columns, as Spark SQL: `["value.*", "CAST(value.at AS DATE) AS day"]`. `topic`, `partition` and `offset` '
        "come by themselves. Default: all columns of the value, and `key` if it is decoded",
        places=(DAG,),
    )
    where: str | None = _row(
        None, ROWS, "which records become rows, as Spark SQL; the others are left out, and counted", places=(DAG,)
    )
    expect: Mapping[str, str] | None = _row(
        None,
        ROWS,
        'what must not be false of a row: `{"amount is positive": "value.amount > 0"}`; a record that fails is bad',
        places=(DAG,),
    )
    bad_records: BadRecordWords | None = _row(
        None,
        ROWS,
        'where records go that do not decode or fail an expectation, as a sink, and how many there may be: `{"format": '
        '"parquet", "path": "/lake/bad_orders", "limit": "0.1%"}`. Without it one bad record fails the batch',
        places=(DAG,),
    )
    application_args: Sequence[str] = _row(
        (),
        WRITTEN,
        "the Spark job's own arguments, put before the batch's in each list. With `{starting_offsets}` and "
        "`{ending_offsets}` among them (and `{assign}`, `{batch_key}`, `{split}`) they are all that the job gets: it "
        "need not know what a batch is",
        places=(DAG,),
    )
