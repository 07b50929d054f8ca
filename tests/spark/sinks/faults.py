"""Where a driver can be cut off, made observable without a change of the product. Runs in the child.

- Each file or folder that the JVM creates, renames or deletes is a step: a file system of our own counts them, compiled
  by the Janino that Spark has with it. This finds the steps inside of Spark's, Delta's and Iceberg's commits, too.
- Each call of Python's to a database is a step.
- So is a row of the records, and the look.

A step can end a driver in three ways. `kill`: SIGKILL to its whole process group. `dead`: from this step on nothing
that it does arrives any more, which to the output is the same, in a tenth of the time. `once`: this step fails and all
else works, so that whatever cleans up after an error does its part.
"""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import py4j.java_gateway
from pyspark.sql import SparkSession

# PySpark's own hooks into the JVM keep their names; `save` is the executors' write into a staging table.
DATABASE_CALLS = {"getConnection", "execute", "executeQuery", "commit", "rollback", "save"}

FILE_SYSTEM = """
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

public class SteppedFileSystem extends LocalFileSystem {
  public static volatile List steps = new ArrayList();
  public static volatile int at = -1;
  public static volatile String how = "";
  public static volatile boolean counts = false;

  static void step(String what, Path path) throws IOException {
    if (!counts) return;
    int number;
    synchronized (SteppedFileSystem.class) {
      number = steps.size();
      steps.add(what + " " + path.toUri().getPath());
    }
    if (at < 0 || number < at || (how.equals("once") && number > at)) return;
    if (how.equals("kill")) {
      if (number > at) { try { Thread.sleep(600000L); } catch (InterruptedException e) { } }
      try { new ProcessBuilder(new String[] {"kill", "-9", "--", "-" + System.getProperty("steps.group")}).start(); }
      catch (IOException e) { Runtime.getRuntime().halt(137); }
      try { Thread.sleep(600000L); } catch (InterruptedException e) { }
    }
    throw new IOException("step " + number + " failed: " + what + " " + path);
  }

  public FSDataOutputStream create(Path f, FsPermission permission, boolean overwrite, int bufferSize,
      short replication, long blockSize, Progressable progress) throws IOException {
    step("create", f);
    return super.create(f, permission, overwrite, bufferSize, replication, blockSize, progress);
  }

  public FSDataOutputStream createNonRecursive(Path f, FsPermission permission, boolean overwrite, int bufferSize,
      short replication, long blockSize, Progressable progress) throws IOException {
    step("create", f);
    return super.createNonRecursive(f, permission, overwrite, bufferSize, replication, blockSize, progress);
  }

  public boolean rename(Path from, Path to) throws IOException {
    step("rename", to);
    return super.rename(from, to);
  }

  public boolean delete(Path f, boolean recursive) throws IOException {
    step("delete", f);
    return super.delete(f, recursive);
  }

  // Of Hadoop's other interface, which Delta writes its log by.
  protected FSDataOutputStream primitiveCreate(Path f, FsPermission permission, EnumSet flags, int bufferSize,
      short replication, long blockSize, Progressable progress, Options.ChecksumOpt checksum) throws IOException {
    step("create", f);
    return super.primitiveCreate(f, permission, flags, bufferSize, replication, blockSize, progress, checksum);
  }

  protected void rename(Path from, Path to, Options.Rename[] options) throws IOException {
    step("rename", to);
    super.rename(from, to, options);
  }
}

public class SteppedFileContext extends DelegateToFileSystem {
  public SteppedFileContext(URI uri, Configuration conf) throws IOException, URISyntaxException {
    super(uri, FileSystem.get(uri, conf), conf, "file", false);
  }
}
"""


class Dead(Exception):
    """What a driver that was ended `dead` gets from a database, whatever it calls."""


@dataclass
class Steps:
    """The steps of one JVM: `begin`, do the work, `end`."""

    spark: SparkSession
    calls: list[str] = field(default_factory=list)
    _fields: Callable[[str], Any] = field(init=False)
    _at: int | None = field(default=None, init=False)
    _how: str = field(default="", init=False)
    _counts: bool = field(default=False, init=False)
    _connections: list[Any] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        jvm = self.spark._jvm
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(FILE_SYSTEM)
        loader = compiler.getClassLoader()
        conf = self.spark.sparkContext._jsc.hadoopConfiguration()
        conf.setClassLoader(loader)
        conf.set("fs.file.impl", "SteppedFileSystem")
        conf.set("fs.AbstractFileSystem.file.impl", "SteppedFileContext")
        # The cache has an ordinary one. Whoever asks next gets ours, and so does everybody after.
        jvm.org.apache.hadoop.fs.FileSystem.closeAll()
        system = jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI("file:///"), conf)
        assert system.getClass().getName() == "SteppedFileSystem"
        jvm.java.lang.System.setProperty("steps.group", str(os.getpgid(0)))
        self._fields = loader.loadClass("SteppedFileSystem").getField
        _watch_calls(self)

    def begin(self, fault: dict[str, Any] | None) -> None:
        """`fault`: {"on": "files" | "calls", "at": number of the step, "how": "kill" | "dead" | "once"}"""
        on, at, how = (fault["on"], fault["at"], fault["how"]) if fault else ("", -1, "")
        self._fields("steps").set(None, self.spark._jvm.java.util.ArrayList())
        self._fields("at").set(None, at if on == "files" else -1)
        self._fields("how").set(None, how)
        self._fields("counts").set(None, True)
        self.calls.clear()
        self._at, self._how = (at, how) if on == "calls" else (None, "")
        self._counts = True

    def end(self) -> dict[str, list[str]]:
        """The steps that there were. Who was dead is alive again, and its connections are closed."""
        self._fields("counts").set(None, False)
        self._counts = False
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        return {"files": list(self._fields("steps").get(None)), "calls": list(self.calls)}

    def call(self, name: str, go_on: Callable[[], Any]) -> Any:
        if not self._counts:
            return go_on()
        number = len(self.calls)
        self.calls.append(name)
        if self._at is not None and (number == self._at or (number > self._at and self._how == "dead")):
            if self._how == "kill":
                kill_group()
            raise Dead(f"call {number} failed: {name}")
        result = go_on()
        if name == "getConnection":
            self._connections.append(result)
        return result


def kill_group() -> None:
    """This process, its JVM and all else that it started."""
    os.killpg(os.getpgid(0), signal.SIGKILL)
    time.sleep(600)


def _watch_calls(steps: Steps) -> None:
    plain = py4j.java_gateway.JavaMember.__call__

    def call(member: Any, *arguments: Any) -> Any:
        if member.name not in DATABASE_CALLS:
            return plain(member, *arguments)
        return steps.call(member.name, lambda: plain(member, *arguments))

    py4j.java_gateway.JavaMember.__call__ = call
