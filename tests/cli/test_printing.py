"""Tables as people see them: drawn on a terminal, in at most 120 columns; elsewhere plain text, a row a line."""

from __future__ import annotations

import json
import os
import pty
import re
import string
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.cli.printing import WIDTH, Answer, Column, Table, columns, drawn, plain, show
from tests.cli.conftest import of
from tests.cli.pipeline import Pipeline

words = st.text(alphabet=string.ascii_letters + " -.", max_size=250)
numbers = st.integers(0, 2**63 - 1)
NAMES = ["topic", "log_start", "read_again"]


@st.composite
def tables(draw: st.DrawFn) -> Table:
    cells = draw(st.lists(st.sampled_from([words, numbers]), min_size=1, max_size=12))
    names = [f"{draw(st.sampled_from(NAMES))}_{number}" for number in range(len(cells))]
    rows = draw(st.lists(st.fixed_dictionaries(dict(zip(names, cells, strict=True))), min_size=1, max_size=4))
    return Table(columns(*names), rows)


@given(tables())
def test_no_line_that_is_drawn_is_wider_than_120_columns_and_no_number_is_cut(table: Table) -> None:
    lines = drawn(table, 300).splitlines()
    assert all(len(line) <= WIDTH == 120 for line in lines if max(map(len, line.split()), default=0) < 100)
    found = " ".join(lines).split()
    everything = [cell for row in table.rows for cell in row.values()]
    assert [cell for cell in everything if isinstance(cell, int) and str(cell) not in found] == []


@given(tables())
def test_no_letter_is_lost(table: Table) -> None:
    everything = drawn(table, 120)
    titles = [column.title for column in table.columns]
    for letter in set(string.ascii_lowercase + "-."):
        in_cells = sum(str(cell).count(letter) for row in table.rows for cell in row.values())
        in_titles = sum(title.count(letter) for title in titles)
        blocks = 1 if everything.startswith("╭") else len(table.rows)
        assert everything.count(letter) == in_cells + blocks * in_titles


def test_a_narrow_table_is_as_wide_as_its_words_and_has_its_numbers_to_the_right() -> None:
    table = Table(columns("topic", "end"), [{"topic": "orders", "end": 7}, {"topic": "o", "end": 1000}])
    assert plain(table).splitlines() == ["topic    end", "orders     7", "o       1000"]
    assert drawn(table, 80).splitlines() == [
        "╭────────┬──────╮",
        "│ topic  │  end │",
        "├────────┼──────┤",
        "│ orders │    7 │",
        "│ o      │ 1000 │",
        "╰────────┴──────╯",
    ]


def test_the_widest_text_is_wrapped_first_and_between_words() -> None:
    table = Table(columns("topic", "reason"), [{"topic": "orders", "reason": "restored from the copy of Friday"}])
    assert drawn(table, 30).splitlines() == [
        "╭────────┬───────────────────╮",
        "│ topic  │ reason            │",
        "├────────┼───────────────────┤",
        "│ orders │ restored from the │",
        "│        │ copy of Friday    │",
        "╰────────┴───────────────────╯",
    ]


def test_too_many_numbers_have_a_line_each() -> None:
    table = Table(columns("log_start", "end"), [{"log_start": 10**18, "end": 2 * 10**18}, {"log_start": 3, "end": 4}])
    assert drawn(table, 40).splitlines() == [
        f"log start  {10**18}",
        f"end        {2 * 10**18}",
        "",
        "log start  3",
        "end        4",
    ]


def test_what_is_absent_is_a_word_for_people_and_nothing_in_csv(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(
        [Column("topic"), Column("lag", absent="unknown"), Column("batch", for_people=False)], [{"topic": "a"}]
    )
    assert plain(table).splitlines() == ["topic      lag", "a      unknown"]
    show(Answer([table]), "csv")
    assert capsys.readouterr().out == "topic,lag,batch\na,,\n"
    show(Answer([table]), "json")
    assert json.loads(capsys.readouterr().out)["partitions"] == [{"topic": "a", "lag": None, "batch": None}]


def test_the_tables_of_a_pipeline_fit_a_terminal_and_longer_names_stay_whole(stored: Pipeline) -> None:
    stored.cluster.create_topic("t" * 200, 1)
    long = Pipeline(stored.cluster, stored.store, "t" * 200, "group-" * 20, name="a-long-dag-name" * 8)
    long.run("scheduled__2026-11-20T00:00:00+00:00")
    for call in (
        ("pipelines", "--work-store", stored.store.uri),
        ("show", *of(long)),
        ("show", *of(long), "--history", "3"),
    ):
        seen = on_a_terminal(*call, columns=300)
        table = [line for line in seen.splitlines() if not line.startswith(("batch ", "key:", "group:"))]
        assert [line for line in table[:-1] if len(line) > WIDTH > 20 + max(map(len, line.split()))] == []
        assert long.name in seen


# on a terminal


def on_a_terminal(*words: str, columns: int = 100) -> str:
    """What a person sees: standard output is a terminal."""
    code = (
        "import sys; from airflow_kafka_offsets.cli.main import main; status = main();"
        "print('rich' in sys.modules, file=sys.stderr); sys.exit(status)"
    )
    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "LINES": "50", "PYTHONIOENCODING": "utf-8"}
    try:
        done = subprocess.Popen(
            [sys.executable, "-c", code, *words], stdout=terminal, stderr=subprocess.PIPE, env=environment, text=True
        )
    finally:
        os.close(terminal)
    seen = b""
    with os.fdopen(controller, "rb", buffering=0) as reader:
        while True:
            try:
                part = reader.read(4096)
            except OSError:  # Linux says so when the other side is closed
                break
            if not part:
                break
            seen += part
    _, messages = done.communicate()
    assert (done.returncode, messages.strip()) == (0, "True"), messages
    return re.sub(r"\x1b\[[0-9;]*m", "", seen.decode())  # without the colours


def test_rich_draws_them_on_a_terminal_and_they_fit_it() -> None:
    seen = on_a_terminal("explain", columns=300)
    table = [line for line in seen.splitlines() if line[:1] in "╭│├╰"]
    assert table[0].startswith("╭")
    assert max(map(len, table)) <= WIDTH


@pytest.mark.parametrize("columns", [80, 300])
def test_names_that_do_not_fit_a_drawn_table_stay_whole(stored: Pipeline, columns: int) -> None:
    """They are what people copy for the next command."""
    long = Pipeline(stored.cluster, stored.store, "orders", "group-" * 5, name="a-long-dag-name")
    long.run("scheduled__2026-11-20T00:00:00+00:00")
    seen = on_a_terminal("pipelines", "--work-store", stored.store.uri, columns=columns)
    assert f" {long.pipeline_id}" in seen
    assert "2 pipelines in" in seen


def test_elsewhere_they_are_plain_text_and_rich_is_not_imported(stored: Pipeline, tmp_path: Path) -> None:
    code = "import sys; from airflow_kafka_offsets.cli.main import main; main(); sys.exit(99 * ('rich' in sys.modules))"
    call = [sys.executable, "-c", code, "pipelines", "--work-store", stored.store.uri]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert done.stdout.startswith("pipeline ")
