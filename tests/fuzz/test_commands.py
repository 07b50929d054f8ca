"""The command line, with odd words and on damaged stores: an exit status, a message, and nothing is written.

The cluster is the one in memory, which one suite holds to the real one (``tests/contract``): what is tried here are the
words, and what the store holds.
"""

from __future__ import annotations

import io
import json
import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_kafka_offsets.broker import cluster as broker_cluster
from airflow_kafka_offsets.broker.config import refuse_name
from airflow_kafka_offsets.broker.records import Record
from airflow_kafka_offsets.cli import cluster_commands, record_commands
from airflow_kafka_offsets.cli.commands import COMMANDS
from airflow_kafka_offsets.cli.main import main
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.stores.local import LocalStore
from airflow_kafka_offsets.stores.objects import decode
from tests.cli.pipeline import Pipeline
from tests.cluster.memory import InMemoryCluster
from tests.fuzz.strange import changed, changed_bytes, changed_text, fuzzed, texts
from tests.fuzz.test_stored import stored

COMMANDS_OF_A_STORE = (
    *(
        "pipelines",
        "show",
        "show --history 5",
        "show --windows",
        "show --batch 1",
        "verify --batch 1",
        "verify --batch 2",
    ),
    *("lag", "reset --to-earliest --reason x", "commit --batch 2", "redo --batch 1", "clean --keep 0d"),
    *("plan --topics orders --group-id g", "skip --batch KEY", "skip --window WINDOW", "pipelines --output json"),
    *("show --output csv", "show --output json", "release-output --output-name s3://lake/orders"),
)
NAMES = ("--pipeline-id", "g/dag/resolve")
WORDS = ("1", "now-2h", '{"orders": {"0": 1}}', "orders", "0000000001", "P1D")
FILES = ("--client-config", "--from-file", "--value-schema-file")


@pytest.fixture(scope="module")
def cluster() -> InMemoryCluster:
    cluster = InMemoryCluster(now_ms=1_791_000_000_000)  # past the window below, and past
    cluster.create_topic("__consumer_offsets")
    cluster.create_topic("orders", 2)
    return cluster


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, cluster: InMemoryCluster) -> Path:
    """A store with two committed batches, one that is not, and a window."""
    store = LocalStore(tmp_path_factory.mktemp("whole") / "store")
    pipeline = Pipeline(
        cluster, store, "orders", "g", parameters={"startup_mode": "earliest-offset", "output_name": "o"}
    )
    for run in ("one", "two"):
        cluster.produce(TopicPartition("orders", 0), [cluster.now_ms] * 4)
        pipeline.run(run)
    cluster.produce(TopicPartition("orders", 1), [cluster.now_ms] * 4)
    pipeline.plan("three")
    by_time = {"startup_mode": "timestamp", "bounded_mode": "timestamp", "output_name": "w"}
    bounds = {"startup_timestamp": 1_790_000_000_000, "bounded_timestamp": 1_790_003_600_000}
    pipeline.run("four", **by_time, **bounds)
    return store.root


class OfCommands:
    """What only the command line asks of a cluster."""

    def __init__(self, cluster: InMemoryCluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def cluster_id(self) -> str:
        return self._cluster.cluster_id

    def all_committed(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        refuse_name(group_id)
        return dict(self._cluster.groups.get(group_id, {}))

    def records_from(
        self, starts: Mapping[TopicPartition, int], count: int
    ) -> Iterator[tuple[TopicPartition, list[Record]]]:
        yield from ((tp, []) for tp in starts)


@pytest.fixture(autouse=True)
def asked(cluster: InMemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def of_config(config: Any) -> Iterator[OfCommands]:
        yield OfCommands(cluster)

    for module in (broker_cluster, cluster_commands, record_commands):
        monkeypatch.setattr(module, "KafkaCluster", of_config)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("copies")


def called(*words: str) -> tuple[int, str]:
    """The exit status, and what was printed, as a terminal that has only UTF-8 takes it."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main(words)
        except SystemExit as refused:
            status = int(str(refused.code or 0))
    said = ""
    for stream in (out, err):
        stream.flush()
        stream.seek(0)
        said += stream.read()
    assert status in (0, 1, 2, 3), said
    assert "Traceback" not in said
    return status, said


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def words_of(command: str, store: Path) -> list[str]:
    words = command.split(" ")
    known = {option.flag for one in COMMANDS if one.name == words[0] for option in one.options}
    words += ["--work-store", str(store)] if "--work-store" in known else []
    words += NAMES if "--pipeline-id" in known else []
    words += ["--bootstrap-servers", "localhost:1"] if "--bootstrap-servers" in known else []
    return words


@fuzzed(0.5)
@given(st.sampled_from(COMMANDS_OF_A_STORE), st.randoms(use_true_random=False), st.data())
def test_a_damaged_store_is_said_and_not_written(
    whole: Path, copies: Path, command: str, order: random.Random, data: st.DataObject
) -> None:
    store = copies / "store"
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(whole, store)
    files = sorted(path for path in store.rglob("*.json"))
    for path in order.sample(files, data.draw(st.integers(1, 2))):
        before = path.read_bytes()
        kind = data.draw(st.sampled_from(("structure", "structure", "bytes", "gone", "name")))
        if kind == "structure":
            path.write_bytes(stored(data.draw(changed([decode(before)]))))
        elif kind == "bytes":
            path.write_bytes(data.draw(changed_bytes([before])))
        elif kind == "gone":
            path.unlink()
        else:
            other = data.draw(st.sampled_from(("9.json", "2.json", "x", "٣.json", "0-999999-a.begun.json", "10.json")))
            path.replace(path.with_name(other))
    before_all = contents(store)
    called(*words_of(command, store))
    assert contents(store) == before_all


@fuzzed()
@given(st.sampled_from(COMMANDS), st.data())
def test_odd_words_are_an_exit_status_and_nothing_is_written(
    whole: Path, copies: Path, command: Any, data: Any
) -> None:
    before = contents(whole)
    words = words_of(command.name, whole)
    for option in data.draw(st.lists(st.sampled_from(command.options), max_size=4)):
        if option.flag in ("--work-store", "--execute") or option.positional:
            continue
        words.append(option.flag)
        if "action" not in option.arguments:
            value = data.draw(
                texts | changed_text(("1", "now-2h", '{"orders": {"0": 1}}', "orders", "0000000001", "P1D"))
            )
            if option.flag in FILES:
                path = copies / "file"
                path.write_bytes(value.encode("utf-8", "surrogatepass"))
                value = str(path)
            words.append(value)
    called(*words)
    assert contents(whole) == before


@fuzzed(0.5)
@given(texts | changed_text(['{"by":"airflow-kafka-offsets","pipeline":"p","instance":"i","batch":null}']))
@example(json.dumps({"by": "airflow-kafka-offsets", "pipeline": "p", "instance": "\x1b]0;x\x07\ud800", "batch": None}))
def test_what_others_wrote_beside_their_commits_does_nothing_to_a_terminal(
    cluster: InMemoryCluster, metadata: str
) -> None:
    cluster.groups.pop("theirs", None)
    cluster.commit_as_somebody_else("theirs", {TopicPartition("orders", 0): CommittedOffset(1, None, metadata[:1000])})
    for output in ("table", "json", "csv"):
        _, said = called("lag", "--bootstrap-servers", "x:1", "--group-id", "theirs", "--output", output)
        assert all(letter.isprintable() or letter in "\n\t" for letter in said)


def test_a_file_without_an_end_is_refused(copies: Path) -> None:
    status, said = called("partitions", "--client-config", "/dev/zero", "--topics", "orders")
    assert (status, "67108864 bytes" in said) == (2, True)


def test_a_window_of_which_only_its_reads_are_left_is_no_window(whole: Path, copies: Path) -> None:
    """What the fuzzing has found: a clean that was cut off, or a lifecycle rule, may leave it so."""
    store = copies / "of-reads"
    shutil.copytree(whole, store)
    for entry in store.glob("pipelines/*/windows/*/?.json"):
        entry.unlink()
    assert called("pipelines", "--work-store", str(store))[0] == 0
