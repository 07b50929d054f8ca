"""Records all the time, while the broker is paused and restarted too: each number once."""

from __future__ import annotations

import threading
from typing import Any, Self

from confluent_kafka import Producer

from testbed.topics import quiet

EACH_S = 0.5


class Steady:
    """Produces in a `with` block. An idempotent producer sends again what was not acknowledged, and doubles nothing.

    :param each: how many records every half second.
    :ivar produced: records 0 to this one less, known by their values.
    """

    def __init__(self, config: dict[str, Any], topic: str, partitions: int, each: int) -> None:
        sure = {"enable.idempotence": True, "linger.ms": 20, "message.timeout.ms": 300_000}
        self._producer = Producer({**config, **sure}, logger=quiet)
        self._topic, self._partitions, self._each = topic, partitions, each
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._produce, name="steady", daemon=True)
        self._refused: list[str] = []
        self.produced = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Returns when all that was produced is in Kafka.

        :raises RuntimeError: some of it is not.
        """
        self._over.set()
        self._thread.join()
        left = self._producer.flush(120)
        if left or self._refused:
            raise RuntimeError(f"{left} records are not in Kafka, and these were refused: {self._refused[:3]}")

    def _produce(self) -> None:
        while not self._over.wait(EACH_S):
            for number in range(self.produced, self.produced + self._each):
                partition = number % self._partitions
                self._producer.produce(self._topic, b"%d" % number, partition=partition, on_delivery=self._delivered)
            self.produced += self._each
            self._producer.poll(0)

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._refused.append(str(error))
