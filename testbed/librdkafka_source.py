"""librdkafka's source, pinned. Users get it from GitHub, which is no package index. Confluent's client for Node.js is
on one, and has it inside.
"""

import hashlib
import subprocess
import tarfile
from pathlib import Path

from testbed.cache import Say, silent, whole_folder
from testbed.http_server import needed_program

VERSION = "2.15.1"
_PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
_SHA256 = "ada7d703bb1d3237e2292bfabf438d663b6160c9f1ac2a2406b5dc4257c81b66"
_INSIDE = Path("package/deps/librdkafka")


def librdkafka_source(say: Say = silent) -> Path:
    """The folder of the source, which nobody may build in: copy it.

    :raises RuntimeError: it cannot be had, or is not what is pinned.
    """

    def fill(folder: Path) -> None:
        say(f"Downloading librdkafka {VERSION}'s source (3 MB, once) …")
        npm = needed_program("npm", "librdkafka's source", "Node.js 20 or newer, with npm")
        done = subprocess.run([npm, "pack", _PACKAGE], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{_PACKAGE} cannot be had:\n{done.stderr[-2000:]}")
        (archive,) = folder.glob("*.tgz")
        if hashlib.sha256(archive.read_bytes()).hexdigest() != _SHA256:
            raise RuntimeError(f"{_PACKAGE} is not what is pinned (SHA-256 differs).")
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")

    name = f"librdkafka-source-{VERSION}"
    return whole_folder(name, fill, is_whole=lambda f: (f / _INSIDE / "configure").is_file(), say=say) / _INSIDE
