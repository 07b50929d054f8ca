"""What the testbed takes from Debian, by the real apt."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.debian_packages import PackageMissing, unpacked

pytestmark = pytest.mark.slow  # they need a network


def pin(folder: Path, version: str) -> Path:
    lock = folder / "debian.lock"
    lock.write_text(f"lzf liblzf1 {version} {'0' * 64}\n")
    return lock


def test_in_place_of_a_version_that_debian_has_replaced_comes_its_newer_one(tmp_path: Path) -> None:
    said: list[str] = []
    folder = unpacked("lzf", said.append, pin(tmp_path, "0.1-1"), root=tmp_path)
    assert [*folder.rglob("liblzf.so*")]
    assert "its newer packages are taken" in said[-1]


def test_another_file_of_the_pinned_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageMissing, match="SHA-256 differs"):
        unpacked("lzf", lock=pin(tmp_path, "3.6-3"), root=tmp_path)
