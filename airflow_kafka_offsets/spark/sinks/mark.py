"""The mark: an output carries its pipeline's name, and no other pipeline writes it.

A folder has it as the file ``_kafka_offsets.json``, a table as the property ``kafka_offsets.pipeline``. It is part of
the output, so an alias, a link or another checkpoint location does not matter. The first batch writes it; then nothing
of another output may lie in the folder or around it, because readers of the one would see the other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from airflow_kafka_offsets.spark.errors import OtherOutput
from airflow_kafka_offsets.spark.sinks.contract import BATCH_COLUMN
from airflow_kafka_offsets.spark.sinks.folders import Folders

FILE = "_kafka_offsets.json"
PROPERTY = "kafka_offsets.pipeline"
REDACTED = "*********(redacted)"
"""What Spark shows of a property that looks like a secret to it: ``orders_hourly`` has ``url`` in it."""
_OWN_NAMES = (f"{BATCH_COLUMN}=", "_kafka_")
_TABLE_LOGS = ("_delta_log", "_spark_metadata", "metadata/*.metadata.json")


def refuse_other(output: str, name: str, pipeline: str, removal: str) -> None:
    """:raises OtherOutput: the name that the output carries is not this pipeline's."""
    if name not in (pipeline, REDACTED):
        raise OtherOutput(
            f"Cannot write {output}",
            f"It carries the name of pipeline {name!r}, and this is pipeline {pipeline!r}",
            f"Write to an output of its own; or, if {name!r} writes there no more, remove the mark: {removal}",
        )


def check_folder(folders: Folders, path: str, output: str, pipeline: str) -> bool:
    """Whether the folder carries this pipeline's name already.

    :raises OtherOutput: it carries another one's; or none, and something else lies in it or around it.
    """
    file = f"{path}/{FILE}"
    data = folders.read(file)
    if data is None:
        others = [p for p in folders.find(f"{path}/*") if not p.rpartition("/")[2].startswith(_OWN_NAMES)]
        refuse_surroundings(folders, path, output, others)
        return False
    try:
        name = json.loads(data)["pipeline"]
    except (ValueError, LookupError, TypeError):
        name = "?"
    refuse_other(output, name, pipeline, f"hadoop fs -rm '{file}'")
    return True


def mark_folder(folders: Folders, path: str, output: str, pipeline: str) -> None:
    """Write the mark, if the folder has none.

    :raises OtherOutput: as :func:`check_folder`; or another pipeline was faster.
    """
    if not check_folder(folders, path, output, pipeline):
        folders.create(f"{path}/{FILE}", json.dumps({"pipeline": pipeline}).encode())
        check_folder(folders, path, output, pipeline)


def refuse_surroundings(folders: Folders, path: str, output: str, others: Sequence[str]) -> None:
    """
    :param others: what lies in the folder and is not the sink's own.
    :raises OtherOutput: there is some, or the folder lies inside of another output.
    """
    what, remedy = f"Cannot write {output}", "Write to a folder of its own, beside it"
    for parent in folders.parents(path):
        if found := [sign for sign in (FILE, *_TABLE_LOGS) if folders.visible(f"{parent}/{sign}")]:
            raise OtherOutput(what, f"It lies inside of {parent}, which is an output itself ({found[0]})", remedy)
    if others:
        raise OtherOutput(what, f"Its folder has {', '.join(others[:3])}, which this sink has not written", remedy)
