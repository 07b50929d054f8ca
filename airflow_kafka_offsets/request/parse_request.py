"""What people write → a valid :class:`PlanRequest`, or every problem at once.

Text, templates, command lines and connections give strings and JSON. All of it is read before any cluster is asked, and
one :class:`~airflow_kafka_offsets.errors.InvalidRequest` carries every problem, each with its remedy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

from airflow_kafka_offsets.errors import CONNECTION, InvalidRequest, named, names, refuse
from airflow_kafka_offsets.request.bounds import BoundsReader, Partition, refuse_end_before_start
from airflow_kafka_offsets.request.given_plan import LogOfPlan, take_plan
from airflow_kafka_offsets.request.modes import (
    AtTimestamp,
    BoundedMode,
    SpecificOffsets,
    SplitBy,
    StartupMode,
)
from airflow_kafka_offsets.request.offset_maps import at_least_one, parse_offset_bounds
from airflow_kafka_offsets.request.parameters import RequestParameters, ScopeParameters
from airflow_kafka_offsets.request.policies import Policies, RunOrders, take_policies, take_run_orders
from airflow_kafka_offsets.request.problems import Problems, one_of, parse_flag, plain_text
from airflow_kafka_offsets.request.subscription import Scope, TopicList, by_connection, take_scope, with_connection
from airflow_kafka_offsets.request.times import (
    DEFAULT_CLOCK_SKEW_MS,
    DEFAULT_IDLE_TIMEOUT_MS,
    Width,
    parse_span_ms,
    parse_wait_ms,
    parse_width,
)

OutputOrigin = Literal["fixed", "templated output", "templated sink"]
MOST_SPLITS = 10_000
# Somebody asks for this one run: a person, another DAG, an asset's page. In older Airflows all of these are ``manual``.
_ASKED_FOR = frozenset({"manual", "operator_triggered", "asset_materialization"})


@dataclass(frozen=True, slots=True)
class RunContext:
    """The time and the run that a request is made for. It comes from the Airflow run, if there is one.

    :ivar now_ms: the clock, for "a start timestamp cannot be in the future" (B2); relative times count back from it.
    :ivar interval: the run's data interval in epoch milliseconds, ``[start, end)``; fills in missing timestamps.
    :ivar partition: what a partitioned run is for; fills them in where there is no interval that has a length.
    :ivar run_type: Airflow's: ``manual``, ``scheduled``, ``backfill``, ``asset_triggered``, ``operator_triggered`` …
    """

    now_ms: int
    interval: tuple[int, int] | None = None
    partition: Partition | None = None
    run_type: str = "manual"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one run reads, and by how many Spark jobs.

    :ivar require_complete: refuse an end by time before which records may still arrive.
    :ivar min_retention_margin_ms: how near retention may come to unread records; ``None``: nobody looks.
    """

    max_records: int | None = None
    max_records_per_partition: int | None = None
    splits: int = 1
    split_by: SplitBy = "size"
    require_complete: bool = False
    idle_timeout_ms: int = DEFAULT_IDLE_TIMEOUT_MS
    min_retention_margin_ms: int | None = None


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A valid request.

    :ivar output: what the Spark job writes; ``None`` where nobody says.
    :ivar reset_by_client: whether the client's configuration, and no parameter, says what a group without a commit
        means: a default that may skip records, which the plan's reasons then say.
    :ivar output_origin: whether a template gives each run another output, and who is then held to the batch's one: a
        sink of this package takes it from the plan.
    :ivar set_aside_output: where bad records are set aside. It belongs to the run, not to the batch.
    :ivar jobs_tell: whether the Spark jobs put on record that they have begun; one that is given offsets does not.
    :ivar of_plan: of which log the bounds are, where a plan gave them.
    :ivar nameless: whether another Airflow may reach the work store, and nothing tells this one from it.
    :ivar restart_of_dag: the word of ``restart`` that stands in the DAG, so that each run has it.
    """

    scope: Scope
    startup: StartupMode
    bounded: BoundedMode
    policies: Policies
    run_orders: RunOrders
    limits: Limits
    output: str | None
    run_context: RunContext
    warnings: tuple[str, ...] = ()
    reset_by_client: bool = False
    output_origin: OutputOrigin = "fixed"
    set_aside_output: str | None = None
    jobs_tell: bool = True
    of_plan: LogOfPlan | None = None
    restart_of_dag: str | None = None
    nameless: bool = False

    @property
    def window(self) -> bool:
        """Whether the request alone gives both bounds, so that no position is read or moved (docs/position.md)."""
        match self.startup, self.bounded:
            case AtTimestamp(), AtTimestamp():
                return True
            case SpecificOffsets() as start, SpecificOffsets() as end:
                # On a schedule they would be read again and again; without numbers each run would be another window.
                numbers = start.numbers is not None and end.numbers is not None
                return self.run_context.run_type in _ASKED_FOR and numbers
            case _:
                return False

    @property
    def window_bounds(self) -> tuple[int, int] | None:
        """``[start, end)`` in epoch milliseconds of a window by time; of all topics together."""
        match self.startup, self.bounded:
            case AtTimestamp(start_ms), AtTimestamp(end_ms):
                return start_ms, end_ms
            case _:
                return None

    @property
    def window_bounds_by_topic(self) -> dict[str, tuple[int, int]] | None:
        """The same of each topic, where they differ by the request."""
        match self.startup, self.bounded:
            case AtTimestamp() as start, AtTimestamp() as end if start.by_topic or end.by_topic:
                return {topic: (start.of(topic), end.of(topic)) for topic in sorted({*start.by_topic, *end.by_topic})}
            case _:
                return None

    @property
    def group_follows(self) -> bool:
        """Whether the group follows the pipeline's position."""
        return self.policies.commit_mode == "on-success" and not self.window and self.scope.group_id is not None

    @property
    def reads_commits(self) -> bool:
        """Whether an offset of this plan can come from the group."""
        return isinstance(self.startup, SpecificOffsets) or "group-offsets" in (self.startup, self.bounded)


def request_for(client_config: Mapping[str, Any], asked: RequestParameters, run_context: RunContext) -> PlanRequest:
    """The request, where the connection's settings say what the parameters leave out.

    :raises InvalidRequest: with every problem.
    """
    with names(by_connection(asked)):
        request = parse_request(with_connection(client_config, asked), run_context)
    return replace(request, reset_by_client=asked.auto_offset_reset is None)


def parse_request(asked: RequestParameters, run_context: RunContext) -> PlanRequest:
    """The request that these parameters make in this run.

    :raises InvalidRequest: with every problem found, not just the first.
    """
    problems = Problems()
    warnings: list[str] = []
    asked, of_plan = take_plan(problems, asked)
    scope = take_scope(problems, asked)
    bounds = bounds_reader(problems, warnings, scope, run_context, asked.partition_width, asked.group_id)
    startup = bounds.startup(asked.startup_mode, asked.startup_timestamp, asked.specific_offsets)
    bounded = bounds.bounded(asked.bounded_mode, asked.bounded_timestamp, asked.bounded_offsets)
    refuse_end_before_start(problems, startup, bounded)
    policies, run_orders, limits = (
        take_policies(problems, asked),
        take_run_orders(problems, asked),
        _limits(problems, asked),
    )
    output = problems.take("output_name", lambda: _output(asked.output_name), None)
    request = PlanRequest(
        scope or Scope(TopicList(())),
        startup or "earliest-offset",  # stands in for one that is refused anyway: it needs nothing else
        bounded or "latest-offset",
        policies,
        run_orders,
        limits,
        output,
        run_context,
        tuple(warnings),
        of_plan=of_plan,
    )
    if limits.require_complete and bounded and not isinstance(bounded, AtTimestamp):
        complete, mode = named("require_complete_window"), named("bounded_mode")
        problems.add(
            f"{complete} needs {mode}='timestamp': only a time can be incomplete.",
            *("require_complete_window", "bounded_mode"),
        )
    if scope and startup and bounded:
        _refuse_together(problems, request, has_group=asked.group_id is not None, with_others=bounds.with_others)
    refuse(problems)
    return request


def bounds_reader(
    problems: Problems,
    warnings: list[str],
    scope: Scope | None,
    run_context: RunContext,
    partition_width: Any,
    group_id: str | None = None,
) -> BoundsReader:
    stand_in = Width(0, 1)  # for one that is refused anyway
    return BoundsReader(
        problems,
        warnings,
        scope.subscription if scope else None,
        partial(parse_offset_bounds, topics=scope.subscription.named if scope else (), group_id=group_id),
        run_context.interval,
        run_context.partition,
        None
        if partition_width is None
        else problems.take("partition_width", lambda: parse_width(partition_width), stand_in),
        run_context.now_ms,
    )


@dataclass(frozen=True, slots=True)
class WindowEnd:
    """A window's end, and the partitions to wait for."""

    scope: Scope
    until: AtTimestamp
    idle_timeout_ms: int
    clock_skew_ms: int
    warnings: tuple[str, ...] = ()


def parse_window_end(
    asked: ScopeParameters,
    end: Any,
    run_context: RunContext,
    *,
    partition_width: Any = None,
    idle_timeout: Any = None,
    clock_skew: Any = None,
) -> WindowEnd:
    """The end of a window, as a request reads it.

    :raises InvalidRequest: with every problem.
    """
    problems = Problems()
    warnings: list[str] = []
    scope = take_scope(problems, asked)
    with names({"end": "end (bounded_timestamp in kafka_spark_batch)"}):  # who writes a task group never types ``end``
        until = bounds_reader(problems, warnings, scope, run_context, partition_width).time("end", end)
    idle_ms = problems.take("idle_timeout", lambda: _wait(idle_timeout, DEFAULT_IDLE_TIMEOUT_MS), 0)
    skew_ms = problems.take("clock_skew", lambda: _wait(clock_skew, DEFAULT_CLOCK_SKEW_MS), 0)
    if problems or scope is None or until is None:
        raise InvalidRequest(tuple(problems))
    return WindowEnd(scope, until, idle_ms, skew_ms, tuple(warnings))


def _refuse_together(problems: Problems, request: PlanRequest, *, has_group: bool, with_others: Sequence[str]) -> None:
    """What is wrong between parameters each of which could be right.

    :param with_others: those that have times of partitions, or ``*`` beside times of topics.
    """
    limits, run_orders = request.limits, request.run_orders
    modes = ("startup_mode", "bounded_mode")
    caps = [cap for cap in ("max_records", "max_records_per_partition") if getattr(limits, cap)]
    if request.window and caps:
        problems.add(
            f"{named('max_records')} and {named('max_records_per_partition')} cannot be used with a window (both "
            "bounds given): a capped window would leave records that no later run reads. Use a smaller window.",
            *(*caps, *modes),
        )
    if request.window and with_others:
        problems.add(
            f"{' and '.join(map(named, with_others))} has times of partitions, or '*' beside times of topics, which "
            "cannot be used with a window (both bounds given): its bounds are those of whole topics, each by its name.",
            *(*with_others, *modes),
        )
    if request.window and run_orders.restart is not None:
        problems.add(
            f"{named('restart')} is for a pipeline that has a position; a window has none. Use {named('re_plan')}.",
            *("restart", *modes),
        )
    _refuse_policies(problems, request)
    if run_orders.skip is not None and (run_orders.re_plan or run_orders.redo):
        problems.add(f"{named('skip')} goes alone: the batch that it names is left out, not planned or done again.")
    both = zip(modes, (request.startup, request.bounded), strict=True)
    needing = [parameter for parameter, mode in both if mode == "group-offsets"]
    if needing and not has_group:
        found = " and ".join(f"{named(parameter)}='group-offsets'" for parameter in needing)
        problems.add(
            f"{found} reads a committed offset, but there is no consumer group: give {named('group_id')}, or set "
            f"group.id in {named(CONNECTION)}.",
            *("group_id", *needing),
        )


def _refuse_policies(problems: Problems, request: PlanRequest) -> None:
    """Answers that would lose records beside these modes, or have them in two outputs."""
    policies = request.policies
    holds = ["hold"] * bool(policies.hold) + ["policies"] * (policies.answers["unavailable"] == "hold")
    if request.window and holds:
        problems.add(
            f"{' and '.join(map(named, holds))} cannot hold a partition of a window (both bounds given): no later run "
            "would read it. Run the window when every partition has a leader.",
            *(*holds, "startup_mode", "bounded_mode"),
        )
    if request.window and policies.answers["no_match"] == "earliest":
        problems.add(
            f"{named('policies')} has no_match='earliest', which cannot be used with a window (both bounds given): the "
            "records of before it would be in the output of each window.",
            *("policies", "startup_mode", "bounded_mode"),
        )
    if policies.answers["new_partition"] == "timestamp" and not isinstance(request.startup, AtTimestamp):
        problems.add(
            f"{named('policies')} has new_partition='timestamp', which needs {named('startup_mode')}='timestamp'.",
            *("policies", "startup_mode"),
        )
    strange = sorted(tp for tp in policies.hold if not request.scope.subscription.has(tp))
    if strange:
        problems.add(
            f"{named('hold')} has {', '.join(map(str, strange))}, which {'is' if len(strange) == 1 else 'are'} not "
            "subscribed to.",
            *("hold", "topics", "topic_pattern", "partitions"),
        )


def _limits(problems: Problems, asked: RequestParameters) -> Limits:
    return Limits(
        problems.take("max_records", lambda: at_least_one(asked.max_records), None),
        problems.take("max_records_per_partition", lambda: at_least_one(asked.max_records_per_partition), None),
        problems.take("splits", lambda: _splits(asked.splits), 1),
        problems.take("split_by", lambda: one_of(asked.split_by, get_args(SplitBy)), "size"),
        problems.take("require_complete_window", lambda: parse_flag(asked.require_complete_window), False),
        problems.take("idle_timeout", lambda: _wait(asked.idle_timeout, DEFAULT_IDLE_TIMEOUT_MS), 0),
        problems.take("min_retention_margin", lambda: parse_span_ms(asked.min_retention_margin), None),
    )


def _wait(value: Any, default_ms: int) -> int:
    return default_ms if value is None else parse_wait_ms(value)


def _output(value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ValueError(f"is {value!r}; give the path or the table that the Spark job writes")
    return plain_text(value).strip().rstrip("/") if value else None


def _splits(value: Any) -> int:
    number = at_least_one(value) or 1
    if number > MOST_SPLITS:
        raise ValueError(f"is {value!r}; there can be {MOST_SPLITS} Spark jobs at most")
    return number
