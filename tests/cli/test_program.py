"""What holds for every command: its help, its exit status, what goes to which stream, and what never does."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import sys
import termios
from pathlib import Path

import pytest

from airflow_kafka_offsets import progress_log
from airflow_kafka_offsets.cli.call import Call, command
from airflow_kafka_offsets.cli.main import commands, main
from airflow_kafka_offsets.cli.printing import Answer, Table, show
from airflow_kafka_offsets.cli.world import World
from airflow_kafka_offsets.kafka_values import CommittedOffset
from airflow_kafka_offsets.store.memory import MemoryStore
from tests.cli.conftest import Run
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import Pipeline, tp

NAMES = ["plan", "lag", "list", "show", "audit", "clean", "explain"]
SECRET = "s3cr3t-w0rd"


def test_there_are_seven_commands() -> None:
    assert list(commands.commands) == []  # none is loaded before it is asked for
    assert commands.list_commands(None) == NAMES  # type: ignore[arg-type]


def test_a_shell_completes_commands_and_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_KAFKA_OFFSETS_COMPLETE", "bash_complete")
    for typed, expected in (("kafka-offsets sh", "plain,show"), ("kafka-offsets clean --exe", "plain,--execute")):
        monkeypatch.setenv("COMP_WORDS", typed)
        monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
        with pytest.raises(SystemExit):
            main([])
        assert capsys.readouterr().out.splitlines() == [expected]


@pytest.mark.parametrize("name", ["", *NAMES])
def test_the_help_fits_a_screen(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main([*filter(None, [name]), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert "..." not in "".join(lines).replace("[ARGS]...", "")  # no sentence is cut


@pytest.mark.parametrize(
    "words",
    [
        "plan orders",
        "lag orders",
        "list",
        "show orders",
        "show orders --batch 1",
        "show orders --offset orders-0:3",
        "audit orders",
        "audit --table lake.orders --batch t.kafka_batch",
        "show orders --bad",
        "clean orders --older-than 90d",
        "explain",
        "explain 202",
    ],
)
def test_json_is_alone_on_standard_output_and_tables_say_the_same(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run, words: str
) -> None:
    cluster.produce(tp(0), [cluster.now_ms] * 10)
    pipeline.whole_run()
    cluster.produce(tp(0), [cluster.now_ms] * 10)
    pipeline.work()
    assert isinstance(run(f"{words} --output json").json, dict)
    assert run(words).out


@pytest.mark.parametrize(
    ("words", "progress"),
    [
        ("show orders", "read batches: 3 of 3"),
        ("show orders --offset orders-0:3", "read batches: 3 of 3"),
        ("audit orders", "read batches: 3 of 3"),
        ("clean orders --older-than 90d", "read batches: 1 of 1"),
        ("list --bootstrap-servers memory", "look at positions of pipelines: 1 of 1"),
        ("list", "look at pipelines: 1 of 1"),
    ],
)
def test_what_takes_long_says_how_far_it_is(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture, words: str, progress: str,
) -> None:  # fmt: skip
    for _ in range(3):
        cluster.produce(tp(0), [cluster.now_ms] * 10)
        pipeline.whole_run()
    monkeypatch.setattr(progress_log, "QUIET_S", 0.0)
    run(words)
    assert progress in caplog.text


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("show nothing", 2, "What is there: kafka-offsets list --checkpoint-location memory://checkpoint"),
        ("show a/b", 2, "PIPELINE is 'a/b'; '/' separates"),
        ("plan orders --kafka-config-id k", 2, "Give one of"),
        ("list --config a=b", 2, "--config goes with --bootstrap-servers"),
        ("plan new", 2, "topics is missing; name the topics"),
        ("plan new --topics orders --max-records no --start latest", 2, "max_records is 'no'"),
        ("plan new --topics orders --start sometime", 2, "--start is 'sometime'; give earliest, latest"),
        ("plan new --topics orders --start @/no/such/file", 2, "--start names the file '/no/such/file'"),
        ("plan new --topics orders --start group-offsets --group-id g", 1, "AKO-201 NoCommittedOffset"),
        ("plan new --topics payments --start earliest", 1, "topic payments does not exist"),
        ("plan orders --conf nonsense", 2, "--conf is 'nonsense'; give it as the error prints it"),
        ("plan new --conf {}", 2, "--conf is '{}'; give it as the error prints it"),
        ("lag --group-id g", 2, "Give PIPELINE, or both"),
    ],
)
def test_refusals_are_messages_with_an_exit_status(run: Run, words: str, status: int, message: str) -> None:
    ended = run(words, status=status)
    assert message in ended.err
    assert ended.out == ""


@pytest.mark.parametrize("words", ["", "nonsense", "show", "clean orders", "show orders --last none"])
def test_a_call_that_cannot_be_read_has_status_2(capsys: pytest.CaptureFixture[str], words: str) -> None:
    assert main(words.split()) == 2
    assert capsys.readouterr().out == ""


def test_words_from_outside_cannot_drive_a_terminal(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    pipeline.output = "files:/lake/\x1b[31mred"
    cluster.produce(tp(0), [cluster.now_ms] * 10)
    pipeline.whole_run()
    assert r"files:/lake/\x1b[31mred" in run("show orders").out
    cluster.commit_as_somebody_else("lake", {tp(0): CommittedOffset(3, None, '{"by":"airflow-kafka-offsets","pipeline":"a\\u001b[2J","batch":"0000000009-20260101T000000-aaaa"}')})  # fmt: skip # noqa: E501
    for words in ("show orders", "plan orders", "show orders --output json"):
        ended = run(words, status=1 if words.startswith("plan") else 0)
        assert "\x1b" not in ended.out + ended.err


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("content", [f"sasl.password {SECRET}", f'{{"sasl.password": "{SECRET}"', f'{{"a": {SECRET}}}'])
def test_a_file_of_settings_that_cannot_be_read_is_not_repeated(run: Run, tmp_path: Path, content: str) -> None:
    (tmp_path / "client").write_text(f"bootstrap.servers=b:9092\n{content}" if "{" not in content else content)
    ended = run("list --client-config", str(tmp_path / "client"), status=2)
    assert "--client-config" in ended.err
    assert SECRET not in ended.err


def test_settings_reach_the_client_and_nothing_else(
    cluster: InMemoryCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "client").write_text(f"# a comment\nbootstrap.servers = b:9092\nsasl.password={SECRET}=\n\n")
    seen = []

    def open_cluster(settings: object) -> InMemoryCluster:
        seen.append(settings)
        return cluster

    world = World(open_cluster, lambda _: MemoryStore(), lambda: cluster.now_ms)
    plan = ["plan", "new", "--topics", "orders", "--start", "earliest"]
    assert main([*plan, "--client-config", str(tmp_path / "client")], world) == 0
    assert main([*plan, "--bootstrap-servers", "b:9092", "--config", f"sasl.password={SECRET}="], world) == 0
    assert seen == [{"bootstrap.servers": "b:9092", "sasl.password": f"{SECRET}="}] * 2
    assert main([*plan, "--bootstrap-servers", "b:9092", "--config", SECRET], world) == 2
    assert SECRET not in "".join(capsys.readouterr())


# ── terminals ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_terminal_that_lacks_a_character_gets_an_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    bytes_out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(bytes_out, encoding="ascii"))
    assert main(["explain", "101"]) == 0
    show(Answer("Süd", tables=[Table("t", [{"name": "ö", "n": 5}], "name n")]), "table")
    sys.stdout.flush()
    assert bytes_out.getvalue().decode("ascii").endswith("S\\xfcd\n\nname  n\n\\xf6     5\n")


def test_a_row_is_a_line_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "x" * 300, "n": 5, "none": None}, {"name": "[bold]y", "n": 1000, "none": None}]
    show(Answer("Two rows.", tables=[Table("t", rows, "n name none")]), "table")
    assert capsys.readouterr().out == f"Two rows.\n\n   n  name\n   5  {'x' * 300}\n1000  [bold]y\n"


def test_a_terminal_gets_as_much_as_it_can_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real one: a pseudo-terminal of 40 columns."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 40, 0, 0))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLUMNS", raising=False)

    def printed_until(marker: bytes) -> bytes:
        text = b""
        while marker not in text:
            text += os.read(here, 9999)
        return text

    with os.fdopen(there, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        show(Answer(tables=[Table("t", [{"n": 7, "what": "[b]long " * 9 + "end"}], "n what")]), "table")
        assert printed_until(b"end").count(b"\r\n") >= 4  # it is wrapped, and its brackets are no markup
        show(Answer(tables=[Table("t", [{"n": n} for n in range(510)], "n")]), "table")
        assert "… and 10 more" in printed_until(b"all of them").decode()
    os.close(here)


def test_a_closed_pipe_ends_with_status_141(monkeypatch: pytest.MonkeyPatch) -> None:
    """``kafka-offsets … | head``"""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(["explain"]) == 141


def test_a_command_is_a_function_with_a_docstring(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(call: Call) -> Answer:
        """Do nothing."""
        return Answer(str(call["output"]))

    assert command(answer, "nothing at all").main(["--output", "table"], standalone_mode=False) == 0
    assert capsys.readouterr().out == "table\n"
