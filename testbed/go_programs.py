"""Programs that are built by Go, which takes some minutes the first time, into a folder of the user's cache."""

import os
import shutil
import subprocess
from pathlib import Path

from testbed.cache import Say, silent, whole_folder
from testbed.http_server import needed_program


def built(source: str, version: str, what_for: str, say: Say = silent) -> str:
    """The path of the program; ``source`` is its Go package, whose last name it has.

    :param what_for: in messages: the Google Cloud Storage server of the tests.
    :raises RuntimeError: there is no Go, or it cannot be built.
    """
    program = source.rpartition("/")[2]

    def install(folder: Path) -> None:
        go = needed_program("go", what_for, "Go, from https://go.dev/dl/")
        sources = folder / "sources"  # not the user's own GOPATH
        ours = {
            "GOPATH": str(sources),
            "GOBIN": str(folder),
            "GOCACHE": str(sources / "cache"),
            "GOFLAGS": "-modcacherw",  # or it could not be removed
        }
        command = [go, "install", f"{source}@{version}"]
        done = subprocess.run(command, env={**os.environ, **ours}, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{source}@{version} could not be built:\n{done.stderr[-2000:]}")
        shutil.rmtree(sources)

    folder = whole_folder(f"{program}-{version}", install, is_whole=lambda f: (f / program).is_file(), say=say)
    return str(folder / program)
