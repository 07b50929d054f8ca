"""A file that a DAG names and its worker reads: a schema, a plan."""

from __future__ import annotations

from pathlib import Path

from airflow_kafka_offsets.errors import InvalidRequest


def text_on_worker(subject: str, file: str) -> str:
    """What the file holds.

    :param subject: what begins the sentence that says what is wrong: ``value has the schema_file``.
    :raises InvalidRequest: it is not named from the root, or cannot be read.
    """
    path = Path(file)
    if not path.is_absolute():
        raise InvalidRequest((f"{subject} {str(path)!r}; give the whole path, from the root.",))
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(
            (f"{subject} {str(path)!r}, which this worker cannot read: {error}. Put it there.",)
        ) from None
