"""Programs that are built by Go, which takes some minutes the first time, into a folder of the user's cache."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from testbed.cache import Say, silent, whole_folder
from testbed.http_server import needed_program


def built(source: str, version: str, what_for: str, say: Say = silent) -> str:
    """The path of the program; ``source`` is its Go package, whose last name it has.

    :param what_for: in messages: the Google Cloud Storage server of the tests.
    :raises RuntimeError: there is no Go, or it cannot be built.
    """
    program = source.rpartition("/")[2]

    return _built(program, version, lambda _: ["install", f"{source}@{version}"], what_for, say)


def built_of(sources: Path, what_for: str, say: Say = silent) -> str:
    """The path of the program that a folder is of, which is not published; its ``go.mod`` says of which versions.

    :raises RuntimeError: as :func:`built`.
    """
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(sources.iterdir()))).hexdigest()

    def command(folder: Path) -> list[str]:
        copy = shutil.copytree(sources, folder / "sources" / sources.name)  # what the versions need is added to it
        return ["build", "-C", str(copy), "-mod=mod", "-o", str(folder / sources.name), "."]

    return _built(sources.name, digest[:12], command, what_for, say)


def _built(program: str, version: str, command: Callable[[Path], list[str]], what_for: str, say: Say) -> str:
    """:param command: of ``go``, for the folder that it has to fill."""

    def install(folder: Path) -> None:
        go = needed_program("go", what_for, "Go, from https://go.dev/dl/")
        sources = folder / "sources"  # not the user's own GOPATH
        ours = {
            "GOPATH": str(sources),
            "GOBIN": str(folder),
            "GOCACHE": str(sources / "cache"),
            "GOFLAGS": "-modcacherw",  # or it could not be removed
        }
        done = subprocess.run([go, *command(folder)], env={**os.environ, **ours}, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{program} {version} could not be built:\n{done.stderr[-2000:]}")
        shutil.rmtree(sources)

    folder = whole_folder(f"{program}-{version}", install, is_whole=lambda f: (f / program).is_file(), say=say)
    return str(folder / program)
