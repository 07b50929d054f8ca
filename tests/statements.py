"""``python -m tests.statements``: how large the package is, in statements (``ast.stmt``) without docstrings."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "airflow_kafka_offsets"


def statements(code: str) -> int:
    nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.stmt)]
    texts = [node for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    return len(nodes) - sum(isinstance(text.value.value, str) for text in texts)  # type: ignore[attr-defined]


if __name__ == "__main__":
    files = list(PACKAGE.rglob("*.py"))
    print(f"{PACKAGE.name}: {sum(statements(path.read_text()) for path in files):,} statements in {len(files)} files")
