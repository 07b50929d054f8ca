"""Tables as people see them: drawn on a terminal, in at most 120 columns; elsewhere plain text, a row a line."""

from __future__ import annotations

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

from airflow_kafka_offsets.cli.layout import WIDTH, Cells, laid_out
from tests.cli.conftest import of
from tests.cli.pipeline import Pipeline

words = st.text(alphabet=string.ascii_letters + " -.", max_size=250)
numbers = st.integers(0, 2**63 - 1).map(str)


@st.composite
def tables(draw: st.DrawFn) -> Cells:
    left = draw(st.lists(st.booleans(), min_size=1, max_size=12))
    rows = draw(st.lists(st.tuples(*(words if is_left else numbers for is_left in left)), min_size=1, max_size=4))
    headings = draw(st.lists(st.sampled_from(["topic", "log start", "read again"]), min_size=12, max_size=12))
    return Cells(headings[: len(left)], rows, left)


@given(tables())
def test_no_line_is_wider_than_120_columns_and_no_number_is_cut(cells: Cells) -> None:
    lines = laid_out(cells)
    assert max(map(len, lines)) <= WIDTH == 120
    found = " ".join(lines).split()
    for row in cells.rows:
        assert [cell for cell, is_left in zip(row, cells.left, strict=True) if not is_left and cell not in found] == []


@given(tables())
def test_no_letter_is_lost(cells: Cells) -> None:
    everything = "".join("".join(laid_out(cells)).split())
    for letter in set(string.ascii_lowercase + "-."):
        texts = [*cells.headings, *(cell for row in cells.rows for cell in row)]
        in_cells = sum(text.count(letter) for text in texts)
        in_blocks = sum(text.count(letter) for text in cells.headings) * (len(cells.rows) - 1)
        assert everything.count(letter) in (in_cells, in_cells + in_blocks)


def test_a_narrow_table_is_as_wide_as_its_words() -> None:
    cells = Cells(["topic", "end"], [["orders", "7"], ["o", "1000"]], [True, False])
    assert laid_out(cells) == ["topic    end", "orders     7", "o       1000"]


def test_the_widest_text_is_wrapped_first_and_between_words() -> None:
    cells = Cells(["topic", "reason"], [["orders", "restored from the copy of Friday"]], [True, True])
    assert laid_out(cells, 24) == [
        "topic   reason",
        "orders  restored from",
        "        the copy of",
        "        Friday",
    ]


def test_too_many_numbers_have_a_line_each() -> None:
    cells = Cells(["log start", "end"], [["1" * 19, "2" * 19], ["3", "4"]], [False, False])
    assert laid_out(cells, 34) == [
        f"log start  {'1' * 19}",
        f"end        {'2' * 19}",
        "",
        "log start  3",
        "end        4",
    ]


def test_the_tables_of_a_pipeline_with_long_names_fit_a_terminal(stored: Pipeline) -> None:
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
        assert max(map(len, table[:-1])) <= WIDTH


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
