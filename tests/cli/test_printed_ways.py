"""Every refusal of a run that prints a conf, a start or a command: each is carried out as it stands, in a copy of the
pipeline as it was, and the run goes on."""

from __future__ import annotations

import ast
import copy
import inspect
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from airflow_kafka_offsets.cli.call import World
from airflow_kafka_offsets.cli.main import main
from airflow_kafka_offsets.engine import acts, begin, identity, mirror, sequence, windows
from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.kafka_values import CommittedOffset
from airflow_kafka_offsets.offsets import SpecificOffsets
from airflow_kafka_offsets.store.memory import MemoryStore
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import HOUR, TOPIC, Pipeline, conf_of, printed_confs, produce, tp

Refused = Callable[..., Any]
"""A run of a pipeline that is refused; by window also with a conf."""


def moved_group(pipeline: Pipeline) -> Refused:
    pipeline.cluster.commit_as_somebody_else("lake", {tp(0): CommittedOffset(3)})
    return Pipeline.resolve


def group_moved_while_spark_worked(pipeline: Pipeline) -> Refused:
    work = pipeline.work()
    pipeline.drive(work)
    moved_group(pipeline)
    return lambda pipeline: pipeline.commit(work)


def replaced_cluster(pipeline: Pipeline) -> Refused:
    pipeline.cluster.cluster_id = "another"
    return Pipeline.resolve


def moved_output(pipeline: Pipeline) -> Refused:
    pipeline.output = "delta:/lake/other"
    return Pipeline.resolve


def moved_output_and_group(pipeline: Pipeline) -> Refused:
    moved_output(pipeline)
    return moved_group(pipeline)


def act_for_less_than_differs(pipeline: Pipeline) -> Refused:
    moved_output_and_group(pipeline)
    return lambda pipeline: pipeline.act(after=1, acknowledge={"output": pipeline.output})


def re_created_topic(pipeline: Pipeline) -> Refused:
    pipeline.cluster.recreate_topic(TOPIC)
    return Pipeline.resolve


def deleted_records(pipeline: Pipeline) -> Refused:
    pipeline.cluster.delete_records(tp(0), 12)
    return Pipeline.resolve


def truncated_log(pipeline: Pipeline) -> Refused:
    pipeline.cluster.truncate(tp(0), 5)
    produce(pipeline.cluster, 0, 9)
    return Pipeline.resolve


def older_copy(pipeline: Pipeline) -> Refused:
    store = copy.deepcopy(pipeline.store)
    pipeline.whole_run()
    pipeline.store = store
    return Pipeline.resolve


def lost_log_with_a_group(pipeline: Pipeline) -> Refused:
    pipeline.store = MemoryStore()
    return Pipeline.resolve


def lost_log_that_airflow_remembers(pipeline: Pipeline) -> Refused:
    pipeline.parameters = {"group_id": None}
    return lost_log_with_a_group(pipeline)


def read_first_hour(pipeline: Pipeline) -> int:
    """By window, as another pipeline. Returns when the hour began."""
    pipeline.parameters, pipeline.airflow.planned = {"pipeline_id": "windows"}, None
    at = pipeline.cluster.now_ms
    pipeline.cluster.now_ms += 3 * HOUR
    pipeline.whole_run(want=pipeline.window(at, at + HOUR))
    return at


def lost_log_by_window(pipeline: Pipeline) -> Refused:
    at = read_first_hour(pipeline)
    pipeline.store = MemoryStore()
    return lambda pipeline, conf=None: pipeline.resolve(want=pipeline.window(at + HOUR, at + 2 * HOUR, conf=conf))


def overlapping_window(pipeline: Pipeline) -> Refused:
    at = read_first_hour(pipeline)
    return lambda pipeline, conf=None: pipeline.resolve(want=pipeline.window(at, at + 2 * HOUR, conf=conf))


def act_without_after(pipeline: Pipeline) -> Refused:
    conf = {name: value for name, value in conf_of(1, reset={"start": "latest"}).items() if name != "after"}
    return lambda pipeline: pipeline.resolve(conf=conf)


def stale_act(pipeline: Pipeline) -> Refused:
    pipeline.act(after=1, reset={"start": "latest"})
    return lambda pipeline: pipeline.act(after=1, reset={"start": "latest"})


def other_shards(pipeline: Pipeline) -> Refused:
    return lambda pipeline: pipeline.resolve(shard=(0, 2))


WAYS = (moved_group, group_moved_while_spark_worked, replaced_cluster, moved_output, moved_output_and_group,
        act_for_less_than_differs, re_created_topic, deleted_records, truncated_log, older_copy, lost_log_with_a_group,
        lost_log_that_airflow_remembers, lost_log_by_window, overlapping_window, act_without_after, stale_act,
        other_shards)  # fmt: skip


def refusal(pipeline: Pipeline, way: Callable[[Pipeline], Refused]) -> tuple[Refused, KafkaOffsetsError]:
    """A pipeline that has read ten records of partition 0, and has ten more before it."""
    produce(pipeline.cluster, 0, 10)
    pipeline.whole_run()
    produce(pipeline.cluster, 0, 10)
    run = way(pipeline)
    with pytest.raises(KafkaOffsetsError) as refused:
        run(copy.deepcopy(pipeline))
    return run, refused.value


@pytest.mark.parametrize("way", WAYS)
def test_what_a_refusal_prints_is_carried_out_as_it_stands(
    pipeline: Pipeline, way: Callable[[Pipeline], Refused], capsys: pytest.CaptureFixture[str]
) -> None:
    run, error = refusal(pipeline, way)
    confs, starts = printed_confs(error), re.findall(r"start=(SpecificOffsets\(\{.*\}\))", str(error))
    assert confs or starts
    for conf in confs:
        again = copy.deepcopy(pipeline)
        by_window = "conf" in inspect.signature(run).parameters and run is not Pipeline.resolve
        run(again, conf) if by_window else again.whole_run(conf=conf)
        assert again.log.identity() is not None
    for start in starts:
        changed = {"start": eval(start, {"SpecificOffsets": SpecificOffsets}), "group_id": None}
        for shard in (0, 1):
            again = copy.deepcopy(pipeline)
            again.airflow.planned = None
            again.resolve(pipeline_id="others", shard=(shard, 2), **changed)
    for line in str(error).splitlines():
        if line.startswith("or: "):
            *words, conf = shlex.split(line.removeprefix("or: "))
            assert (words, json.loads(conf)["kafka_offsets"] in confs) == (
                ["airflow", "dags", "trigger", "dag", "--conf"],
                True,
            )
        elif command := re.search(r"kafka-offsets ((?!explain).*)", line):
            world = World(lambda _: pipeline.cluster, lambda uri: {pipeline.store.uri: pipeline.store}[uri], lambda: 0)
            assert main(shlex.split(command[1]), world) == 0
            capsys.readouterr()


def test_each_place_of_a_run_that_prints_a_way_on_is_among_them() -> None:
    """As the interpreter sees it: the line of each call was run."""
    modules = (acts, begin, identity, mirror, sequence, windows)
    missing = {(file, line) for file, lines in map(printing_calls, modules) for line in lines}

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        missing.discard((frame.f_code.co_filename, frame.f_lineno))
        return trace

    before = sys.gettrace()
    for way in WAYS:
        cluster = InMemoryCluster()
        cluster.create_topic(TOPIC, 3)
        sys.settrace(trace)
        try:
            refusal(Pipeline(cluster), way)
        finally:
            sys.settrace(before)
    assert sorted(missing) == []


def printing_calls(module: Any) -> tuple[str, list[int]]:
    """The lines of calls that make a conf to copy."""
    file = inspect.getsourcefile(module)
    assert file is not None

    def found() -> Iterator[int]:
        for node in ast.walk(ast.parse(Path(file).read_text())):
            if isinstance(node, ast.Call):
                name = node.func
                if isinstance(name, ast.Call):
                    name = name.func
                if isinstance(name, ast.Name) and name.id in ("way_on", "ways_on", "conf_text"):
                    yield node.lineno

    return file, sorted(set(found()))
