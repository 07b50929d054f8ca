"""A folder in the user's cache is whole or it is absent.

It is filled under another name and renamed when complete, so that Ctrl-C or a full disk leaves nothing that a later
run takes for the whole; a lock file keeps two processes from filling the same one. What is in it is the caller's affair
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Say = Callable[[str], None]


def silent(message: str) -> None:
    """A `say` that says nothing."""


def cache_root() -> Path:
    """`$XDG_CACHE_HOME/airflow-kafka-offsets`, by default under `~/.cache`: shared by all checkouts."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "airflow-kafka-offsets"


def whole_folder(
    name: str,
    fill: Callable[[Path], None],
    *,
    is_whole: Callable[[Path], bool],
    root: Path | None = None,
    say: Say = silent,
) -> Path:
    """The folder `name` of the cache; if it is absent or not whole, `fill` is called with an empty folder to make it.

    What `fill` raises is passed on, and nothing of its work stays.
    """
    root = root or cache_root()
    folder = root / name
    if is_whole(folder):
        return folder
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / f".{name}.lock", lambda: say(f"Waiting for another process that is making {name} …")):
        if is_whole(folder):  # made while this process waited for the lock
            return folder
        for leftover in root.glob(f".{name}.*.partial"):  # of a process that was killed: its lock is gone
            shutil.rmtree(leftover, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".partial", dir=root))
        try:
            fill(partial)
            partial.chmod(0o755)
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


@contextmanager
def _locked(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock at `path`; the system lets go of it when the process ends, however it ends."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
