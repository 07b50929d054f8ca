"""Which jars the broker and Spark run on, and how they get onto this machine.

`jars.lock` pins each by version and digest. They are fetched once, by the Ivy inside PySpark from Maven Central, into
the user's cache. Dependencies are not asked for: the list is complete, and looking them up is what makes Ivy slow (40 s
in place of 5). The folder's name holds the digest of its list: another list is another folder, never half of the old.

`TESTBED_MAVEN_ROOT` names another repository of Maven's layout, for machines that only reach a mirror.
"""

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from xml.sax.saxutils import quoteattr

from testbed.cache import Say, silent, whole_folder
from testbed.java import Java

LOCK = Path(__file__).with_name("jars.lock")
ATTEMPTS = 3
KAFKA = "4.1.1"  # the versions that the tests run on; others are for `make test-matrix`
SPARK = "4.0.0"


class JarsMissing(RuntimeError):
    """Jars that could not be fetched, or came with another content than was pinned.

    :ivar artifacts: `organisation:name:version`, sorted.
    """

    def __init__(self, artifacts: list[str], reason: str) -> None:
        self.artifacts = sorted(artifacts)
        self.reason = reason
        super().__init__(artifacts, reason)

    def __str__(self) -> str:
        names = "\n".join(f"  {name}" for name in self.artifacts[:5])
        rest = f"\n  and {len(self.artifacts) - 5} more" if len(self.artifacts) > 5 else ""
        return (
            f"Could not fetch from Maven Central:\n{names}{rest}\n{self.reason}\n"
            "Try again when the network is there. Behind a proxy set\n"
            "JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=… -Dhttps.proxyPort=…';\n"
            "with a mirror set TESTBED_MAVEN_ROOT to its address."
        )


@dataclass(frozen=True, slots=True, order=True)
class Artifact:
    """One pinned file: a jar, or what `ext` and `classifier` name."""

    organisation: str
    name: str
    version: str
    sha256: str
    ext: str = "jar"
    classifier: str = ""

    @property
    def file_name(self) -> str:
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.version}{classifier}.{self.ext}"

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.version}"


def broker_jars(java: Java, say: Say = silent, version: str = KAFKA) -> list[Path]:
    """The jars of a Kafka broker, fetched if they are not there.

    :raises JarsMissing: when they cannot be had.
    """
    name = f"kafka-{version}"
    return fetch(java, name, pinned(name), f"the Kafka {version} broker's jars (43 MB, once)", say=say)


def spark_jars(java: Java, say: Say = silent, version: str = SPARK) -> list[Path]:
    """The four jars of Spark's Kafka connector that Spark of that version itself lacks; for `spark.jars`.

    :raises JarsMissing: when they cannot be had.
    """
    what = f"Spark's Kafka connector {version} (10 MB, once)"
    return fetch(java, f"spark-kafka-{version}", pinned(f"spark-{version}"), what, say=say)


def avro_jars(java: Java, say: Say = silent) -> list[Path]:
    """What Spark 4.0 needs to decode and write Avro, for `spark.jars`.

    :raises JarsMissing: when it cannot be had.
    """
    return fetch(java, "spark-avro-4.0.0", pinned("spark-avro"), "Spark's Avro 4.0.0 (1 MB, once)", say=say)


def delta_jars(java: Java, say: Say = silent, minor: str = "4.0") -> list[Path]:
    """What Spark of that version needs to write Delta tables, for `spark.jars`.

    :raises JarsMissing: when they cannot be had.
    """
    return fetch(java, f"delta-for-{minor}", pinned(f"delta-{minor}"), f"Delta for Spark {minor} (8 MB, once)", say=say)


def iceberg_jars(java: Java, say: Say = silent, minor: str = "4.0") -> list[Path]:
    """What Spark of that version needs to write Iceberg tables, for `spark.jars`.

    :raises JarsMissing: when they cannot be had.
    """
    what = f"Iceberg for Spark {minor} (47 MB, once)"
    return fetch(java, f"iceberg-for-{minor}", pinned(f"iceberg-{minor}"), what, say=say)


def s3a_jars(java: Java, say: Say = silent) -> list[Path]:
    """What Spark 4.0 needs to read and write S3, for `spark.jars`.

    :raises JarsMissing: when they cannot be had.
    """
    return fetch(java, "s3a-3.4.1", pinned("s3a"), "Hadoop's S3 file system 3.4.1 (15 MB, once)", say=say)


def postgresql_jars(java: Java, say: Say = silent) -> list[Path]:
    """The driver of PostgreSQL, for `spark.jars`. The server is `testbed.postgres`.

    :raises JarsMissing: when it cannot be had.
    """
    return fetch(java, "postgresql-42.7.14", pinned("postgresql"), "PostgreSQL's driver 42.7.14 (1 MB, once)", say=say)


def connect_jars(java: Java, say: Say = silent) -> list[Path]:
    """Kafka Connect, without connectors; for :mod:`testbed.connect`.

    :raises JarsMissing: when it cannot be had.
    """
    return fetch(java, "connect-4.1.1", pinned("connect"), "Kafka Connect 4.1.1 (30 MB, once)", say=say)


def debezium_jars(java: Java, say: Say = silent) -> list[Path]:
    """Debezium's connector of PostgreSQL; for :mod:`testbed.debezium`.

    :raises JarsMissing: when it cannot be had.
    """
    return fetch(java, "debezium-3.6.1", pinned("debezium"), "Debezium 3.6.1 for PostgreSQL (3 MB, once)", say=say)


def debezium_mysql_jars(java: Java, say: Say = silent) -> list[Path]:
    """Debezium's connector of MySQL; for :mod:`testbed.debezium`.

    :raises JarsMissing: when it cannot be had.
    """
    what = "Debezium 3.6.1 for MySQL (10 MB, once)"
    return [*debezium_jars(java, say), *fetch(java, "debezium-mysql-3.6.1", pinned("debezium-mysql"), what, say=say)]


def iceberg_sink_jars(java: Java, say: Say = silent) -> list[Path]:
    """Iceberg's sink for Kafka Connect, with what it needs of PySpark's jars; for :mod:`testbed.iceberg_sink`.

    :raises JarsMissing: when it cannot be had.
    """
    what = "Iceberg's Kafka Connect sink 1.10.1 (20 MB, once)"
    shared = ("hadoop-client-", "jcl-over-slf4j", "commons-compress", "commons-codec", "commons-io", "aircompressor")
    found = [jar for jar in pyspark_jars() if jar.name.startswith(shared)]
    return [*fetch(java, "iceberg-sink-1.10.1", pinned("iceberg-sink"), what, say=say), *found]


def trino_jars(java: Java, say: Say = silent) -> list[Path]:
    """Trino without its server; for :mod:`testbed.trino`.

    :raises JarsMissing: when it cannot be had.
    """
    return fetch(java, "trino-435", pinned("trino-435"), "Trino 435 (60 MB, once)", say=say)


def compiler_jars(java: Java, say: Say = silent) -> list[Path]:
    """Eclipse's Java compiler, one jar that is run; for :mod:`testbed.java_compiler`.

    :raises JarsMissing: when it cannot be had.
    """
    return fetch(java, "ecj-3.38.0", pinned("ecj"), "Eclipse's Java compiler 3.38.0 (3 MB, once)", say=say)


def pyspark_jars() -> list[Path]:
    """All that Spark itself runs on."""
    import pyspark

    return sorted(Path(pyspark.__file__).parent.glob("jars/*.jar"))


@cache
def pinned(section: str, lock: Path = LOCK) -> tuple[Artifact, ...]:
    """The artifacts that a section of the lock file names."""
    found: dict[str, list[Artifact]] = {}
    current: list[Artifact] = []
    for line in lock.read_text().splitlines():
        if line.startswith("["):
            current = found.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            coordinate, digest = line.split()
            organisation, name, version, *kind = coordinate.split(":")
            current.append(Artifact(organisation, name, version, digest, *kind))
    return tuple(found[section])


def fetch(
    java: Java, name: str, artifacts: tuple[Artifact, ...], what: str, *, root: Path | None = None, say: Say = silent
) -> list[Path]:
    """The files of these artifacts, in their order; downloaded if any is not there.

    :raises JarsMissing: naming the artifacts that could not be had.
    """

    def fill(folder: Path) -> None:
        say(f"Downloading {what} …")
        _download(java, artifacts, folder)

    def is_whole(folder: Path) -> bool:
        return all((folder / artifact.file_name).is_file() for artifact in artifacts)

    digest = hashlib.sha256("\n".join(f"{a} {a.sha256}" for a in artifacts).encode()).hexdigest()[:12]
    folder = whole_folder(f"{name}-{digest}", fill, is_whole=is_whole, root=root, say=say)
    return [folder / artifact.file_name for artifact in artifacts]


def _download(java: Java, artifacts: tuple[Artifact, ...], folder: Path) -> None:
    ivy = folder / ".ivy"
    ivy.mkdir()
    mirror = os.environ.get("TESTBED_MAVEN_ROOT")
    at_root = f" root={quoteattr(mirror)}" if mirror else ""
    # No poms and no checksum files are asked for: the list is complete, and the digests below are stronger.
    (ivy / "settings.xml").write_text(
        '<ivysettings><settings defaultResolver="maven"/><resolvers>'
        f'<ibiblio name="maven" m2compatible="true" usepoms="false" checksums=""{at_root}/>'
        "</resolvers></ivysettings>\n"
    )
    modules: dict[tuple[str, str, str], list[Artifact]] = {}
    for a in artifacts:  # Ivy takes a module once, with all that is wanted of it
        modules.setdefault((a.organisation, a.name, a.version), []).append(a)
    wanted = "".join(
        f'<dependency org={quoteattr(org)} name={quoteattr(name)} rev={quoteattr(rev)} transitive="false">'
        f"{''.join(map(_artifact, files))}</dependency>"
        for (org, name, rev), files in modules.items()
    )
    (ivy / "ivy.xml").write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="testbed" module="jars"/>'
        f"<dependencies>{wanted}</dependencies></ivy-module>\n"
    )
    command = [str(java.executable), *java.https_options, "-jar", str(_ivy_jar())]
    command += ["-settings", str(ivy / "settings.xml"), "-ivy", str(ivy / "ivy.xml"), "-cache", str(ivy / "cache")]
    command += ["-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"]
    output = ""
    for _ in range(ATTEMPTS):  # one of 46 answers may be lost; Ivy keeps what it has
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", env={**os.environ, **java.env})
        output = run.stdout + run.stderr
        if run.returncode == 0:
            break
    missing = [a for a in artifacts if not (folder / a.file_name).is_file()]
    if missing:
        unresolved = {f"{org}:{name}:{rev}" for org, name, rev in re.findall(r":: (\S+)#(\S+);(\S+): ", output)}
        named = [str(a) for a in missing if str(a) in unresolved]
        raise JarsMissing(named or [str(a) for a in missing], _reason(output))
    other = [a for a in artifacts if hashlib.sha256((folder / a.file_name).read_bytes()).hexdigest() != a.sha256]
    if other:
        raise JarsMissing([str(a) for a in other], "What came is not what testbed/jars.lock pins (SHA-256 differs).")
    shutil.rmtree(ivy)


def _artifact(a: Artifact) -> str:
    classifier = f" m:classifier={quoteattr(a.classifier)}" if a.classifier else ""
    return f"<artifact name={quoteattr(a.name)} type={quoteattr(a.ext)} ext={quoteattr(a.ext)}{classifier}/>"


def _reason(output: str) -> str:
    """The lines of Ivy's output that say why: an exception if there was one, else what it tried."""
    lines = [line.strip() for line in output.splitlines()]
    telling = [line for line in lines if re.search(r"Exception|Server access error|not found|FAILED", line)]
    return "\n".join(f"  Ivy: {line}" for line in dict.fromkeys(telling[:4])) or f"  Ivy: {output.strip()[-300:]}"


def _ivy_jar() -> Path:
    found = [jar for jar in pyspark_jars() if jar.name.startswith("ivy-")]
    if not found:
        raise JarsMissing(["org.apache.ivy:ivy"], "PySpark is installed without its jars: run `make setup`.")
    return found[-1]
