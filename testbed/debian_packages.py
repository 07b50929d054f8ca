"""Programs of Debian's packages, which are pinned in `debian.lock`, fetched by apt and unpacked in the user's cache.

Nothing is installed, and nobody has to be root. Debian keeps no version that it has replaced, and replaces a browser
each week: what has come in its place is taken as apt fetches it, by Debian's signature.
"""

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from testbed.cache import Say, silent, whole_folder

LOCK = Path(__file__).with_name("debian.lock")


class PackageMissing(RuntimeError):
    """A program is not installed here, and Debian's could not be had."""


def unpacked(program: str, say: Say = silent, lock: Path = LOCK, root: Path | None = None) -> Path:
    """The folder that a program's packages are unpacked in.

    :param program: as the lock calls it in its first column.
    :param root: of the cache, as `whole_folder` takes it.
    :raises PackageMissing: not Debian, another release of it, no network, or not what is pinned.
    """
    lines = (line.split() for line in lock.read_text().splitlines() if not line.startswith("#"))
    pins = [(name, version, digest) for of, name, version, digest in lines if of == program]
    assert pins, program
    name = f"{program}-{hashlib.sha256(repr(pins).encode()).hexdigest()[:12]}"

    def fill(folder: Path) -> None:
        say(f"Fetching {program} from Debian, once …")
        _unpack(program, pins, folder, say)

    return whole_folder(name, fill, is_whole=Path.is_dir, root=root, say=say)


def _unpack(program: str, pins: list[tuple[str, str, str]], folder: Path, say: Say) -> None:
    with tempfile.TemporaryDirectory(prefix="debian-") as downloads:
        error = _download([f"{name}:amd64={version}" for name, version, _ in pins], downloads, program)
        if is_replaced := "was not found" in error:
            say(f"Debian has replaced what testbed/debian.lock pins of {program}: its newer packages are taken …")
            error = _download([f"{name}:amd64" for name, _, _ in pins], downloads, program)
        if error:
            raise _missing(program, f"apt-get download failed:\n{error}")
        files = sorted(Path(downloads).glob("*.deb"))
        found = sorted(hashlib.sha256(file.read_bytes()).hexdigest() for file in files)
        if not is_replaced and found != sorted(digest for _, _, digest in pins):
            raise _missing(program, "what came is not what testbed/debian.lock pins (SHA-256 differs).")
        for file in files:
            subprocess.run(["dpkg", "-x", str(file), str(folder)], check=True)


def _download(packages: list[str], folder: str, program: str) -> str:
    """What apt said; empty: it has fetched them all."""
    command, english = ["apt-get", "download", *packages], {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(command, cwd=folder, env=english, capture_output=True, text=True)
    except FileNotFoundError:
        raise _missing(program, "there is no apt to fetch it.") from None
    return done.stderr[-1000:] if done.returncode else ""


def _missing(program: str, why: str) -> PackageMissing:
    return PackageMissing(
        f"There is no {program} here, and {why}\nInstall it: `apt install {program}`, `brew install {program}`."
    )
