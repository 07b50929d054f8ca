# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What Airflow's provider discovery reads, while ``airflow`` itself is being imported: it must not import Airflow."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata; ``package-name`` must be the distribution's canonical name, or ``import airflow`` fails.

    There is no connection type of its own: the Kafka provider's ``kafka`` connection serves.
    """
    integration = "Kafka offsets"

    def modules(*names: str) -> list[dict[str, Any]]:
        return [{"integration-name": integration, "python-modules": [f"airflow_kafka_offsets.{n}" for n in names]}]

    return {
        "package-name": "airflow-kafka-offsets",
        "name": integration,
        "description": "Exactly-once batches from Kafka to tables, by Spark, scheduled by Airflow.",
        "integrations": [
            {
                "integration-name": integration,
                "external-doc-url": "https://kafka.apache.org/",
                "how-to-guide": ["/docs/first-batch.md", "/docs/existing-dag.md", "/docs/backfill.md"],
                "tags": ["software"],
            }
        ],
        "operators": modules(
            *("operators.batch", "operators.task_group", "operators.resolve", "operators.submit", "operators.connect"),
            *("operators.commit", "operators.merge"),
        ),
        "sensors": modules("sensors.partition_discovery", "sensors.window_complete"),
        "hooks": modules("hooks.kafka_offsets"),
        "extra-links": [
            "airflow_kafka_offsets.operators.links.PageLink",
            "airflow_kafka_offsets.operators.links.SparkLink",
        ],
        "triggers": modules("triggers.partition_discovery", "triggers.window_complete", "triggers.lag"),
        "config": {
            "kafka_offsets": {
                "description": "Where airflow-kafka-offsets keeps its log of batches, and what Airflow shows of it.",
                "options": {
                    "checkpoint_location": {
                        "description": "A folder, or an s3://, gs:// or abfs:// URI, that workers and Spark drivers "
                        "reach. s3://conn_id@bucket/folder takes the credentials of an Airflow connection.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "s3://aws_default@my-bucket/kafka_offsets",
                        "default": "",
                    },
                    "tabs": {
                        "description": "Whether a DAG, its runs and its tasks have a tab with the page of their "
                        "pipelines. Without it the page is at /kafka-offsets/dags/<DAG id> only.",
                        "version_added": "0.1.0",
                        "type": "boolean",
                        "example": None,
                        "default": "True",
                    },
                },
            }
        },
    }
