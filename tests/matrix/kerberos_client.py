"""docs/secured-kafka.md's steps to a `confluent-kafka` with Kerberos, run as they are printed in the venv of a row."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from testbed.cache import Say
from testbed.librdkafka_source import VERSION, librdkafka_source
from tests.secured.page import blocks

_PREFIX, _SOURCE = "/opt/librdkafka", f"librdkafka-{VERSION}"
# A client without GSSAPI is refused when it is made.
_LOOK = """
from confluent_kafka.admin import AdminClient
login = {"sasl.mechanism": "GSSAPI", "sasl.kerberos.keytab": "none"}
AdminClient({"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT", **login})
"""


def build_with_kerberos(python: Path, say: Say) -> None:
    """After Debian's packages, which a user installs as root: librdkafka beside the venv, the client in it.

    :raises RuntimeError: a step failed, or what it made has no Kerberos.
    """
    _packages, steps = blocks("bash")
    assert f"cd {_SOURCE}\n" in steps, "the page's version is that of the source"
    made = python.parents[1] / "librdkafka"
    here = steps.replace(_PREFIX, str(made))
    stamp = made / ".steps"
    if not stamp.exists() or stamp.read_text() != here:
        say(f"Building librdkafka {VERSION} and confluent-kafka, some minutes …")
        _run([str(python), "-m", "ensurepip", "--default-pip"], "/")
        environment = {**os.environ, "PATH": os.pathsep.join([str(python.parent), os.environ["PATH"]])}
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(librdkafka_source(say), Path(folder) / _SOURCE)
            _run(["bash", "-euxc", here], folder, environment)
        _run([str(python), "-c", _LOOK], "/")
        stamp.write_text(here)


def _run(command: list[str], folder: str, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"The page's steps failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
