"""Programs of Debian's packages, which are pinned in `debian.lock`, fetched by apt and unpacked in the user's cache.

Nothing is installed, and nobody has to be root.
"""

import hashlib
import subprocess
import tempfile
from pathlib import Path

from testbed.cache import Say, silent, whole_folder

LOCK = Path(__file__).with_name("debian.lock")


class PackageMissing(RuntimeError):
    """A program is not installed here, and Debian's could not be had."""


def unpacked(program: str, say: Say = silent) -> Path:
    """The folder that a program's packages are unpacked in.

    :param program: as `debian.lock` calls it in its first column.
    :raises PackageMissing: not Debian, another version of it, no network, or not what is pinned.
    """
    lines = (line.split() for line in LOCK.read_text().splitlines() if not line.startswith("#"))
    pins = [(name, version, digest) for of, name, version, digest in lines if of == program]
    assert pins, program
    name = f"{program}-{hashlib.sha256(repr(pins).encode()).hexdigest()[:12]}"

    def fill(folder: Path) -> None:
        say(f"Fetching {program} from Debian, once …")
        _unpack(program, pins, folder)

    return whole_folder(name, fill, is_whole=Path.is_dir, say=say)


def _unpack(program: str, pins: list[tuple[str, str, str]], folder: Path) -> None:
    remedy = (
        f"Install it (`apt install {program}`, `brew install {program}`), or pin what apt has in testbed/debian.lock."
    )
    with tempfile.TemporaryDirectory(prefix="debian-") as downloads:
        command = ["apt-get", "download", *(f"{name}:amd64={version}" for name, version, _ in pins)]
        try:
            done = subprocess.run(command, cwd=downloads, capture_output=True, text=True)
        except FileNotFoundError:
            raise PackageMissing(f"There is no {program} here, and no apt to fetch it.\n{remedy}") from None
        if done.returncode:
            raise PackageMissing(f"There is no {program} here, and `{' '.join(command)}` failed:\n"
                                 f"{done.stderr[-1000:]}{remedy}")  # fmt: skip
        files = sorted(Path(downloads).glob("*.deb"))
        if sorted(hashlib.sha256(file.read_bytes()).hexdigest() for file in files) != sorted(pin[2] for pin in pins):
            raise PackageMissing(f"What came is not what testbed/debian.lock pins (SHA-256 differs).\n{remedy}")
        for file in files:
            subprocess.run(["dpkg", "-x", str(file), str(folder)], check=True)
