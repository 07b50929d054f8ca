"""What the testbed takes from Debian, by the real apt."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import debian_packages
from testbed.debian_packages import PackageMissing, unpacked

pytestmark = pytest.mark.slow  # they need a network


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(debian_packages, "LOCK", tmp_path / "debian.lock")


def pin(version: str) -> None:
    debian_packages.LOCK.write_text(f"lzf liblzf1 {version} {'0' * 64}\n")


def test_in_place_of_a_version_that_debian_has_replaced_comes_its_newer_one() -> None:
    said: list[str] = []
    pin("0.1-1")
    assert [*unpacked("lzf", said.append).rglob("liblzf.so*")]
    assert "its newer packages are taken" in said[-1]


def test_another_file_of_the_pinned_version_is_refused() -> None:
    pin("3.6-3")
    with pytest.raises(PackageMissing, match="SHA-256 differs"):
        unpacked("lzf")
