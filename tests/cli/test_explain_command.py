"""``explain`` prints the page of an error, and asks nobody for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.conftest import Say
from tests.docs.pages import DOCS

PAGE = (DOCS / "errors/AKO-101.md").read_text()


@pytest.mark.parametrize("asked", ["AKO-101", "ako-101", "101", "TopicRecreated", " topicrecreated "])
def test_it_prints_the_page_that_is_in_the_docs(says: Say, asked: str) -> None:
    status, output, messages = says("explain", asked)
    assert (status, output, messages) == (0, PAGE, "")
    assert "topic_recreated" in output


def test_without_a_code_it_lists_them_all(says: Say) -> None:
    status, output, _ = says("explain")
    assert status == 0
    codes = [line.split()[0] for line in output.splitlines() if line.startswith("AKO-")]
    assert codes == sorted(file.stem for file in (DOCS / "errors").glob("AKO-*.md"))


def test_a_code_that_there_is_not_is_a_wrong_request(says: Say) -> None:
    status, output, messages = says("explain", "AKO-999")
    assert (status, output) == (2, "")
    assert messages.startswith("kafka-offsets: AKO-001 InvalidRequest: 'AKO-999' is no code of an error; use one")


def test_it_needs_neither_airflow_nor_a_kafka_client_nor_the_docs_folder(tmp_path: object) -> None:
    """The pages ship with the package: nothing is read from the repository. ``-OO``: not from docstrings either."""
    code = (
        "import sys; from airflow_kafka_offsets.cli.main import main; status = main(['explain', 'AKO-101']);"
        "heavy = {'airflow', 'confluent_kafka', 'pyspark'} & {name.partition('.')[0] for name in sys.modules};"
        "sys.exit(99 if heavy else status)"
    )
    done = subprocess.run(
        [sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=False, cwd=str(tmp_path)
    )
    assert (done.returncode, done.stdout) == (0, PAGE), done.stderr
