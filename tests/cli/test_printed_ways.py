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

import airflow_kafka_offsets
from airflow_kafka_offsets.cli.call import World
from airflow_kafka_offsets.cli.main import main
from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.kafka_values import CommittedOffset
from airflow_kafka_offsets.offsets import SpecificOffsets
from airflow_kafka_offsets.spark.plan import read_plan
from airflow_kafka_offsets.store.memory import MemoryStore
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import HOUR, TOPIC, Pipeline, StoreOfDriver, conf_of, printed_confs, produce, tp

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
    return hour_of(at + HOUR, at + 2 * HOUR)


def hour_of(start_ms: int, end_ms: int) -> Refused:
    """A run of a data interval; with a conf, one that a person has triggered, which has none."""

    def run(pipeline: Pipeline, conf: Any = None) -> Any:
        triggered = {} if conf is None else {"interval": None, "conf": conf}
        return pipeline.resolve(want=pipeline.window(start_ms, end_ms, **triggered))

    return run


def moved_output_by_window(pipeline: Pipeline) -> Refused:
    at = read_first_hour(pipeline)
    moved_output(pipeline)
    return hour_of(at + HOUR, at + 2 * HOUR)


def stale_act_by_window(pipeline: Pipeline) -> Refused:
    """Another person's act was faster."""
    at = read_first_hour(pipeline)
    moved_output(pipeline)
    run = hour_of(at + HOUR, at + 2 * HOUR)
    first = {**conf_of(1, "windows", acknowledge={"output": pipeline.output}), "window": [at + HOUR, at + 2 * HOUR]}
    run(pipeline, first)
    return lambda pipeline, conf=None: run(pipeline, conf or first)


def overlapping_window(pipeline: Pipeline) -> Refused:
    at = read_first_hour(pipeline)
    return hour_of(at, at + 2 * HOUR)


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
        lost_log_that_airflow_remembers, lost_log_by_window, moved_output_by_window, stale_act_by_window,
        overlapping_window, act_without_after, stale_act, other_shards)  # fmt: skip


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


@pytest.mark.parametrize("by_window", [False, True])
def test_what_a_driver_prints_is_carried_out_as_it_stands(pipeline: Pipeline, *, by_window: bool) -> None:
    """Drivers print the confs of their plan. The act's run is triggered: it has no data interval."""

    def run(pipeline: Pipeline, conf: Any = None) -> Any:
        return pipeline.resolve(shard=(0, 2), group_id=None, conf=conf)

    if by_window:
        at = read_first_hour(pipeline)
        run = hour_of(at + HOUR, at + 2 * HOUR)
    for partition in range(3):
        produce(pipeline.cluster, partition, 5, age_s=90 * 60)
    work = run(pipeline)
    plan = read_plan(StoreOfDriver(pipeline), work.log.folder(work.batch.number), 1)
    adopted = {"log": {"lost": "0000000041-aaaaaaaaaaaa"}, **({"windows_from": at + HOUR} if by_window else {})}
    others = {"output": "delta:/lake/other"}, {"rows": [work.key]}, adopted
    for act in ({"skip": [f"{min(work.body.ranges)}:3"]}, *({"acknowledge": other} for other in others)):
        again, printed = copy.deepcopy(pipeline), plan.conf(**act)
        conf = json.loads(printed[printed.index("{") :])["kafka_offsets"]
        again.output = act.get("acknowledge", {}).get("output", again.output)
        run(again, conf)
        identity = again.log.identity()
        assert identity is not None
        assert identity.act == conf


ELSEWHERE = {
    "operators/submit.py": "test_a_driver_that_ran_out_of_memory_is_retried_and_says_how_the_batch_is_made_smaller",
    **dict.fromkeys(
        ("spark/attempts.py", "spark/fates.py", "spark/lost.py", "spark/run.py", "spark/sinks/table.py"),
        "test_what_a_driver_prints_is_carried_out_as_it_stands",
    ),
}
"""Which tests carry out what is printed where no engine is."""
MAKERS = {"acts.py", "spark/plan.py"}


def test_each_place_that_prints_a_way_on_is_among_them() -> None:
    """As the interpreter sees it: the line of each call in the engine was run."""
    package = Path(airflow_kafka_offsets.__file__).parent
    places = {
        str(file.relative_to(package)): lines for file in package.rglob("*.py") if (lines := printing_calls(file))
    }
    assert {name for name in places if not name.startswith("engine/")} == {*ELSEWHERE} | MAKERS
    tests = "".join(file.read_text() for file in Path(__file__).parents[1].rglob("test_*.py"))
    assert [name for name in ELSEWHERE.values() if f"def {name}(" not in tests] == []
    of_engine = [name for name in places if name.startswith("engine/")]
    missing = {(str(package / name), line) for name in of_engine for line in places[name]}

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


def printing_calls(file: Path) -> list[int]:
    """The lines of calls that make a conf to copy."""

    def found() -> Iterator[int]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.func if isinstance(node.func, ast.Call) else node.func
                is_of_plan = isinstance(name, ast.Attribute) and name.attr == "conf" and node.keywords
                called = name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")
                if called in ("way_on", "ways_on", "conf_text") or is_of_plan:
                    yield node.lineno
            elif (
                isinstance(node, ast.Constant)
                and node.value == "kafka_offsets"
                and "json.dumps" in lines[node.lineno - 1]
            ):
                yield node.lineno

    lines = file.read_text().splitlines()
    return sorted(set(found()))
