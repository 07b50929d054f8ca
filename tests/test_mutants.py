"""``make mutate`` leaves tests out by name. One that was renamed would run, fail, and end it before it begins."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_each_test_that_is_left_out_exists() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]
    left_out = [given.partition("=")[2] for given in settings["pytest_add_cli_args"] if given.startswith("--deselect=")]
    assert left_out
    for file, _, name in (test.partition("::") for test in left_out):
        assert f"def {name}(" in (ROOT / file).read_text()
