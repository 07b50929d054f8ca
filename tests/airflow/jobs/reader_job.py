"""Stands for a PySpark job: ``reader_job.py OUTPUT IS_BROKEN TRY`` and the arguments of a plan."""

import sys
from pathlib import Path

from tests.airflow.reader import read_batch

output, is_broken, number, *arguments = sys.argv[1:]
with Path(f"{output}.jobs").open("a") as log:
    log.write(f"{arguments[1]}\n")
read_batch(arguments, output)
sys.exit(is_broken == "True" and number == "1")
