"""The settings and commands of docs/many-machines.md, with the test's addresses in the place of the page's."""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "many-machines.md"
TEXT = PAGE.read_text()


def settings(addresses: Mapping[str, str]) -> dict[str, str]:
    """The page's variables; those that it leaves to the reader are not among them.

    :raises ValueError: an address of the page is of nobody here.
    """
    (block,) = re.findall(r"^```\n(AIRFLOW__.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    found = {}
    for line in block.splitlines():
        name, _, value = line.partition("=")
        for address, own in addresses.items():
            value = value.replace(address, own)
        if "example.com" in value or "my-bucket" in value:
            raise ValueError(f"{PAGE.name}: nothing stands for the address in {line}")
        if not value.startswith("<"):
            found[name] = value
    return found


def commands() -> list[list[str]]:
    (block,) = re.findall(r"^```console\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    return [shlex.split(line.removeprefix("$ ")) for line in block.splitlines()]


def airflow_commands() -> dict[str, list[str]]:
    """The words after `airflow`, by part; a Celery worker is called by its name."""
    of_airflow = [words[1:] for words in commands() if words[0] == "airflow"]
    return {
        words[words.index("--celery-hostname") + 1] if "celery" in words else words[0]: words for words in of_airflow
    }


def redis_options() -> list[str]:
    (words,) = (words[1:] for words in commands() if words[0] == "redis-server")
    port = words.index("--port")
    return words[:port] + words[port + 2 :]


def merged(connection: str, more: str) -> str:
    """The page's connection with what a test's server needs besides: where it is, and who asks."""
    page, own = json.loads(connection), json.loads(more)
    return json.dumps({**own, **page, "extra": {**json.loads(own["extra"]), **page["extra"]}})
