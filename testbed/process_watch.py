"""Command lines and environments of processes, sampled while they run: what anybody on the machine could have seen."""

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

_EVERY_S = 0.1


class ProcessWatch:
    """Watches in a `with` block the processes that have `mark` in their environment, which children inherit.

    :ivar seen: of each process, by its id: every different command line and environment, as they are in /proc.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark.encode()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.seen: dict[int, set[tuple[bytes, bytes]]] = {}

    @property
    def commands(self) -> set[str]:
        return {_words(command) for found in self.seen.values() for command, _ in found}

    def holding(self, secret: bytes) -> list[str]:
        """Command lines of the processes in whose command line or environment the secret was."""
        held = [c for found in self.seen.values() for c, environment in found if secret in c + environment]
        return sorted({_words(command) for command in held})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        others: set[str] = set()  # a process has the mark from its beginning, or never
        while not self._over.wait(_EVERY_S):
            there = {name for name in os.listdir("/proc") if name.isdigit()}
            others &= there
            for name in there - others:
                with suppress(OSError):  # it has ended meanwhile
                    environment = Path("/proc", name, "environ").read_bytes()
                    if self._mark not in environment:
                        others.add(name)
                    else:
                        command = Path("/proc", name, "cmdline").read_bytes()
                        self.seen.setdefault(int(name), set()).add((command, environment))


def _words(command: bytes) -> str:
    return command.replace(b"\0", b" ").decode(errors="replace").strip()
