"""Run where the providers are installed: one run of a DAG to its end, then what else is asked for.

`run.py FILE DAG` and any of `clear:<task>` (clear it, and go on to the end) and `retry-lost` (the newest run goes on,
its worker being gone, in the place of a run of its own). Prints, as JSON, how each has ended.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from testbed.dag_runs import clear_tasks, continue_run, load_dag, newest_run, retry_lost_tasks, run_dag


def main(file: Path, dag_id: str, *orders: str) -> None:
    if "DATAPROC_ENDPOINT" in os.environ:
        from tests.submitting import dataproc

        dataproc.lead_to(os.environ["DATAPROC_ENDPOINT"])
    dag = load_dag(file, dag_id)
    ended = []
    if "retry-lost" in orders:
        run_id = newest_run(dag_id)
        retry_lost_tasks(dag, run_id)
        ended.append(continue_run(dag, run_id))
    else:
        ended.append(run_dag(dag))
    for order in orders:
        if order.startswith("clear:"):
            clear_tasks(dag, ended[-1].run_id, order.removeprefix("clear:"))
            ended.append(continue_run(dag, ended[-1].run_id))
    print(json.dumps([asdict(result) for result in ended]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
