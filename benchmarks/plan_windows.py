"""How much cheaper many windows are together than a plan for each, on one broker in one run.

``python benchmarks/plan_windows.py [partitions] [windows]`` starts a broker, makes a topic with a record in each window
of each partition, and prints seconds for both ways and their ratio. The windows' counts must be the same.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from airflow_kafka_offsets import plan_offsets
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.offsets.request.scope import ScopeParameters
from airflow_kafka_offsets.pipeline.clock import now_ms
from airflow_kafka_offsets.pipeline.estimate import estimate_windows, window_moments
from airflow_kafka_offsets.pipeline.request import scope_for
from testbed.broker import KafkaBroker

HOUR = 3_600_000
TOPIC = "orders"


def main(partitions: int = 100, windows: int = 48) -> None:
    with KafkaBroker() as broker:
        broker.create_topic(TOPIC, partitions, {"retention.ms": "-1"})
        start = int(time.time() * 1000) // HOUR * HOUR - windows * HOUR
        times = [start + hour * HOUR for hour in range(windows)]
        broker.produce(TOPIC, [(p, None, b"x", moment) for p in range(partitions) for moment in times])

        began = time.perf_counter()
        now = now_ms()
        scope = scope_for(broker.client_config, ScopeParameters(topics=[TOPIC]))
        moments = window_moments(start, start + windows * HOUR, "hourly", "UTC", now)
        with KafkaCluster(broker.client_config) as cluster:
            together = estimate_windows(scope, cluster, moments, now_ms=now)
        shared_s = time.perf_counter() - began

        began = time.perf_counter()
        alone = [
            plan_offsets(
                broker.client_config,
                topics=[TOPIC],
                startup_mode="timestamp",
                startup_timestamp=moment,
                bounded_mode="timestamp",
                bounded_timestamp=moment + HOUR,
            )
            for moment in times
        ]
        each_s = time.perf_counter() - began

    counts = [window.record_count_upper_bound for window in together.windows]
    assert counts == [plan.record_count_upper_bound for plan in alone] == [partitions] * windows
    print(
        f"{windows} windows of {partitions} partitions: together {shared_s:.2f} s, a plan for each {each_s:.2f} s, "
        f"{each_s / shared_s:.1f} times as long"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
