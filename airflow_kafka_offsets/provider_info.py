"""What Airflow's provider discovery reads, while ``airflow`` itself is being imported: it must not import Airflow."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata; ``package-name`` must be the distribution's canonical name, or ``import airflow`` fails.

    No connection type of its own: the Kafka provider's ``kafka`` connection is reused.
    """
    integration = "Kafka offsets"
    return {
        "package-name": "airflow-kafka-offsets",
        "name": "Kafka offsets",
        "description": "Run Kafka-to-Spark batch jobs from Airflow without losing or double-reading records.",
        "integrations": [{"integration-name": integration, "external-doc-url": "", "tags": ["software"]}],
        "operators": [
            {
                "integration-name": integration,
                "python-modules": [
                    "airflow_kafka_offsets.operators.resolve",
                    "airflow_kafka_offsets.operators.commit",
                    "airflow_kafka_offsets.operators.submit",
                ],
            }
        ],
        "sensors": [
            {
                "integration-name": integration,
                "python-modules": [
                    "airflow_kafka_offsets.sensors.partition_discovery",
                    "airflow_kafka_offsets.sensors.offset_lag",
                    "airflow_kafka_offsets.sensors.window_complete",
                    "airflow_kafka_offsets.sensors.group_empty",
                    "airflow_kafka_offsets.sensors.batch_committed",
                ],
            }
        ],
        "hooks": [{"integration-name": integration, "python-modules": ["airflow_kafka_offsets.hooks.kafka_offsets"]}],
        "triggers": [
            {
                "integration-name": integration,
                "python-modules": [
                    "airflow_kafka_offsets.triggers.sensor_waits",
                    "airflow_kafka_offsets.triggers.lag_event",
                    "airflow_kafka_offsets.triggers.wait_for_batch",
                ],
            }
        ],
        "cli": ["airflow_kafka_offsets.cli.airflow_commands.get_cli_commands"],
        "config": {
            "kafka_offsets": {
                "description": "Where airflow-kafka-offsets keeps its log of batches, and how it starts drivers.",
                "options": {
                    "work_store": {
                        "description": "A folder, or an s3://, gs://, abfs:// or hdfs:// URI, for workers and drivers. "
                        "Default: the folder kafka_offsets in AIRFLOW_HOME. Where tasks may run on several machines, "
                        "that is refused, and so is a path: write file:///folder for a disk that they share.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "s3://aws_default@my-bucket/kafka_offsets",
                        "default": "",
                    },
                    "instance": {
                        "description": "What names this Airflow in plans, commits and groups; default: its base URL. "
                        "Another one on the same work store or group is refused until it says that it takes over.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "production",
                        "default": "",
                    },
                    "fast_start": {
                        "description": "Whether a Spark driver that runs on the worker, in client mode, maps Spark's "
                        "classes from an archive in the user's cache folder; the second run on a worker makes it.",
                        "version_added": "0.1.0",
                        "type": "boolean",
                        "example": "False",
                        "default": "True",
                    },
                    "retention_days": {
                        "description": "How many days of batches `kafka-offsets clean` keeps, without --keep. "
                        "Default: nothing is removed without --keep. Give more days than anybody clears an old run.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "90",
                        "default": "",
                    },
                },
            }
        },
    }
