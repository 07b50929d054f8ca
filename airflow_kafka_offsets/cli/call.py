# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""One call of a command: its words, and what they lead to: a log, a cluster, a request. Below, the shared options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from shlex import quote
from typing import Any

import click

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.cli.printing import PROGRAM, Answer, show
from airflow_kafka_offsets.cli.world import WHICH_CLUSTER, Settings, World, client_settings, read_text
from airflow_kafka_offsets.engine.identity import NO_OUTPUT
from airflow_kafka_offsets.engine.lag import position_of
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.kafka_values import by_topic
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.identity import Identity
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
    def log(self) -> PipelineLog:
        """:raises InvalidRequest: no pipeline can have this name."""
        log = PipelineLog(self.store, self["pipeline"])  # with `/<i>-of-<n>` for a shard
        try:
            pipeline_name(log.name)
        except ValueError as error:
            raise InvalidRequest((f"PIPELINE {error}.",)) from None
        return log

    def newest(self) -> Batch:
        """The newest batch of the pipeline.

        :raises InvalidRequest: there is none.
        """
        newest = self.log.newest()
        if newest is None:
            what = f"Pipeline {self.log.pipeline_id!r} has no batch in {self.store.uri}."
            line = f"{PROGRAM} list --checkpoint-location {quote(self.store.uri)}"
            raise InvalidRequest((f"{what} What is there: {line}",))
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

    def bound(self, flag: str, text: str, otherwise: str | None = None) -> Any:
        """:raises InvalidRequest: the text is none of the forms of a start or an end."""
        word: Any = None if otherwise == "none" else otherwise
        try:
            return parse_bound(text, word, read_text)
        except ValueError as error:
            raise InvalidRequest((f"{flag} {error}.",)) from None

    def request(self, identity: Identity | None, newest: Batch | None, conf: Mapping[str, Any], **more: Any) -> Request:
        """The request of the pipeline's DAG, as far as the log knows it: what the call does not give is as it was.

        :param conf: what a run's conf has under ``kafka_offsets``.
        :param more: other parameters of a request.
        :raises InvalidRequest: with every problem.
        """
        settings, topics, group_id = dict(self.settings or {}), self["topics"], self["group_id"]
        if self["otherwise"] == "none":
            settings.pop("auto.offset.reset", None)
        if newest is not None:
            settings.setdefault("isolation.level", newest.plan.isolation_level)
            group_id = group_id or newest.plan.group_id
        if identity is not None:
            topics = topics or self._topics(identity, newest)
        named = conf.get("acknowledge")
        output = named.get("output") if isinstance(named, Mapping) else None
        output = output or (None if identity is None else identity.output)
        parameters = {"group_id": group_id, "pipeline_id": self.log.name, "shard": self.log.shard, **more}
        context = RunContext(self.now_ms, conf=conf, pipelines=[self.log.name])
        known = {} if topics is None else {"topics": topics}
        return parse_request({**known, **parameters}, context, settings, None if output == NO_OUTPUT else output)

    def _topics(self, identity: Identity, newest: Batch | None) -> Sequence[str] | Mapping[str, Sequence[int]]:
        """What the pipeline has read so far; single partitions, where those are subscribed to."""
        if newest is None:
            return sorted({tp.topic for tp in self.log.identity_body(identity).first})
        if identity.kind == "sequence" and any(topic.partitions is None for topic in newest.plan.topics.values()):
            return by_topic(position_of(self.log, newest))
        return sorted(newest.plan.topics)


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
OTHERWISE = option(
    "--otherwise",
    "Where to start if the group has no offset; none: fail.",
    type=click.Choice(["earliest", "latest", "none"]),
)
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
