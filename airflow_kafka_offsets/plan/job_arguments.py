"""The arguments that tell a Spark job which split of which plan it reads; the operator makes them, the job parses them.

They are short whatever the plan's size (one argument may have 128 KiB), hold no secret (`ps` shows them) and no two
braces in a row: YARN's cluster mode deletes ``}}`` from arguments, and Airflow renders ``{{``. Arguments with other
names are the job's own and are left to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_kafka_offsets.errors import InvalidRequest

PLAN = "--plan"
PLAN_ID = "--plan-id"
SPLIT = "--split"
WORK_STORE = "--work-store"
BOOTSTRAP_SERVERS = "--bootstrap-servers"
KAFKA_CONFIG_ID = "--kafka-config-id"
ROWS = "--rows"

_PLAN_OBJECT = re.compile(r"pipelines/[^/]+/(batches/[0-9]{8}/[0-9]{10}|windows/[^/]+)/[1-9][0-9]{0,17}\.json")
_REQUIRED = (PLAN, PLAN_ID, SPLIT, WORK_STORE)
_OPTIONAL = (BOOTSTRAP_SERVERS, KAFKA_CONFIG_ID, ROWS)


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


def job_arguments(
    plan_object: str,
    plan_id: str,
    split: int,
    store_uri: str,
    bootstrap_servers: str | None = None,
    kafka_config_id: str | None = None,
    rows: str | None = None,
) -> list[str]:
    """``--plan <name> --plan-id <id> --split <k> --work-store <uri>``, and then, where they are given,
    ``--bootstrap-servers <host:port,…>``, ``--kafka-config-id <connection>`` and ``--rows <digest>``.

    :raises InvalidRequest: a value holds two braces in a row.
    """
    values = {PLAN: plan_object, PLAN_ID: plan_id, SPLIT: str(split), WORK_STORE: store_uri}
    optional = {BOOTSTRAP_SERVERS: bootstrap_servers, KAFKA_CONFIG_ID: kafka_config_id, ROWS: rows}
    values |= {name: value for name, value in optional.items() if value is not None}
    problems = [
        f"{name} {value!r} holds two braces in a row, which YARN and Airflow change on the way to the job: rename it."
        for name, value in values.items()
        if "{{" in value or "}}" in value
    ]
    if problems:
        raise InvalidRequest(problems)
    return [word for pair in values.items() for word in pair]


def parse_job_arguments(argv: Sequence[str]) -> JobArguments:
    """The plan's arguments among ``argv``, as ``--name value`` or ``--name=value``, in any order; others are ignored.

    :raises InvalidRequest: arguments are missing, given twice or not what they should be; every problem is named.
    """
    values, problems = _values(argv)
    missing = [name for name in _REQUIRED if name not in values]
    if missing:
        problems.append(
            f"The job has no {', '.join(missing)}. ResolveStartupOffsetsOperator gives one list of arguments for each "
            "split: hand them on with SparkSubmitOperator.partial(…).expand(application_args=resolve.output)."
        )
    split = values.get(SPLIT, "0")
    if not re.fullmatch("[0-9]{1,6}", split):
        problems.append(f"{SPLIT} is {split!r}; it is the number of a split: 0, 1, …")
    plan = values.get(PLAN)
    if plan and not _PLAN_OBJECT.fullmatch(plan):
        problems.append(f"{PLAN} is {plan!r}; it is the name of a plan in the work store: pipelines/…/1.json")
    rows = values.get(ROWS)
    if rows and not re.fullmatch("[0-9a-f]{32}", rows):
        problems.append(f"{ROWS} is {rows!r}; it is the digest that the resolve task gives.")
    if problems:
        raise InvalidRequest(problems)
    optional = (values.get(name) or None for name in _OPTIONAL)
    return JobArguments(values[PLAN], values[PLAN_ID], int(split), values[WORK_STORE], *optional)


def _values(argv: Sequence[str]) -> tuple[Mapping[str, str], list[str]]:
    # Not argparse: it would take a job's own "--" or "-h" for its own, and exit where a message is due.
    values: dict[str, str] = {}
    problems: list[str] = []
    words = iter(argv)
    for word in words:
        name, has_value, value = word.partition("=")
        if name not in (*_REQUIRED, *_OPTIONAL):
            continue
        if name in values:
            problems.append(f"{name} is given twice; a job reads one split of one plan.")
        values[name] = value if has_value else next(words, "")
        if not values[name]:
            problems.append(f"{name} has no value.")
    return values, problems
