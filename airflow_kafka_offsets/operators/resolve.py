"""The task that decides what a run reads."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_kafka_offsets.batch.no_airflow import Step
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import (
    InvalidRequest,
    KafkaOffsetsError,
    OverlappingRun,
    RequestError,
    counted,
    refuse,
)
from airflow_kafka_offsets.hooks.airflow_versions import AirflowFailException
from airflow_kafka_offsets.hooks.lazy_kafka_hook import kafka_hook
from airflow_kafka_offsets.hooks.metrics import Gauge, outcome_counted, send_nothing_to_read
from airflow_kafka_offsets.hooks.page_link import PipelinePageLink
from airflow_kafka_offsets.hooks.run_context import (
    PIPELINE_XCOM,
    PLAN_XCOM,
    SUMMARY_XCOM,
    AirflowSurroundings,
    run_conf,
    run_context_of,
    run_key,
    without_a_name,
)
from airflow_kafka_offsets.hooks.tells_lineage import TellsLineage, servers_of
from airflow_kafka_offsets.hooks.templates import has_empty_intervals, is_settled, uneven_intervals, unsettled
from airflow_kafka_offsets.hooks.value_sizes import LARGEST, fits, shortened, size_of
from airflow_kafka_offsets.hooks.work_store import configured_log
from airflow_kafka_offsets.kafka_values import Actor, IsolationLevel
from airflow_kafka_offsets.operators.reading_tasks import refuse_who_read_before
from airflow_kafka_offsets.operators.row_parameters import (
    limit_of,
    put_definition,
    row_arguments,
    row_changes,
    row_problems,
    set_aside_output,
)
from airflow_kafka_offsets.operators.saved_places import with_places_read
from airflow_kafka_offsets.plan.job_arguments import (
    ROWS,
    JobArguments,
    batch_arguments,
    has_placeholders,
    offset_words,
    placeholder_problems,
    word_problems,
)
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.plan.plan_json import spark_options
from airflow_kafka_offsets.plan.plan_table import plan_table
from airflow_kafka_offsets.request.dag_checks import as_far_as_decided, problems_before_a_run
from airflow_kafka_offsets.request.modes import BoundedModeName, Offsets, SplitBy, StartupModeName, Times
from airflow_kafka_offsets.request.offset_maps import IN_PLACES, is_place
from airflow_kafka_offsets.request.parameters import (
    RequestParameters,
    ResolveParameters,
    ScopeParameters,
    parameters_of,
)
from airflow_kafka_offsets.request.parse_request import OutputOrigin, request_for
from airflow_kafka_offsets.request.policies import CommitMode, PolicyAnswers, ResetStrategy, restart_word
from airflow_kafka_offsets.request.problems import Problems, parsed
from airflow_kafka_offsets.request.run_conf import with_conf
from airflow_kafka_offsets.request.subscription import default_pipeline_id, parse_scope
from airflow_kafka_offsets.request.times import parse_wait_ms
from airflow_kafka_offsets.spark.sinks.sink_arguments import (
    BadRecordWords,
    SinkWords,
    output_of,
    problems_of,
    sink_arguments,
    sink_into,
)
from airflow_kafka_offsets.stores.location import location_of
from airflow_kafka_offsets.task_docs import RESOLVE_DOC
from airflow_kafka_offsets.triggers.wait_for_batch import POKE_INTERVAL_S, BatchFreeTrigger
from airflow_kafka_offsets.values.row_definition import FieldWords, RowDefinition, Tombstones

if TYPE_CHECKING:
    from airflow_kafka_offsets.batch.carry_out import Assignment
    from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
    from airflow_kafka_offsets.log.pipeline_log import PipelineLog
    from airflow_kafka_offsets.log.task_lineage import TaskLineage


class ResolveStartupOffsetsOperator(TellsLineage, BaseOperator, ResolveParameters):
    """Compute each partition's start and end offset, put them on record as a batch, and push them for Spark.

    If the pipeline's newest batch is not committed, this run does that batch, with its offsets as they are. Otherwise
    it plans the next one, from where that ended. A retry or a clear reads the same offsets.

    XCom ``return_value``: one list of ``application_args`` for each split to start, for
    ``SparkSubmitOperator.partial(...).expand(application_args=resolve.output)``; empty when there is nothing to do.
    ``plan``, for ``CommitOffsetsOperator``: ``{"pipeline", "work_store", "stored_as", "batch", "plan_id", …}``, the
    batch's log in the work store and the plan's digest; never the partitions. ``pipeline``: its name, as the command
    line takes it for ``--pipeline-id``. ``summary``: what the run does and why, in words. ``starting_offsets``,
    ``ending_offsets``, ``assign``: option strings of Spark's Kafka source, over all partitions with records, for jobs
    that do not use ``read_batch``. Where one of the three has more than 48 KiB, which is at 2,000 to 3,000 partitions,
    or offsets between two bounds are left out, none is pushed, and the log says so.

    The conf of a run may change that for this run: ``{"kafka_offsets": {"policies": {"data_loss": "advance"}}}``. The
    keys are ``policies``, ``auto_offset_reset``, ``isolation_level``, ``commit_mode``, ``restart``, and

    - ``"re_plan": true``: plan the unfinished batch anew, or a window that is committed;
    - ``"redo": true``: do this run's batch again, although another run has committed it;
    - ``"skip": {"batch": KEY, "past": "orders-3:4711", "reason": "…"}``: leave out the unfinished batch, or what it has
      up to an offset; with ``only`` instead of ``past``, that record alone.

    docs/parameters.md has the same with each situation's answers. Of the parameters, most DAGs do with the first ten.

    :param kafka_config_id: a ``kafka`` connection of the Kafka provider. Default: ``kafka_default``.
    :param topics: topic names, as a list or with commas. Give ``topics``, ``topic_pattern`` or ``partitions``.
    :param group_id: the consumer group; default: ``group.id`` of the Kafka connection.
    :param startup_mode: where the first batch starts; later ones start where the last one ended. One of
        ``earliest-offset``, ``latest-offset``, ``timestamp``, ``group-offsets``, ``specific-offsets``. Default:
        ``group-offsets``.
    :param bounded_mode: where the batch ends. One of ``latest-offset``, ``timestamp``, ``group-offsets``,
        ``specific-offsets``. Default: ``latest-offset``.
    :param max_records: limit of the run in offsets; partitions share it, and the rest is left for the next run.
    :param splits: how many Spark jobs read the batch. Default: ``1``.
    :param sink: what the job of this package writes: ``{"format": "parquet", "path": "/lake/orders"}``. It gives
        ``output_name``, and arguments of the job.
    :param output_name: what the Spark job writes, a path or a table, so that no other pipeline is given it. A ``sink``
        says it itself. ``kafka_spark_batch`` calls it ``output``, which in an Airflow operator is its XCom.
    :param policies: what to do in a situation that is not the usual one: ``{"data_loss": "advance"}``; else its default
        holds.
    :param topic_pattern: a regular expression, matched against the whole name.
    :param partitions: these partitions and no others: ``{"orders": [0, 2]}``.
    :param isolation_level: default: the Kafka connection's, else ``read_uncommitted``; Spark reads with the same. One
        of ``read_uncommitted``, ``read_committed``.
    :param pipeline_id: name of the saved position; default: ``<group>/<dag>/<task>``. A mapped task needs one that goes
        with what it maps over.
    :param startup_timestamp: epoch milliseconds, ISO 8601, a datetime, or back from now: ``now-2h``, ``-PT2H``; for
        each topic or partition: ``{"orders": …, "payments": {"0": …, "*": …}, "*": …}``. Default: the start of the
        run's data interval, or of its partition.
    :param specific_offsets: the next record to read: ``{"orders": {"0": 42, "1": "latest-1000"}, "payments":
        "earliest+10"}``, or ``partition:0,offset:42;…`` as in Flink; or ``@`` and the place of a file or of a
        Structured Streaming checkpoint or a Hudi table, such as ``@s3://aws_default@lake/checkpoints/orders``.
    :param auto_offset_reset: what a partition without a commit means; also ``by_duration:PT1H``, the last hour.
        Default: the Kafka connection's. Where nobody says, a first run that needs it is refused. One of ``earliest``,
        ``latest``, ``none``.
    :param bounded_timestamp: the first time not to read, written as ``startup_timestamp``. Default: the end of the
        run's data interval, or of its partition.
    :param bounded_offsets: of every partition the first record not to read; written as ``specific_offsets``.
    :param partition_width: how long the partitions of a partitioned DAG are (``CronPartitionTimetable``): ``PT1H``, or
        a ``timedelta``; days are days in the timetable's zone.
    :param require_complete_window: fail where records of the window may still arrive; ``WindowCompleteSensor`` waits by
        the same rule. Default: ``False``.
    :param idle_timeout: how long after the end a partition without newer records is waited for: seconds, a
        ``timedelta`` or ``PT5M``, which is the default.
    :param from_plan: a plan as JSON, as ``kafka-offsets plan --output json`` writes it, or ``@`` and the path of a file
        with it: exactly its partitions, starts and ends, in place of modes, times and offsets.
    :param max_records_per_partition: limit of each partition in offsets.
    :param split_by: even sizes, for which a large partition is cut; or as Flink assigns partitions, which stay whole.
        One of ``size``, ``flink``. Default: ``size``.
    :param commit_mode: whether the group follows the position, or is left alone (Flink's DISABLED). One of
        ``on-success``, ``checkpoint-only``. Default: ``on-success``.
    :param hold: partitions that are not read for now: ``["orders-3"]``. They keep their position, and a run without
        this word reads them from there.
    :param min_retention_margin: how near retention may come to records that the run reads or leaves, before policy
        ``retention_margin`` is asked: seconds, a ``timedelta`` or ``PT6H``. Default: nobody looks.
    :param filter_restored_partitions: leave out topics that are no longer subscribed to, as Flink does; the position
        holds their offsets in either case. Default: ``True``.
    :param restart: a word, such as today's date, that applies the startup mode once more; the log records it, so that
        later runs do not. In a run's conf also ``true``: for that run.
    :param overlap_timeout: how long another run that has the batch is waited for, deferred. Default: ``PT2H``.
    :param work_store: URI of the work store; default: ``[kafka_offsets] work_store``.
    :param value: how a record's value is decoded: ``{"format": "json", "schema": "id BIGINT, at TIMESTAMP"}``;
        ``string``, ``json`` or ``avro``, with ``schema``, ``schema_file`` or ``registry``. Without it the value stays
        as bytes.
    :param key: how a record's key is decoded; as ``value``.
    :param tombstones: whether a record without a value becomes a row of nulls, or is left out. One of ``row``,
        ``leave-out``. Default: ``row``.
    :param select: the columns, as Spark SQL: ``["value.*", "CAST(value.at AS DATE) AS day"]``. ``topic``, ``partition``
        and ``offset`` come by themselves. Default: all columns of the value, and ``key`` if it is decoded.
    :param where: which records become rows, as Spark SQL; the others are left out, and counted.
    :param expect: what must not be false of a row: ``{"amount is positive": "value.amount > 0"}``; a record that fails
        is bad.
    :param bad_records: where records go that do not decode or fail an expectation, as a sink, and how many there may
        be: ``{"format": "parquet", "path": "/lake/bad_orders", "limit": "0.1%"}``. Without it one bad record fails the
        batch.
    :param application_args: the Spark job's own arguments, put before the batch's in each list. With
        ``{starting_offsets}`` and ``{ending_offsets}`` among them (and ``{assign}``, ``{batch_key}``, ``{split}``) they
        are all that the job gets: it need not know what a batch is.
    :raises InvalidRequest: when the DAG is parsed: what is wrong whatever the templates give; every problem is named.
    :raises AirflowFailException: the request is wrong (no retry can help); every problem is named.
    """

    template_fields: Sequence[str] = (
        "kafka_config_id",
        "topics",
        "group_id",
        "startup_mode",
        "bounded_mode",
        "max_records",
        "splits",
        "sink",
        "output_name",
        "policies",
        "topic_pattern",
        "partitions",
        "isolation_level",
        "pipeline_id",
        "startup_timestamp",
        "specific_offsets",
        "auto_offset_reset",
        "bounded_timestamp",
        "bounded_offsets",
        "partition_width",
        "require_complete_window",
        "idle_timeout",
        "from_plan",
        "max_records_per_partition",
        "split_by",
        "commit_mode",
        "hold",
        "min_retention_margin",
        "filter_restored_partitions",
        "restart",
        "overlap_timeout",
        "work_store",
        "value",
        "key",
        "tombstones",
        "select",
        "where",
        "expect",
        "bad_records",
        "application_args",
    )
    ui_color = "#e6f2e6"
    _planned: Plan | None = None
    operator_extra_links = (PipelinePageLink(),)

    def __init__(
        self,
        *,
        kafka_config_id: str = "kafka_default",
        topics: Sequence[str] | str | None = None,
        group_id: str | None = None,
        startup_mode: StartupModeName | str = "group-offsets",
        bounded_mode: BoundedModeName | str = "latest-offset",
        max_records: int | str | None = None,
        splits: int | str = 1,
        sink: SinkWords | None = None,
        output_name: str | None = None,
        policies: PolicyAnswers | Sequence[str] | str | None = None,
        topic_pattern: str | None = None,
        partitions: Mapping[str, Sequence[int]] | str | None = None,
        isolation_level: IsolationLevel | str | None = None,
        pipeline_id: str | None = None,
        startup_timestamp: Times | None = None,
        specific_offsets: Offsets | None = None,
        auto_offset_reset: ResetStrategy | str | None = None,
        bounded_timestamp: Times | None = None,
        bounded_offsets: Offsets | None = None,
        partition_width: str | timedelta | None = None,
        require_complete_window: bool | str = False,
        idle_timeout: timedelta | float | str | None = None,
        from_plan: Mapping[str, Any] | str | None = None,
        max_records_per_partition: int | str | None = None,
        split_by: SplitBy | str = "size",
        commit_mode: CommitMode | str = "on-success",
        hold: Sequence[str] | str | None = None,
        min_retention_margin: timedelta | float | str | None = None,
        filter_restored_partitions: bool | str = True,
        restart: str | None = None,
        overlap_timeout: timedelta | float | str = "PT2H",
        work_store: str | None = None,
        value: FieldWords | None = None,
        key: FieldWords | None = None,
        tombstones: Tombstones | str = "row",
        select: Sequence[str] | None = None,
        where: str | None = None,
        expect: Mapping[str, str] | None = None,
        bad_records: BadRecordWords | None = None,
        application_args: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"doc_md": RESOLVE_DOC, **kwargs})
        ResolveParameters.__init__(
            self,
            kafka_config_id=kafka_config_id,
            topics=topics,
            group_id=group_id,
            startup_mode=startup_mode,
            bounded_mode=bounded_mode,
            max_records=max_records,
            splits=splits,
            sink=sink,
            output_name=output_name,
            policies=policies,
            topic_pattern=topic_pattern,
            partitions=partitions,
            isolation_level=isolation_level,
            pipeline_id=pipeline_id,
            startup_timestamp=startup_timestamp,
            specific_offsets=specific_offsets,
            auto_offset_reset=auto_offset_reset,
            bounded_timestamp=bounded_timestamp,
            bounded_offsets=bounded_offsets,
            partition_width=partition_width,
            require_complete_window=require_complete_window,
            idle_timeout=idle_timeout,
            from_plan=from_plan,
            max_records_per_partition=max_records_per_partition,
            split_by=split_by,
            commit_mode=commit_mode,
            hold=hold,
            min_retention_margin=min_retention_margin,
            filter_restored_partitions=filter_restored_partitions,
            restart=restart,
            overlap_timeout=overlap_timeout,
            work_store=work_store,
            value=value,
            key=key,
            tombstones=tombstones,
            select=select,
            where=where,
            expect=expect,
            bad_records=bad_records,
            application_args=application_args,
        )
        self._refuse_what_is_wrong()
        self._output_origin = _output_origin(sink, output_name)
        self._has_one_pipeline = is_settled([kafka_config_id, group_id, pipeline_id])
        self._is_named_by_index = "map_index" in str(pipeline_id)

    def _refuse_what_is_wrong(self) -> None:
        """:raises InvalidRequest: what no template can put right."""
        undecided = unsettled({name: getattr(self, name) for name in self.template_fields})
        undecided |= {name for name in IN_PLACES if is_place(getattr(self, name))}  # the run's worker reads it
        written = self._asked()
        asked = as_far_as_decided(written, undecided)
        problems = Problems()
        problems.take("overlap_timeout", lambda: parse_wait_ms(asked.overlap_timeout), 0)
        if isinstance(asked.application_args, str):
            problems.add(f"application_args is the string {asked.application_args!r}; give a list of words.")
        else:
            problems += word_problems([str(word) for word in asked.application_args])
            problems += placeholder_problems(asked.application_args, asked.splits)
        if self.sink is not None and self.output_name is not None:
            problems.add("sink and output_name are both given: a sink names its output itself.")
        if asked.work_store is not None:
            problems.take_all(lambda: location_of(str(asked.work_store)))
        sink = asked.sink
        if sink is not None:
            problems.take_all(lambda: output_of(sink))
        elif isinstance(self.sink, Mapping) and is_settled(self.sink.get("format")):
            problems += problems_of(self.sink)
        problems += row_problems(asked, written)
        dag = self.get_dag()
        empty, uneven = has_empty_intervals(dag), uneven_intervals(dag)
        problems += problems_before_a_run(asked, undecided, empty_intervals=empty, uneven=uneven)
        refuse(problems)

    def execute(self, context: Any) -> list[list[str]]:
        """Plan, push, return; or defer while another run has the batch."""
        return self._plan(context)

    def execute_after_wait(self, context: Any, event: Mapping[str, Any]) -> list[list[str]]:
        """Called when the batch's log has moved on, or its holder is over, or the wait is."""
        return self._plan(context, event["until_ms"])

    def pipeline_log(self, context: Any, hook: KafkaOffsetsHook) -> PipelineLog:
        """The log of this task's pipeline.

        :raises InvalidRequest: a mapped task whose pipeline nobody names, or its index alone.
        """
        run = run_key(context)
        if run.map_index >= 0 and (self._is_named_by_index or not self.pipeline_id):
            raise InvalidRequest(
                (
                    "A mapped resolve task needs a pipeline_id that goes with what it maps over, such as the topic: "
                    "by its index it would take another one's position when the list changes.",
                )
            )
        group_id = self.group_id or hook.client_config.get("group.id")
        name = self.pipeline_id or default_pipeline_id(group_id, run.dag_id, self.task_id)
        return configured_log(self.work_store, name)

    def _plan(self, context: Any, waited_until_ms: int | None = None) -> list[list[str]]:
        """:param waited_until_ms: when the wait for another run ends; ``None``: it was not waited for yet."""
        hook = kafka_hook(self.kafka_config_id)
        try:
            until_ms = waited_until_ms or now_ms() + parsed(
                "overlap_timeout", lambda: parse_wait_ms(self.overlap_timeout)
            )
            self._own_words()  # before anything is planned
            pipeline = self.pipeline_log(context, hook)
            with outcome_counted("resolves", pipeline.pipeline_id):
                assignment, about = self._assignment(context, hook, pipeline)
            if assignment.splits:
                refuse_who_read_before(self, context, run_key(context).map_index)
            if assignment.draft is not None:
                send_nothing_to_read(pipeline.pipeline_id, assignment.draft)
            self._planned = assignment.plan
            plan, batch = assignment.plan, assignment.batch
            connection = hook.client_config.get("bootstrap.servers"), self.kafka_config_id
            arguments = _arguments(assignment, pipeline.store.driver_uri, *connection)
            own = self._own_words(plan) if arguments else []
            if arguments and batch and (rows := self._put_rows(assignment, pipeline)) is not None:
                own += [ROWS, rows.digest]
                changes, warnings = row_changes(rows, batch, assignment.is_new)
                about += changes
                assignment = replace(assignment, warnings=(*assignment.warnings, *warnings))
            jobs = [batch_arguments(of_split, own) for of_split in arguments]
            if plan and has_placeholders(self.application_args):
                jobs = offset_words(own, plan, assignment.splits)
                if not fits(jobs):
                    raise InvalidRequest(
                        (
                            f"The arguments of {len(jobs)} Spark jobs have {size_of(jobs):,} bytes with their offsets, "
                            f"and {LARGEST:,} go through Airflow's database: read fewer partitions, or let the job use "
                            "read_batch.",
                        )
                    )
        except RequestError as error:
            raise AirflowFailException(str(error)) from None
        except OverlappingRun as held:
            if now_ms() >= until_ms:
                raise
            self.log.info("Waiting: %s", held)
            where = pipeline.store.uri, held.next_entry
            trigger = BatchFreeTrigger(held.dag_id, held.run_id, *where, until_ms, POKE_INTERVAL_S)
            self.defer(trigger=trigger, method_name="execute_after_wait")
        about += self._push(context, assignment, pipeline)
        context["ti"].xcom_push(key=SUMMARY_XCOM, value=self._say(assignment, about))
        return jobs

    def _task_lineage(self, *, is_over: bool) -> TaskLineage:
        from airflow_kafka_offsets.log.task_lineage import of_plan, of_topics

        servers = servers_of(self.kafka_config_id)
        if self._planned is not None:
            return of_plan(self._planned, servers)
        return of_topics(servers, parse_scope(parameters_of(ScopeParameters, self)).subscription.named)

    def _put_rows(self, assignment: Assignment, pipeline: PipelineLog) -> RowDefinition | None:
        """This run's row definition; ``None`` where records stay as they are."""
        plan = assignment.plan
        topics, to_read = (plan.topics, plan.to_read()) if plan else (set(), [])
        sink: Any = self._sink_of(plan)  # as the job gets it: a table for all topics needs one schema
        asked = replace(self._asked(), sink=sink)
        return put_definition(asked, pipeline.store, topics, {p.topic_partition.topic for p in to_read})

    def _own_words(self, plan: Plan | None = None) -> list[str]:
        """The Spark job's arguments that are no batch's.

        :param plan: of what the run does: a sink whose path is a template is handed the output of that one.

        :raises InvalidRequest: they would not reach the job as they are, or do not name the plan's output.
        """
        sink, asked = self._sink_of(plan), self._asked()
        own = [*(sink_arguments(sink) if sink else ()), *row_arguments(asked), *map(str, self.application_args)]
        refuse([*row_problems(asked, asked), *word_problems(own)])
        return own

    def _sink_of(self, plan: Plan | None) -> Mapping[str, Any] | None:
        """:raises InvalidRequest: it does not name the plan's output."""
        sink: Mapping[str, Any] | None = self.sink
        output = plan.asked.output if plan is not None else None
        if plan is None or not sink or output is None or self._output_origin != "templated sink":
            return sink
        into = sink_into(sink, output)
        if into is None:
            from airflow_kafka_offsets.batch.ownership import output_of_another_run

            raise output_of_another_run(plan, output_of(sink))
        return into

    def about_bad_records(self) -> dict[str, str | None]:
        """For the commit: how many of the batch's records may be bad, ``None`` where nothing decides which are; and
        where they lie.
        """
        limit = limit_of(self._asked())
        where = set_aside_output(self.bad_records)
        return {"bad_records_limit": None if limit is None else str(limit), "bad_records_output": where}

    def _asked(self) -> ResolveParameters:
        return parameters_of(ResolveParameters, self)

    def _assignment(self, context: Any, hook: KafkaOffsetsHook, pipeline: PipelineLog) -> tuple[Assignment, list[str]]:
        """What the run does, and the log lines that say what it was asked."""
        # The engine is imported where it runs: a DAG's file is parsed often.
        from airflow_kafka_offsets.batch.engine import assign_batch
        from airflow_kafka_offsets.batch.look_ups import World
        from airflow_kafka_offsets.batch.orders import RunsBatch

        if nameless := without_a_name(pipeline.store.uri):
            self.log.warning(nameless)
        conf = run_conf(context)
        about = [] if conf is None else [f"By this run's conf: {conf}"]
        asked = parameters_of(RequestParameters, self)
        asked = with_conf(with_places_read(asked), conf)
        output = output_of(self.sink) if self.sink else self.output_name
        asked = replace(asked, pipeline_id=pipeline.pipeline_id, output_name=output)
        request = request_for(hook.client_config, asked, run_context_of(context))
        set_aside = set_aside_output(self.bad_records)
        word = parsed("restart", lambda: restart_word(self.restart))
        request = replace(
            request,
            output_origin=self._output_origin,
            set_aside_output=set_aside,
            jobs_tell=not has_placeholders(self.application_args),
            restart_of_dag=word,
            nameless=bool(nameless),
        )
        refuse(placeholder_problems(self.application_args, request.limits.splits))
        self._refuse_too_many_splits(request.limits.splits, pipeline, hook)
        scope = request.scope
        about.append(
            f"Pipeline {pipeline.pipeline_id}: {scope.subscription}, group {scope.group_id}, work store "
            f"{pipeline.store.uri}"
        )
        steps: dict[Step, Gauge] = {"decide": "look_up_seconds", "carry out": "plan_seconds"}
        run = run_key(context)
        is_alone = self._has_one_pipeline and run.map_index < 0 and (not output or self._output_origin != "fixed")
        around = AirflowSurroundings(context, pipeline.pipeline_id, steps, is_alone)
        try:
            with hook.open_cluster() as cluster:
                me = Actor(run, around.instance)
                return assign_batch(RunsBatch(request, me), World(pipeline, cluster, around)), about
        except KafkaOffsetsError:  # it does nothing, so there is no line to come first
            self._tell(about)
            raise

    def _refuse_too_many_splits(self, splits: int, pipeline: PipelineLog, hook: KafkaOffsetsHook) -> None:
        """:raises InvalidRequest: the arguments of so many Spark jobs are too large for Airflow's database."""
        plan_object = f"{pipeline.root}/batches/{0:08}/{0:010}/1.json"
        where = pipeline.store.driver_uri, hook.client_config.get("bootstrap.servers"), self.kafka_config_id
        of_one = size_of([*self._own_words(), *JobArguments(plan_object, "0" * 32, splits, *where).words()]) + len(", ")
        if splits > 1 and splits * of_one > LARGEST:
            raise InvalidRequest(
                (
                    f"splits is {splits}: the arguments of so many Spark jobs have {splits * of_one:,} bytes, and "
                    f"{LARGEST:,} go through Airflow's database. Give at most {max(1, LARGEST // of_one)}, or shorter "
                    "application_args.",
                )
            )

    def _say(self, assignment: Assignment, about: Sequence[str]) -> str:
        """Log what the run does and why, by which plan, and what is read, lost and skipped.

        :returns: the first and the last sentence, and between them what this run found to be amiss.
        """
        from airflow_kafka_offsets.batch.messages import first_sentence, last_sentence

        plan, first = assignment.plan, first_sentence(assignment.sentence, assignment.waiting)
        last = last_sentence(plan, len(assignment.splits), is_new=assignment.is_new)
        self.log.info(first)
        self._tell(about)
        for warning in (*assignment.warnings, *(plan.warnings if plan else ())):
            self.log.warning(warning)
        if plan is not None:
            self.log.info("Plan %s of %s:\n%s", plan.plan_id, plan.batch, plan_table(plan))
        self.log.log(logging.WARNING if plan is not None and _warns(plan) else logging.INFO, last)
        return shortened(" ".join((first, *assignment.warnings, last)))

    def _tell(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.log.info(line)

    def _push(self, context: Any, assignment: Assignment, pipeline: PipelineLog) -> list[str]:
        """Push all XComs but the summary. Returns what the log should say about them."""
        ti, plan, batch = context["ti"], assignment.plan, assignment.batch
        run = run_key(context)
        ti.xcom_push(key=PIPELINE_XCOM, value=pipeline.pipeline_id)
        reference: dict[str, Any] = {
            "pipeline": pipeline.pipeline_id,
            "work_store": pipeline.store.uri,
            "kafka_config_id": self.kafka_config_id,
            "taken_by": {"task_id": run.task_id, "map_index": run.map_index},
            **self.about_bad_records(),
        }
        if plan is None or batch is None:
            ti.xcom_push(key=PLAN_XCOM, value={**reference, "stored_as": None, "batch": None, "plan_id": None})
            return []
        reference |= {"stored_as": batch.name, "batch": plan.batch.key}
        ti.xcom_push(key=PLAN_XCOM, value={**reference, "plan_id": plan.plan_id})
        if any(p.gap for p in plan.partitions):
            return [
                "The XComs assign, starting_offsets and ending_offsets are not pushed: offsets between the bounds are "
                "left out, and a job that is given the bounds alone reads them. Let the job read the batch with "
                "read_batch or for_each_batch."
            ]
        options = spark_options(plan.to_read())
        if not all(map(fits, options.values())):  # a job has to use the three together
            return [
                "The XComs assign, starting_offsets and ending_offsets are not pushed: for "
                f"{counted(len(plan.to_read()), 'partition')} they have up to {max(map(size_of, options.values())):,} "
                f"bytes each, and at most {LARGEST:,} go through Airflow's database. Let the job read the batch with "
                "read_batch or for_each_batch, which take the plan from the work store."
            ]
        ti.xcom_push(key="assign", value=options["assign"])
        ti.xcom_push(key="starting_offsets", value=options["startingOffsets"])
        ti.xcom_push(key="ending_offsets", value=options["endingOffsets"])
        return []


def _warns(plan: Plan) -> bool:
    """Whether records are left out, or may be gone before a run comes for them."""
    return bool(plan.lost or plan.skipped or (plan.found.backlog is not None and plan.found.backlog.expiring))


def _arguments(assignment: Assignment, store_uri: str, servers: str | None, kafka_config_id: str) -> list[list[str]]:
    """The batch's arguments, a list for each split to start."""
    batch = assignment.batch
    plan: Plan | None = assignment.plan
    if batch is None or plan is None:
        return []
    about = store_uri, servers, kafka_config_id
    return [JobArguments(batch.plan_object, plan.plan_id, split, *about).words() for split in assignment.splits]


def _output_origin(sink: SinkWords | None, output: str | None) -> OutputOrigin:
    """Whether a template gives each run another output. The words are those of the DAG, before they are rendered."""
    if sink is not None:
        words: Any = sink  # the whole of it may be a template, or another task's
        where = [words.get(key) for key in ("path", "table", "url")] if isinstance(words, Mapping) else words
        return "fixed" if is_settled(where) else "templated sink"
    return "fixed" if is_settled(output) else "templated output"
