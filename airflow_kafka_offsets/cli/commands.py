"""The commands, once for both command lines: what each is for, an example, and its options.

Light: ``airflow`` reads this on each of its calls. A command's module is imported when the command is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from airflow_kafka_offsets.cli.options import (
    ABOUT,
    CLUSTER,
    DECODE,
    FLAG,
    NUMBER,
    OF_FIELD,
    SUBSCRIPTION,
    TARGET,
    WHICH_BATCH,
    WHICH_BATCHES,
    WHICH_RECORDS,
    Option,
)

PROGRAM = "kafka-offsets"

Options = Mapping[str, Any]
"""What was given, by the options' names. Under ``airflow`` there is ``instance`` too: what names that Airflow. From a
pipeline's page there are ``person`` as well, the name by which Airflow knows them, and ``log``: the pipeline's.
"""


@dataclass(frozen=True)
class Command:
    """One command.

    :ivar module: below ``cli/``; it has a function of the command's name.
    :ivar help: what it does, in a line.
    :ivar example: a line to copy, without the name of the command line itself; ``more_help`` stands below it.
    """

    name: str
    module: str
    help: str
    example: str
    options: tuple[Option, ...]
    more_help: str = ""

    @property
    def function(self) -> Any:
        """What it is carried out by: it takes what was given, and returns an answer."""
        return getattr(import_module(f"airflow_kafka_offsets.cli.{self.module}"), self.name.replace("-", "_"))


_CLUSTER = (
    Option("bootstrap_servers", "the cluster, as host:port[,host:port]", {"metavar": "SERVERS"}, CLUSTER),
    Option("client_config", "a file of librdkafka settings, JSON or key=value lines", {"metavar": "FILE"}, CLUSTER),
    Option("kafka_config_id", "an Airflow connection of type kafka (needs Airflow)", {"metavar": "ID"}, CLUSTER),
)
_SUBSCRIPTION = tuple(OF_FIELD[name] for name in SUBSCRIPTION)
_ISOLATION = OF_FIELD["isolation_level"]
_OUTPUT = Option("output", "table (default), json or csv", {"choices": ("table", "json", "csv")})
_PLAN_OUTPUT = Option(
    "output",
    "table (default), json (the plan), csv; or the start offsets for kafka-consumer-groups --from-file "
    "(offsets-csv) or Flink's SQL (offsets-flink); ends-csv and ends-flink have the end offsets",
    {"choices": ("table", "json", "csv", "offsets-csv", "offsets-flink", "ends-csv", "ends-flink")},
)
_STORE = Option(
    "work_store",
    "the work store's URI or folder; default: [kafka_offsets] work_store of Airflow",
    {"metavar": "URI"},
)
_PIPELINE = replace(OF_FIELD["pipeline_id"], help="the pipeline; kafka-offsets pipelines lists them")
_BATCH_OF_RUN = (
    replace(_PIPELINE, help="the pipeline; default: group_id/dag_id/task_id"),
    Option("batch", "the batch: its number, its key, or a window's name", {"metavar": "KEY"}, WHICH_BATCH),
    Option("dag_id", "instead of --batch: the run that did it, with --run-id and --task-id", group=WHICH_BATCH),
    Option("run_id", "the run", group=WHICH_BATCH),
    Option("task_id", "the resolve task, with its task group: orders.resolve", group=WHICH_BATCH),
    Option("map_index", "of a mapped resolve task", NUMBER, WHICH_BATCH),
    replace(OF_FIELD["group_id"], help="the pipeline's group, instead of --pipeline-id"),
    _STORE,
)
_EXECUTE = Option("execute", "do it; without this, what would be done is shown and nothing is written", FLAG)
_REASON = Option("reason", "why; the plan and kafka-offsets show say it", {"metavar": "TEXT"})
TARGETS = (
    Option("to_earliest", "the oldest record that Kafka still has", FLAG, TARGET),
    Option("to_latest", "the end: what is there now is left out", FLAG, TARGET),
    Option("to_current", "where it is; a position whose records are gone is brought to the oldest one", FLAG, TARGET),
    Option(
        "to_datetime",
        "the first record at or after this time, else the end: ISO 8601 (UTC unless it says otherwise) or epoch ms",
        {"metavar": "TIME"},
        TARGET,
    ),
    Option("by_duration", "the same, so long ago: PT2H, P1D or 1d", {"metavar": "DURATION"}, TARGET),
    Option("shift_by", "so many offsets forward, or back with a minus: --shift-by -100", NUMBER, TARGET),
    Option("to_offset", "this offset, in every partition", NUMBER, TARGET),
    Option(
        "from_file",
        "offsets from a file: topic,partition,offset a line, as kafka-consumer-groups --export writes, or JSON; or "
        "the checkpoint of a Structured Streaming query. On this machine, or in a store: s3://…",
        {"metavar": "PLACE"},
        TARGET,
    ),
    Option("to_group", "the offsets of another consumer group", {"metavar": "GROUP"}, TARGET),
    Option(
        "to_batch",
        "where the pipeline stood after this batch, by its number or key: what a savepoint is to Flink",
        {"metavar": "KEY"},
        TARGET,
    ),
)

COMMANDS = (
    Command(
        "plan",
        "cluster_commands",
        "What the next run would read, and why; nothing is written",
        "plan --bootstrap-servers localhost:9092 --topics orders --startup-mode earliest-offset",
        (*_CLUSTER, *OF_FIELD.values(), _STORE, _PLAN_OUTPUT),
    ),
    Command(
        "partitions",
        "cluster_commands",
        "Each partition of topics: its leader and both ends of its log",
        "partitions --bootstrap-servers localhost:9092 --topics orders,payments",
        (*_CLUSTER, *_SUBSCRIPTION, _ISOLATION, _OUTPUT),
    ),
    Command(
        "lag",
        "cluster_commands",
        "How far a group is in each partition, who wrote its offsets, how old the first unread record is, and when "
        "retention takes it; without topics, in all of its own",
        "lag --kafka-config-id kafka_default --group-id orders-to-lake",
        (
            *_CLUSTER,
            OF_FIELD["group_id"],
            *_SUBSCRIPTION,
            _ISOLATION,
            replace(
                _PIPELINE, help="count from this pipeline's position, and not from the group's commits", group=ABOUT
            ),
            _STORE,
            _OUTPUT,
        ),
    ),
    Command(
        "record",
        "record_commands",
        "One record as Kafka has it, and what is made of it where you say how its value is decoded",
        "record orders-3:4711 --bootstrap-servers localhost:9092 --value-format json --value-schema 'id BIGINT'",
        (
            *_CLUSTER,
            Option(
                "record",
                "topic, partition and offset: orders-3:4711",
                {"metavar": "T-P:OFFSET"},
                WHICH_RECORDS,
                positional=True,
            ),
            Option(
                "value_format",
                "decode the value in a local Spark (needs PySpark and Java)",
                {"choices": ("json", "avro", "string")},
                DECODE,
            ),
            Option("value_schema", "Spark's DDL for JSON, or Avro's JSON text", {"metavar": "SCHEMA"}, DECODE),
            Option("value_schema_file", "a file with it", {"metavar": "FILE"}, DECODE),
            Option(
                "rows",
                "instead: as a pipeline does, by its row definition in the work store. The digest is the one that "
                "follows --rows in the Spark task's log; kafka-offsets show prints it, too",
                {"metavar": "DIGEST"},
                DECODE,
            ),
            replace(_STORE, group=DECODE),
            _OUTPUT,
        ),
    ),
    Command(
        "sample",
        "record_commands",
        "A Spark DDL to start from, by the JSON of a topic's newest records; messages say what is a guess",
        "sample --bootstrap-servers localhost:9092 --topic orders --records 100",
        (
            *_CLUSTER,
            Option("topic", "the topic", {"metavar": "TOPIC"}, WHICH_RECORDS),
            Option("records", "how many of the newest of each partition; default: 100", NUMBER, WHICH_RECORDS),
            _OUTPUT,
        ),
    ),
    Command(
        "pipelines",
        "store_commands",
        "Every pipeline of a work store: its position, its last run, and which batches are not committed",
        "pipelines --work-store s3://aws_default@lake/offsets",
        (_STORE, _OUTPUT),
    ),
    Command(
        "show",
        "store_commands",
        "A batch and its log in words: the newest batch, one that you name, or the last few",
        "show --pipeline-id orders-to-lake/orders_to_lake/orders.resolve --history 5",
        (
            _PIPELINE,
            Option(
                "batch",
                "its number, its key, or a window's name; default: the newest",
                {"metavar": "KEY"},
                WHICH_BATCH,
            ),
            Option("history", "the last N in a line each", NUMBER, WHICH_BATCH),
            Option("windows", "the pipeline's windows in a line each, instead of its batches", FLAG, WHICH_BATCH),
            _STORE,
            _OUTPUT,
        ),
    ),
    Command(
        "verify",
        "batch_commands",
        "Whether a batch was read, by its read reports; nothing is written",
        "verify --pipeline-id orders-to-lake/orders_to_lake/orders.resolve --batch 7",
        (*_BATCH_OF_RUN, _OUTPUT),
    ),
    Command(
        "audit",
        "audit_command",
        "Each batch of a log against the one before it and against its reads, with totals by day; nothing is written",
        "audit --pipeline-id orders-to-lake/orders_to_lake/orders.resolve --from 2026-11-20 --to 2026-11-21",
        (
            _PIPELINE,
            Option(
                "from",
                "only batches that were committed at or after this time: ISO 8601 (UTC unless it says otherwise), "
                "epoch ms, or now-1d; or with or after this batch, by its number or key",
                {"metavar": "KEY|TIME"},
                WHICH_BATCHES,
            ),
            Option(
                "to",
                "only batches that were committed before this time; or before or with this batch",
                {"metavar": "KEY|TIME"},
                WHICH_BATCHES,
            ),
            Option(
                "sink",
                "read the output, too, in a local Spark (needs PySpark and Java), and compare it with the log: the "
                "words of the DAG's sink, as JSON",
                {"metavar": "WORDS"},
            ),
            _STORE,
            _OUTPUT,
        ),
    ),
    Command(
        "runs",
        "store_commands",
        "The last runs of a pipeline, also those that failed or had nothing to do, with what each did",
        "runs --pipeline-id orders-to-lake/orders_to_lake/orders.resolve --last 5",
        (_PIPELINE, Option("last", "how many; default: 20", NUMBER), _STORE, _OUTPUT),
    ),
    Command(
        "commit",
        "batch_commands",
        "Commit a batch as its commit task does; a dry run unless --execute",
        "commit --kafka-config-id kafka_default --pipeline-id orders-to-lake/orders_to_lake/orders.resolve --batch 7",
        (
            *_CLUSTER,
            *_BATCH_OF_RUN,
            Option(
                "no_require_report",
                "for jobs that make no read report: the commit then trusts that they succeeded",
                FLAG,
            ),
            _EXECUTE,
            _OUTPUT,
        ),
    ),
    Command(
        "skip",
        "batch_commands",
        "Leave out records that cannot be processed: of the unfinished batch, or a window; a dry run unless --execute",
        "skip --pipeline-id orders-to-lake/orders_to_lake/orders.resolve "
        '--batch 0000000007-20261122T022057-k3f9 --past orders-3:4711 --reason "cannot be parsed"',
        (
            _PIPELINE,
            Option("batch", "the key of the unfinished batch", {"metavar": "KEY"}, WHICH_BATCH),
            Option("window", "the name or the key of a window, instead of --batch", {"metavar": "NAME"}, WHICH_BATCH),
            Option(
                "past", "only up to this offset, inclusive: orders-3:4711,…; default: all", {"metavar": "T-P:OFFSET"}
            ),
            Option(
                "only",
                "this record alone, or these: orders-3:4711 or orders-3:4711-4720; may be repeated",
                {"metavar": "T-P:OFFSET", "action": "append"},
            ),
            _REASON,
            _STORE,
            _EXECUTE,
            _OUTPUT,
        ),
    ),
    Command(
        "redo",
        "batch_commands",
        "How to write a committed batch again, into the same place; a dry run unless --execute",
        "redo --kafka-config-id kafka_default --pipeline-id orders-to-lake/orders_to_lake/orders.resolve --batch 7",
        (*_CLUSTER, *_BATCH_OF_RUN, _EXECUTE, _OUTPUT),
    ),
    Command(
        "take-over",
        "batch_commands",
        "Let this Airflow go on with a pipeline of another one; a dry run unless --execute",
        "take-over --kafka-config-id kafka_default --pipeline-id orders-to-lake/orders_to_lake/orders.resolve "
        "--instance https://airflow.example.com",
        (
            *_CLUSTER,
            _PIPELINE,
            Option(
                "instance",
                "what names the Airflow: its [kafka_offsets] instance, else its base URL; under airflow: this one",
                {"metavar": "NAME"},
            ),
            _STORE,
            _EXECUTE,
            _OUTPUT,
        ),
    ),
    Command(
        "reset",
        "reset_command",
        "Set a pipeline's position, as a batch of its log, and its group with it; a dry run unless --execute",
        "reset --kafka-config-id kafka_default --pipeline-id orders-to-lake/orders_to_lake/orders.resolve "
        '--to-datetime 2026-11-20T00:00Z --reason "start over after the migration"',
        (
            *_CLUSTER,
            _PIPELINE,
            *TARGETS,
            replace(OF_FIELD["topics"], help="only these topics, separated by commas; default: all of the position"),
            replace(OF_FIELD["partitions"], help='only these partitions, such as {"orders": [0, 2]}'),
            _REASON,
            Option(
                "allow_duplicates",
                "with --execute, for a position that goes back: those records are read and written again",
                FLAG,
            ),
            _STORE,
            _EXECUTE,
            _OUTPUT,
        ),
    ),
    Command(
        "write-checkpoint",
        "reset_command",
        "A Structured Streaming checkpoint that goes on where a pipeline is; a dry run unless --execute",
        "write-checkpoint --kafka-config-id kafka_default --pipeline-id orders-to-lake/orders_to_lake/orders.resolve "
        "--checkpoint s3://lake/checkpoints/orders",
        (
            *_CLUSTER,
            _PIPELINE,
            Option(
                "checkpoint",
                "the query's checkpointLocation: a folder that is empty or not there yet, wherever a work store may be",
                {"metavar": "URI"},
            ),
            replace(OF_FIELD["topics"], help="only these topics, separated by commas; default: all of the position"),
            _STORE,
            _EXECUTE,
            _OUTPUT,
        ),
    ),
    Command(
        "clean",
        "store_commands",
        "Remove old batches and windows from the work store; a dry run unless --execute",
        "clean --keep 90d",
        (
            _STORE,
            Option(
                "keep",
                "90d, or ISO 8601 such as P90D; default: [kafka_offsets] retention_days",
                {"metavar": "DURATION"},
            ),
            _EXECUTE,
            _OUTPUT,
        ),
    ),
    Command(
        "release-output",
        "store_commands",
        "Let another pipeline write to an output; a dry run unless --execute",
        "release-output --output-name /lake/orders",
        (replace(OF_FIELD["output_name"], help="the output, as the pipeline names it"), _STORE, _EXECUTE, _OUTPUT),
    ),
    Command(
        "explain",
        "help_commands",
        "The page of an error: what it means, how to look, each way out; without a code, a line for each error",
        "explain AKO-101",
        (Option("code", "AKO-101, or TopicRecreated", {"nargs": "?"}, positional=True), _OUTPUT),
    ),
)

COMPLETION = Command(
    "completion",
    "help_commands",
    "Print the completion script for your shell",
    "completion bash",
    (Option("shell", "which shell", {"choices": ("bash", "zsh", "fish")}, positional=True),),
    f"""

for ~/.bashrc:
  eval "$({PROGRAM} completion bash)"
for ~/.zshrc, after compinit:
  eval "$({PROGRAM} completion zsh)"
for ~/.config/fish/config.fish:
  {PROGRAM} completion fish | source""",
)
"""Of the console script alone: Airflow's own completion knows Airflow's commands."""
