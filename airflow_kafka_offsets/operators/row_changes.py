"""What the resolve task says where a run decodes with another schema than rows were written with before.

A new batch is compared with the batches before it, and one that is done again with its own rows. It is only a message:
a definition that is not there is not spoken of, and nothing that fails here fails a run.
"""

from __future__ import annotations

from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.log.read_reports import definitions_written
from airflow_kafka_offsets.stores.objects import read_object
from airflow_kafka_offsets.values.row_definition import RowDefinition, object_name
from airflow_kafka_offsets.values.schema_changes import older_versions, schema_changes


def row_changes(now: RowDefinition, batch: StoredBatch, is_new: bool) -> tuple[list[str], list[str]]:
    """Sentences on what has changed, and warnings where rows are written anew with an older version.

    :param is_new: whether no Spark job knows the batch yet.
    """
    try:
        written = [] if is_new else definitions_written(batch)
        wanted = [digest for digest in written or batch.log.planned.definitions if digest != now.digest]
        found = [read_object(batch.store, object_name(digest), RowDefinition.from_dict) for digest in wanted]
    except KafkaOffsetsError:
        return [], []
    before = [definition for definition in found if definition is not None]
    changes = dict.fromkeys(line for one in before for line in schema_changes(one, now))
    older = sorted({older for one in before for older in older_versions(one, now)}) if written else []
    return list(changes), [
        f"{batch.log.plan.batch} has rows that were written with version {was} of subject {subject}, and this run "
        f"writes them anew with version {is_now}, which is older: what only version {was} has will be missing. If "
        "that is not meant, clear the run with the DAG's newer version (in Airflow: Run with latest bundle version)."
        for subject, was, is_now in older
    ]
