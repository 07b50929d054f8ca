"""Each task's text in Airflow's UI (``doc_md``), unless the DAG's author gives another one."""

from __future__ import annotations

from airflow_kafka_offsets.errors import docs_page


def _task_doc(text: str, page: str) -> str:
    return (
        f"{text}\n\nIf it fails, its message begins with a code such as `AKO-202`; `kafka-offsets explain AKO-202` "
        f"prints the page of that code: what it means, how to look, each way out ({docs_page('errors/README')}).\n\n"
        f"Read on: {docs_page(page)}\n"
    )


RESOLVE_DOC = _task_doc(
    "Decides what this run reads: a start and an end offset for each partition, put on record as a batch. A retry or a "
    "clear reads the same offsets.\n\n"
    "- **Log**: the first line says what the run does and why; then a table of the largest partitions; the last line "
    "says in one sentence what is read, lost and skipped.\n"
    "- **XCom**: `summary` has those two sentences; `plan` the batch; `return_value` the arguments of each Spark job.",
    "log",
)
COMMIT_DOC = _task_doc(
    "Commits the batch, if the Spark jobs' reports show that exactly its records were read. Then the consumer group "
    "follows. It can be tried again at any time.\n\n"
    "- **Log**: a table of the group's offsets before and after; the last line says in one sentence what was "
    "committed, lost and skipped, and what is left.\n"
    "- **XCom**: `summary` has that sentence.",
    "log",
)
SPARK_DOC = _task_doc(
    "Runs one Spark job for each split of the batch. The map index names the batch and the split. A retry finds the "
    "driver that still runs this plan; a clear reads and writes the split again, into the same place.",
    "sinks",
)
PARTITIONS_DOC = _task_doc(
    "Waits until the topics exist, have enough partitions, and each partition has a leader. It reads nothing.", "log"
)
LAG_DOC = _task_doc(
    "Waits until enough records are unread, or one of them is old enough. It reads nothing and never joins the group.",
    "log",
)
GROUP_EMPTY_DOC = _task_doc(
    "Waits until the consumer group has no live member, so that its offsets can be set. It reads nothing and never "
    "joins the group.",
    "take-over",
)
COMMITTED_DOC = _task_doc(
    "Waits until another pipeline has committed up to a batch, up to offsets, or up to a time. It reads that "
    "pipeline's log.",
    "sensors",
)
WINDOW_DOC = _task_doc(
    "Waits until no partition is expected to get more records from before the window's end. It reads nothing.",
    "windows",
)
