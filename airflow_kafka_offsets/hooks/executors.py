"""May this Airflow run tasks on several machines? What its configuration says, and what this process shows.

``[core] executor`` is the scheduler's setting. A worker does without it, and reads ``LocalExecutor`` then, Airflow's
default; pod templates for Kubernetes say so too. So a process that is itself a worker's counts, whatever is configured.
A task's own ``executor=`` is always one of those that are configured.
"""

from __future__ import annotations

import os
import re
import sys

from airflow_kafka_offsets.hooks.airflow_versions import conf

_LOCAL_EXECUTORS = {"LocalExecutor", "SequentialExecutor"}
# Set in what they start, by Airflow's executor for Kubernetes, and by those of Amazon's provider for ECS and Batch.
_MARKS = ("AIRFLOW_IS_K8S_EXECUTOR_POD", "AIRFLOW_IS_EXECUTOR_CONTAINER")


def runs_elsewhere() -> str:
    """What may run tasks on another machine, for a message; empty if all runs on this one."""
    configured = conf.get("core", "executor", fallback="LocalExecutor")
    names = [name.strip() for name in re.split("[,;]", configured) if name.strip()]
    # ``team=Executor``, ``team:Executor``, an alias (``alias:path.Executor``) or a path
    not_local = [name for name in names if re.split("[=:.]", name)[-1] not in _LOCAL_EXECUTORS]
    if not_local:
        return ", ".join(not_local)
    if sys.argv[2:3] == ["worker"]:  # ``airflow celery worker``; its tasks are forks of it
        return f"`airflow {sys.argv[1]} worker`"
    return next((mark for mark in _MARKS if os.environ.get(mark)), "")
