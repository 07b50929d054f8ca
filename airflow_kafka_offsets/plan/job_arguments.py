"""The arguments that tell a Spark job which split of which plan it reads; the operator makes them, the job parses them.

They are short whatever the plan's size (one argument may have 128 KiB), hold no secret (`ps` shows them) and no two
braces in a row: YARN's cluster mode deletes ``}}`` from arguments, and Airflow renders ``{{``. Arguments with other
names are the job's own and are left to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from airflow_kafka_offsets.errors import InvalidRequest, refuse
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.plan.plan_json import spark_options

ROWS = "--rows"
_PLAN_OBJECT = r"pipelines/[^/]+/(batches/[0-9]{8}/[0-9]{10}|windows/[^/]+)/[1-9][0-9]{0,17}\.json"
_OPTIONS = {
    "plan_object": "--plan",
    "plan_id": "--plan-id",
    "split": "--split",
    "store_uri": "--work-store",
    "bootstrap_servers": "--bootstrap-servers",
    "kafka_config_id": "--kafka-config-id",
    "rows": ROWS,
}
_FORMS = {
    "--split": ("[0-9]{1,6}", "it is the number of a split: 0, 1, …"),
    "--plan": (_PLAN_OBJECT, "it is the name of a plan in the work store: pipelines/…/1.json"),
    ROWS: ("[0-9a-f]{32}", "it is the digest that the resolve task gives."),
}


@dataclass(frozen=True, slots=True)
class JobArguments:
    """Which split of which plan, and where the plan is.

    :ivar plan_object: the name of the object in the work store that holds the plan.
    :ivar bootstrap_servers: of the cluster that the plan was made on; absent where the job gets it by other means.
    :ivar kafka_config_id: the name of the Airflow connection that the plan was made with. The task that submits reads
        it; the job, which may run where there is no Airflow, does not.
    :ivar rows: the digest of the row definition, which is in the work store; absent where the records stay as they are.
    """

    plan_object: str
    plan_id: str
    split: int
    store_uri: str
    bootstrap_servers: str | None = None
    kafka_config_id: str | None = None
    rows: str | None = None

    def words(self) -> list[str]:
        """``--plan <name> --plan-id <id> --split <k> --work-store <uri>``, and the others where they are given.

        :raises InvalidRequest: a value holds two braces in a row.
        """
        given = {option: getattr(self, name) for name, option in _OPTIONS.items() if getattr(self, name) is not None}
        values = {option: str(value) for option, value in given.items()}
        refuse(
            [
                f"{option} {value!r} holds two braces in a row, which YARN and Airflow change on the way to the job: "
                "rename it."
                for option, value in values.items()
                if "{{" in value or "}}" in value
            ]
        )
        return [word for pair in values.items() for word in pair]


def parse_job_arguments(argv: Sequence[str]) -> JobArguments:
    """The plan's arguments among ``argv``, as ``--name value`` or ``--name=value``, in any order; others are ignored.

    :raises InvalidRequest: arguments are missing, given twice or not what they should be; every problem is named.
    """
    values, problems = _values(argv)
    missing = [_OPTIONS[one.name] for one in fields(JobArguments) if one.default is MISSING]
    missing = [option for option in missing if option not in values]
    if missing:
        problems.append(
            f"The job has no {', '.join(missing)}. ResolveStartupOffsetsOperator gives one list of arguments for each "
            "split: hand them on with SparkSubmitOperator.partial(…).expand(application_args=resolve.output)."
        )
    problems += [
        f"{option} is {values[option]!r}; {what}"
        for option, (form, what) in _FORMS.items()
        if values.get(option) and not re.fullmatch(form, values[option])
    ]
    refuse(problems)
    found: dict[str, Any] = {name: values.get(option) or None for name, option in _OPTIONS.items()}
    return JobArguments(**{**found, "split": int(values["--split"])})


def _values(argv: Sequence[str]) -> tuple[Mapping[str, str], list[str]]:
    # Not argparse: it would take a job's own "--" or "-h" for its own, and exit where a message is due.
    values: dict[str, str] = {}
    problems: list[str] = []
    words = iter(argv)
    for word in words:
        name, has_value, value = word.partition("=")
        if name not in _OPTIONS.values():
            continue
        if name in values:
            problems.append(f"{name} is given twice; a job reads one split of one plan.")
        values[name] = value if has_value else next(words, "")
        if not values[name]:
            problems.append(f"{name} has no value.")
    return values, problems


# ── what reaches a job unchanged, however it is submitted: docs/submitting.md ─────────────────────────────────────────
# A list of words, because each service takes one (``application_args``, ``args``, ``parameters``, …), in which
# nothing means anything to what lies between: no template of Airflow, YARN or Databricks, no variable of Kubernetes.
# They are short: the smallest limit is Databricks' (10,000 bytes), then that of an EMR step (10,280 characters).


MOST_BYTES = 10_000
"""Of all words of a job, as JSON."""

_NOT_AS_IT_IS = {
    # ContainerLaunch.expandEnvironment of Hadoop's node manager; Airflow's own templates; Databricks' dynamic values
    "{{": "Airflow, YARN and Databricks would change",
    "}}": "Airflow, YARN and Databricks would change",
    # expansion.Expand of Kubernetes' kubelet, for a container's args
    "$(": "Kubernetes would change",
    "$$": "Kubernetes would change",
    "\0": "no operating system lets through",
}


def batch_arguments(of_split: Sequence[str], own: Sequence[str] = ()) -> list[str]:
    """The words of one Spark job: its own ones, then those of its split of the batch.

    :param of_split: an entry of the resolve task's output, which names one split of one plan.
    :param own: words for the job itself; ``application_args`` of the resolve task puts them there already.
    :raises InvalidRequest: ``of_split`` is no batch's, or what the job is given would not be what is said here: a word
        is no text, or one that a service on the way changes, or they are too long together. All problems are named.
    """
    words = [*own, *of_split]
    problems = word_problems(words)
    try:
        parse_job_arguments([str(word) for word in words])
    except InvalidRequest as refused:
        problems += refused.problems
    refuse(problems)
    return words


def word_problems(words: Sequence[object]) -> list[str]:
    """Why these would not reach a job as they are; each a sentence."""
    problems = [
        f"The Spark job's argument {word!r} is of type {type(word).__name__}; arguments are text."
        for word in words
        if not isinstance(word, str)
    ]
    problems += [
        f"The Spark job's argument {word!r} has {part!r}, which {fate} on the way to the job. "
        "Write it in another way; JSON may have blanks between its braces."
        for word in words
        for part, fate in _NOT_AS_IT_IS.items()
        if part in str(word)
    ]
    size = len(json.dumps([str(word) for word in words], ensure_ascii=False).encode())
    if size > MOST_BYTES:
        problems.append(
            f"The Spark job's arguments have {size:,} bytes as JSON, and {MOST_BYTES:,} reach a job however it is "
            "submitted: put the long ones into a file that the job reads, and give its name."
        )
    return problems


# ── placeholders, for a job that takes its offsets from its arguments and knows of no batch ───────────────────────────
# ``["--starting-offsets", "{starting_offsets}", …]``: the batch's values are put in their place, for each split that
# has records. One that has none, and may hold rows of an earlier plan, is given a range without a record: so it writes
# nothing in their place. The batch's own arguments are left out then: such a job would refuse words that it does not
# know. It makes no report, so nothing here shows that it read what it was given.


_OF_SPARK = {
    "{assign}": "assign",
    "{starting_offsets}": "startingOffsets",
    "{ending_offsets}": "endingOffsets",
}


def has_placeholders(words: Sequence[object]) -> bool:
    """Whether a job is to be given offsets in the place of the batch."""
    return any(_has(words, name) for name in _OF_SPARK)


def placeholder_problems(words: Sequence[object], splits: int | str = 1) -> list[str]:
    """Why a job could read other records than the batch's, or overwrite another job's; each a sentence."""
    if not has_placeholders(words):
        return []
    lacks = [name for name in ("{starting_offsets}", "{ending_offsets}", "{split}") if not _has(words, name)]
    missing, problems = [name for name in lacks if name != "{split}"], []
    if missing:
        problems.append(
            f"application_args has no {' and no '.join(missing)}: a job that is given one bound alone reads other "
            "records than the batch. Give it both."
        )
    if "{split}" in lacks and str(splits).isdecimal() and int(splits) > 1:
        problems.append(
            f"splits is {splits}, and application_args has no {{split}}: each of the Spark jobs could overwrite what "
            "another one has written. Put {split} into the output's path, or leave out splits."
        )
    return problems


def _has(words: Sequence[object], name: str) -> bool:
    return any(name in str(word) for word in words)


def offset_words(words: Sequence[str], plan: Plan, splits: Sequence[int]) -> list[list[str]]:
    """The words of each job, for the splits that have records, or may hold rows of an earlier plan.

    :param words: the job's own, with ``{assign}``, ``{starting_offsets}``, ``{ending_offsets}``, ``{batch_key}`` and
        ``{split}``.
    :raises InvalidRequest: they are too long to reach a job; or several jobs have one place, where each could overwrite
        what another one has written.
    """
    jobs = [_of_split(words, plan, split) for split in splits if plan.splits[split] or split in plan.overwrites]
    if len(jobs) > 1 and not plan.empty and not _has(words, "{split}"):
        raise InvalidRequest(
            [
                f"{len(jobs)} Spark jobs do {plan.batch}, and each could overwrite what another one has written. Skip "
                "the whole batch, or what it has up to a record (past). Or put {split} into the output's path in "
                f"application_args; then first remove what is in the output of {plan.batch.key}, which no job would "
                "replace there any more."
            ]
        )
    return jobs


def _of_split(words: Sequence[str], plan: Plan, split: int) -> list[str]:
    first = next(iter(plan.to_read() or plan.partitions))
    options = spark_options(plan.splits[split] or [first.within(first.end_offset, first.end_offset)])
    values = {name: options[option] for name, option in _OF_SPARK.items()}
    values |= {"{batch_key}": plan.batch.key, "{split}": str(split)}
    filled = list(words)
    for name, value in values.items():
        filled = [word.replace(name, value) for word in filled]
    if problems := word_problems(filled):
        raise InvalidRequest([*problems, f"Split {split} has {len(plan.splits[split])} partitions: give more splits."])
    return filled
