# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Progress lines: work that takes longer than two seconds logs how far it is, once a second.

Every layer may use it: nothing of this package is imported here. Quick work logs nothing::

    progress = Progress("look up ends", total=10_000)
    for chunk in chunks:
        ask(chunk)
        progress.add(len(chunk))  # look up ends: 3,500 of 10,000
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

QUIET_S = 2.0
EVERY_S = 1.0


class Progress:
    """How far one piece of work is. Made before its first attempt, so that a second one goes on counting.

    :param what: the work in words, as a verb: "look up ends".
    :param total: how much there is to do; ``None`` where that is not known.
    :param now: seconds of a clock that never goes back.
    """

    def __init__(
        self,
        what: str,
        total: int | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._total = total
        self._now = now
        self._begun = now()
        self._next = self._begun + QUIET_S
        self._done = 0
        self._lock = threading.Lock()  # chunks may be asked for by several threads

    def add(self, more: int = 1) -> None:
        """``more`` is done. The last line, where there were lines, says how long all of it took."""
        with self._lock:
            self._done += more
            at = self._now()
            is_last = self._done == self._total and self._next > self._begun + QUIET_S
            if at < self._next and not is_last:
                return
            self._next = at + EVERY_S
            took = f", {at - self._begun:.1f} s" if self._done == self._total else ""
            of = f" of {self._total:,}" if self._total is not None else ""
            line = f"{self._what}: {self._done:,}{of}{took}"
        log.info(line)
