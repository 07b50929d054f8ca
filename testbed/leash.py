"""A child that ends when its parent does, however the parent ends.

`python leash.py PARENT_PID COMMAND...` starts the command in a session of its own, prints its pid, and waits. When it
ends, the leash ends with its status. When the parent is gone (kill -9 too), it ends the command. In either case it
then kills what the command has left behind: its process group, and on Linux its whole session.

Not PR_SET_PDEATHSIG: that is Linux's alone, and it fires when the *thread* that started the child ends. Not a pipe that
closes: a forked child of the parent would hold it open. The leash asks who its parent is, four times a second.
It imports the standard library only and is run with `-I -S`, so that it costs 20 ms and a few MB.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

POLL_S = 0.25


@dataclass(slots=True)
class Leashed:
    """A running command and its leash. `pid` is the command's, which leads its own session and process group."""

    pid: int
    leash: "subprocess.Popen[bytes]"

    @classmethod
    def start(cls, command: list[str], *, env: dict[str, str], log: Path, cwd: Path | None = None) -> "Leashed":
        """Run `command`; what it prints is added to `log`.

        :raises OSError: when it cannot be run.
        """
        own = [sys.executable, "-I", "-S", __file__, str(os.getpid())]
        with log.open("ab") as output:
            leash = subprocess.Popen(
                [*own, *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                env=env,
                cwd=cwd,
                start_new_session=True,  # Ctrl-C in the terminal is the parent's to handle, in its order
            )
        assert leash.stdout is not None
        with leash.stdout as answer:
            pid = answer.read().strip()
        if not pid:
            leash.wait()
            raise OSError(f"could not start {command[0]}: see {log}")
        return cls(int(pid), leash)

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return self.leash.poll()

    def signal(self, number: int) -> None:
        """To the whole process group of the command; no error if it has ended."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def stop(self, timeout_s: float = 20.0) -> None:
        """Ask it to end, and kill it if it has not within the time. Returns when nothing of it is left."""
        self.signal(signal.SIGCONT)  # a stopped process does not hear SIGTERM
        self.signal(signal.SIGTERM)
        try:
            self.leash.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """SIGKILL. Returns when it is gone."""
        self.signal(signal.SIGKILL)
        self.leash.wait()


def _main(parent: int, command: list[str]) -> int:
    if os.getppid() != parent:  # it died before this line
        return 1
    output = sys.stderr.fileno()
    child = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    print(child.pid, flush=True)
    os.dup2(output, sys.stdout.fileno())  # closes the pipe on which the parent reads the pid
    while True:
        try:
            status = child.wait(POLL_S)
        except subprocess.TimeoutExpired:
            if os.getppid() == parent:
                continue
            status = -signal.SIGKILL
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        _kill_session(child.pid)
        return status if status >= 0 else 128 - status


def _kill_session(leader: int) -> None:
    """What has made process groups of its own (Airflow's tasks) is still in the session. Only Linux can list it."""
    left = True
    while left:  # until none is left: one of them may have forked meanwhile
        left = False
        for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
            with suppress(ProcessLookupError, PermissionError):
                if name.isdigit() and os.getsid(int(name)) == leader and not _is_dead(name):
                    os.kill(int(name), signal.SIGKILL)
                    left = True


def state_of(process: str) -> str:
    """`R`, `S`, `T`, `Z`, … as Linux says it; `X` where there is none any more.

    :param process: its folder, `/proc/<pid>`, or a thread's, `/proc/<pid>/task/<id>`.
    """
    try:
        with open(f"{process}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def _is_dead(pid: str) -> bool:
    """A zombie, which its parent has not buried yet."""
    return state_of(f"/proc/{pid}") in "ZX"


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which the command would inherit
    sys.exit(_main(int(sys.argv[1]), sys.argv[2:]))
