"""One call of a command: its words, and what they lead to: a log, a cluster, a request. Below, the shared options."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import click

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.cli.printing import PROGRAM, Answer, show
from airflow_kafka_offsets.cli.world import WHICH_CLUSTER, Settings, World, client_settings, read_text
from airflow_kafka_offsets.engine.dry_run import DryStore, dry_cluster
from airflow_kafka_offsets.engine.lag import last_run, position_of, shard_of
from airflow_kafka_offsets.errors import InvalidRequest, clean_text
from airflow_kafka_offsets.kafka_values import Actor, TopicList, by_topic
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.names import pipeline_name
from airflow_kafka_offsets.offsets import parse_bound
from airflow_kafka_offsets.request import Request, RunContext, parse_request
from airflow_kafka_offsets.store.protocol import Store


class Call:
    """The words of a call by the names of its options, and what they lead to."""

    def __init__(self, world: World, words: Mapping[str, Any]) -> None:
        self.world, self.words, self.now_ms = world, words, world.now_ms()

    def __getitem__(self, name: str) -> Any:
        return self.words[name]

    @cached_property
    def store(self) -> Store:
        return self.world.open_store(self["checkpoint_location"])

    @cached_property
    def pipeline_id(self) -> str:
        """With ``/<i>-of-<n>`` for a shard.

        :raises InvalidRequest: no pipeline can have this name.
        """
        text: str = self["pipeline"]
        try:
            pipeline_name(text if shard_of(text) is None else text.rpartition("/")[0])
        except ValueError as error:
            raise InvalidRequest((f"PIPELINE {error}.",)) from None
        return text

    @cached_property
    def log(self) -> PipelineLog:
        return PipelineLog(self.store, self.pipeline_id)

    def newest(self) -> Batch:
        """The newest batch of the pipeline.

        :raises InvalidRequest: there is none.
        """
        newest = self.log.newest()
        if newest is None:
            problem = f"There is no pipeline {self.pipeline_id!r} in {self.store.uri}. What is there: {PROGRAM} list"
            raise InvalidRequest((problem,))
        return newest

    @cached_property
    def settings(self) -> Settings | None:
        """Of the cluster's client; ``None``: no cluster is given."""
        return client_settings(self.words)

    def cluster(self) -> Cluster:
        """:raises InvalidRequest: no cluster is given."""
        if self.settings is None:
            raise InvalidRequest((WHICH_CLUSTER,))
        return self.world.open_cluster(self.settings)

    def turn(self, kafka: Cluster, *, execute: bool | None = None) -> tuple[PipelineLog, Cluster]:
        """The log and the cluster that a command writes to; in a dry run they keep it to themselves."""
        if self["execute"] if execute is None else execute:
            return self.log, kafka
        return PipelineLog(DryStore(self.store), self.pipeline_id), dry_cluster(kafka)

    @property
    def me(self) -> Actor:
        with suppress(KeyError, OSError):  # a user without a name, as in some containers
            return Actor(person=f"{clean_text(getpass.getuser())} at the command line")
        return Actor()

    def bound(self, flag: str, text: str, otherwise: str | None = None) -> Any:
        """:raises InvalidRequest: the text is none of the forms of a start or an end."""
        word: Any = None if otherwise == "none" else otherwise
        try:
            return parse_bound(text, word, read_text)
        except ValueError as error:
            raise InvalidRequest((f"{flag} {error}.",)) from None

    def request(self, newest: Batch | None, *, start: Any, **more: Any) -> Request:
        """Topics, group and isolation level are those of the newest plan, where the call does not give them.

        :param more: other parameters of a request.
        :raises InvalidRequest: with every problem.
        """
        shard, settings, given = shard_of(self.pipeline_id), dict(self.settings or {}), self.words.get("topics")
        topics, group_id = given, self.words.get("group_id")
        if self.words.get("otherwise") == "none":
            settings.pop("auto.offset.reset", None)
        if newest is not None:
            settings.setdefault("isolation.level", newest.plan.isolation_level)
            group_id = group_id or newest.plan.group_id
            topics = topics or self._topics(newest)
        name = self.pipeline_id if shard is None else self.pipeline_id.rpartition("/")[0]
        parameters = {"group_id": group_id, "start": start, "pipeline_id": name, "shard": shard, **more}
        known = {} if topics is None else {"topics": topics}
        want = parse_request({**known, **parameters}, RunContext(self.now_ms), settings)
        if given is None and isinstance(want.subscription, TopicList):  # one of them may be deleted by now
            return replace(want, subscription=replace(want.subscription, all_exist=False))
        return want

    def _topics(self, newest: Batch) -> Sequence[str] | Mapping[str, Sequence[int]]:
        """What the pipeline has read so far; single partitions, where those are subscribed to."""
        known = last_run(self.log, newest).plan.topics
        position = {} if newest.plan.kind == "window" else position_of(self.log, newest)
        if position and any(topic.partitions is None for topic in known.values()):
            return by_topic(position)
        return sorted({*known, *(tp.topic for tp in position)})


# ── what a command is made of ─────────────────────────────────────────────────────────────────────────────────────────


def option(flag: str, help: str, **more: Any) -> click.Option:
    return click.Option([flag], help=help, **more)


BOUND = "earliest, latest, group-offsets, timestamp:<ISO or ms>, offsets:<JSON or Flink's text> or @<file of offsets>"
PIPELINE = click.Argument(["pipeline"])
CHECKPOINT = option(
    "--checkpoint-location",
    "Where the log is; default: as Airflow is configured.",
    metavar="URI",
    envvar="AIRFLOW__KAFKA_OFFSETS__CHECKPOINT_LOCATION",
)
CLUSTER = (
    option("--bootstrap-servers", "The cluster: its brokers.", metavar="HOST:PORT"),
    option("--config", "A client setting beside them; repeatable.", metavar="KEY=VALUE", multiple=True),
    option("--client-config", "The cluster: a file of librdkafka's settings, key=value or JSON.", metavar="FILE"),
    option("--kafka-config-id", "The cluster: an Airflow connection.", metavar="ID"),
)
SUBSCRIPTION = (
    option("--topics", "orders,payments or ^orders-.* or JSON; default: as read so far.", metavar="TOPICS"),
    option("--group-id", "The group that follows; default: that of the last batch.", metavar="GROUP"),
)
OTHERWISE = option(
    "--otherwise", "Where the group has no offset; none: refuse.", type=click.Choice(["earliest", "latest", "none"])
)
EXECUTE = option("--execute", "Write. Without it, this is a dry run.", is_flag=True)
DRY_RUN = "This was a dry run: nothing was written. To write it, repeat the command with --execute."
_OUTPUT = option("--output", "Tables for people, or JSON alone.", type=click.Choice(["table", "json"]), default="table")


def command(answer: Callable[[Call], Answer], example: str, *params: click.Parameter) -> click.Command:
    """A command whose help is the docstring of the function that answers it.

    :param example: begins with its name.
    """

    def run(**words: Any) -> int:
        world = click.get_current_context().obj
        answered = answer(Call(world or World(), words))
        show(answered, words["output"])
        return answered.exit_status

    name, _, _ = example.partition(" ")
    epilog = f"Example: {PROGRAM} {example}"
    return click.Command(name, callback=run, params=[*params, _OUTPUT], help=answer.__doc__, epilog=epilog)
