# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""A write that is tried again: another writer was in the way."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

from airflow_kafka_offsets.spark.errors import BatchError

log = logging.getLogger(__name__)

TRIES = 10
_NAMES = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]|\b(\w+Exception)\b")
Answer = TypeVar("Answer")


def try_again(write: Callable[[int], Answer], is_conflict: Callable[[Exception], bool], why: str) -> Answer:
    """What ``write`` returns. It is called again after a conflict, with the number of the try.

    :param why: is logged before each further try.
    """
    for tries in range(1, TRIES):
        try:
            return write(tries)
        except Exception as error:
            if isinstance(error, BatchError) or not is_conflict(error):
                raise
            names = ", ".join(sorted(names_of(error.__cause__ or error)))
            log.info("%s%s", why, names and f" ({names})")
            time.sleep(random.uniform(0, min(5.0, 0.1 * 2**tries)))
    return write(TRIES)


def names_of(error: BaseException) -> set[str]:
    """What an error of Spark is called: its conditions, and the Java classes of it and its causes.

    Over Spark Connect only the text has them.
    """
    found = {name for match in _NAMES.findall(str(error)) for name in match if name}
    java: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    while java is not None:
        found.add(java.getClass().getSimpleName())
        java = java.getCause()
    return found
