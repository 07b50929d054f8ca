"""Twenty brokers that have just started, each asked for a group's offsets at once.

The admin client's call for it crashed on 7 of 19 such brokers (confluentinc/librdkafka#5040). Three of them are in
``tests/contract/test_group_of_new_broker.py``, where everybody runs them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.broker import KafkaBroker
from testbed.cache import Say
from testbed.java import Java
from tests.cluster.group_process import ask_new_broker


@pytest.mark.parametrize("number", range(20))
def test_no_process_ends_that_asks_a_new_broker_for_a_group(java: Java, say: Say, tmp_path: Path, number: int) -> None:
    broker = KafkaBroker(tmp_path / "kafka", java=java, say=say, loaded_groups=False)
    ask_new_broker(broker, write_first=number % 2 == 1)
