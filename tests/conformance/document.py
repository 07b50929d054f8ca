"""docs/conformance.md, made of docs/rules.toml and the tests' ids: ``python -m tests.conformance.document``.

A test holds a rule where its name, or the id of its parameters, has the rule's: ``test_B6_…``, ``[C7 E7 below …]``.
What a test claims so is shown by ``tests/mutations``: there each rule is broken, and a test of it must fail.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.cases import CASES

ROOT = Path(__file__).parents[2]
RULES = ROOT / "docs" / "rules.toml"
DOCUMENT = ROOT / "docs" / "conformance.md"
ROOMS = ("request", "plan", "log", "batch", "laws", "contract", "conformance", "stores")
BY_SPARK = ("spark/test_query_checkpoint.py", "spark/test_hudi_table.py", "spark/test_read_batch.py")
BY_BROKERS = ("failing/test_nearest_replica.py",)
BY_RIGHTS = ("secured/test_kerberos.py", "secured/test_delegation_tokens.py", "secured/test_msk_iam.py")
HOLDING = tuple(f"tests/{name}" for name in (*ROOMS, *BY_SPARK, *BY_BROKERS, *BY_RIGHTS))

GROUPS = {
    "A": "The five startup modes",
    "B": "Timestamps",
    "C": "Specific offsets",
    "D": "Group offsets and reset",
    "E": "Out of range, truncation, epochs",
    "F": "Position",
    "G": "Discovery",
    "H": "Splits",
    "I": "Commit",
    "J": "Isolation and transactions",
    "K": "Where a plan ends",
    "L": "Errors",
    "M": "Options",
    "N": "Several clusters",
}
HEAD = """\
# Conformance

What the offsets are in each situation, and the tests that hold it. The ids are those of the specification that was read
from the sources of Flink 1.13.6's `FlinkKafkaConsumer` and of Kafka's consumer, and observed on running ones.

Made by `make docs` from `docs/rules.toml` and the tests' ids; `make test` fails when it is not current, or when a rule
has no test. `make mutate` breaks the rules in the code one by one and shows that a test notices each.
"""

_RULE = re.compile(r"(?<![A-Za-z0-9])([A-N]\d{1,2})(?![A-Za-z0-9])")
_CLUSTER = re.compile(r"(?<=\[)(memory|broker)-|-(memory|broker)(?=\])|\[(memory|broker)\]")


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of docs/rules.toml."""

    id: str
    situation: str
    here: str
    outside: str = ""
    held_by: Sequence[str] = ()


def read_rules() -> list[Rule]:
    return [Rule(id, **fields) for id, fields in tomllib.loads(RULES.read_text()).items()]


def collect() -> list[str]:
    """The ids of all tests that may hold a rule."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *HOLDING]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode:
        raise RuntimeError(f"the tests cannot be collected:\n{found.stdout[-2000:]}{found.stderr[-2000:]}")
    return [line for line in found.stdout.splitlines() if "::" in line]


def held_by_rule(test_ids: Iterable[str], rules: Iterable[Rule]) -> dict[str, list[str]]:
    """The tests of each rule, each once: that it runs on two clusters makes it no second test.

    :raises ValueError: a rule names a test that does not exist.
    """
    test_ids = list(test_ids)
    named: dict[str, list[str]] = {}
    for rule in rules:
        for name in rule.held_by:
            if not any(test_id.partition("[")[0] == name for test_id in test_ids):
                raise ValueError(f"docs/rules.toml: {rule.id} is held by {name}, which does not exist")
            named.setdefault(name, []).append(rule.id)
    held: dict[str, dict[str, set[str]]] = {}
    for test_id in test_ids:
        path, _, name = test_id.partition("::")
        clusters = {cluster for match in _CLUSTER.findall(name) for cluster in match if cluster}
        if "on_a_broker" in name:
            clusters.add("broker")
        shown = f"{path.removeprefix('tests/').removesuffix('.py')}: {_shown(_CLUSTER.sub('', name))}"
        for id in (*rules_in(name), *named.get(test_id.partition("[")[0], ())):
            held.setdefault(id, {}).setdefault(shown, set()).update(clusters)
    return {rule: [f"{shown}{_on(clusters)}" for shown, clusters in tests.items()] for rule, tests in held.items()}


def rules_in(name: str) -> list[str]:
    """The ids in a test's name and parameters."""
    return _RULE.findall(name)


def _shown(name: str) -> str:
    function, _, parameters = name.partition("[")
    parameters = parameters.removesuffix("]")
    text = parameters if _RULE.search(parameters) else function.removeprefix("test_").replace("_", " ")
    return text.replace("|", "\\|").replace("<", "&lt;")


def _on(clusters: set[str]) -> str:
    return " (also on a real broker)" if "broker" in clusters else ""


def document(rules: Iterable[Rule], held: Mapping[str, list[str]]) -> str:
    lines = [HEAD]
    group = ""
    for rule in rules:
        if rule.id[0] != group:
            group = rule.id[0]
            lines += [f"\n## {group}. {GROUPS[group]}\n", "| rule | situation | what this project does | tests |"]
            lines.append("|---|---|---|---|")
        here = rule.here or f"Nothing to hold: {rule.outside}"
        tests = "<br>".join(sorted(held.get(rule.id, [])))
        lines.append(f"| {rule.id} | {rule.situation} | {here} | {tests} |")
    in_memory = [case for case in CASES if case.because]
    if in_memory:
        lines += [
            "\n## What runs in memory only\n",
            "| case | why a real broker cannot be brought there |",
            "|---|---|",
        ]
        lines += [f"| {case.id} | {case.because} |" for case in in_memory]
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def main() -> int:
    rules = read_rules()
    DOCUMENT.write_text(document(rules, held_by_rule(collect(), rules)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
