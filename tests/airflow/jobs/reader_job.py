"""Stands for a PySpark job: ``reader_job.py OUTPUT IS_BROKEN TRY`` and the arguments of a plan.

It names itself in ``OUTPUT.jobs``, and waits as long as there is a file ``OUTPUT.hold``.
"""

import os
import sys
from pathlib import Path

from testbed.topics import wait_for
from tests.airflow.reader import read_batch

output, is_broken, number, *arguments = sys.argv[1:]
with Path(f"{output}.jobs").open("a") as log:
    log.write(f"{arguments[1]} {os.getpid()}\n")
hold = Path(f"{output}.hold")
wait_for("the job may read", lambda: not hold.exists(), 300)
read_batch(arguments, output)
sys.exit(is_broken == "True" and number == "1")
