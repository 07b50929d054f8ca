"""``python tests/browser/play_runs.py FILE RUNS``: users, and runs of DAGs, in the Airflow of the environment.

``RUNS`` is JSON: ``[dag_id, conf, records, state]`` for each run, where records come to the topic before the run; a run
without a DAG is records alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))  # behind what is installed

from confluent_kafka import Producer

from testbed.dag_runs import load_dag, run_dag

# What Airflow asks for before it shows a DAG with the tabs of plugins; and each person's own DAGs.
EVERYBODY = [("can_read", what) for what in ("DAG Runs", "Task Instances", "DAG Code", "Plugins", "Website", "XComs")]
RIGHTS = {
    "reader": [("can_read", f"DAG:{name}") for name in ("orders_to_lake", "orders_that_fail", "evil", "by_hour")],
    "other": [("can_read", "DAG:evil")],
}


def produce(count: int, at: str) -> None:
    """
    :param at: the time of the records; empty: now.
    """
    timestamp = datetime.fromisoformat(at).timestamp() if at else time.time()
    kafka = json.loads(json.loads(os.environ["AIRFLOW_CONN_KAFKA_DEFAULT"])["extra"])
    producer = Producer({"bootstrap.servers": kafka["bootstrap.servers"]})
    for n in range(count):
        partition = (0, 0, 0, 1, 1, 2)[n % 6]
        producer.produce("orders", str(n).encode(), partition=partition, timestamp=int(timestamp * 1000))
    producer.flush()


def add_users() -> None:
    """Those of the FAB login; the simple one has them in its settings."""
    if "fab" not in os.environ.get("AIRFLOW__CORE__AUTH_MANAGER", ""):
        return
    from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder

    with get_application_builder() as builder:
        security = builder.sm
        for name, rights in RIGHTS.items():
            role = security.find_role(name) or security.add_role(name)
            for right in (*EVERYBODY, *rights):
                security.add_permission_to_role(role, security.create_permission(*right))
            user = security.find_user(name) or security.add_user(name, name, name, f"{name}@example.org", role, name)
            assert user, name


def main(file: str, runs: str) -> None:
    add_users()
    dags: dict[str, Any] = {}
    for dag_id, conf, records, state in json.loads(runs):
        produce(records, conf.get("since", ""))
        if dag_id is not None:
            dags.setdefault(dag_id, load_dag(Path(file), dag_id))
            assert run_dag(dags[dag_id], conf=conf).state == state, (dag_id, conf)


if __name__ == "__main__":
    main(*sys.argv[1:])
