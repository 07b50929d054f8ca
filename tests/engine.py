"""The one door between the suites and the engine: what they use of it, by the names that they know.

A suite imports from here and nowhere else, so that the engine's rooms can move without its tests.
"""

from __future__ import annotations

from airflow_kafka_offsets.pipeline.clean import KEPT_COMMITS as KEPT_COMMITS
from airflow_kafka_offsets.pipeline.clean import Removal as Removal
from airflow_kafka_offsets.pipeline.clean import find_old as find_old
from airflow_kafka_offsets.pipeline.clean import remove as remove
from airflow_kafka_offsets.pipeline.commit import CommitOutcome as CommitOutcome
from airflow_kafka_offsets.pipeline.commit import Handed as Handed
from airflow_kafka_offsets.pipeline.commit import commit_batch as commit_batch
from airflow_kafka_offsets.pipeline.commit import left_in_kafka as left_in_kafka
from airflow_kafka_offsets.pipeline.group import Cluster as Cluster
from airflow_kafka_offsets.pipeline.group import mirror as mirror
from airflow_kafka_offsets.pipeline.moves import OfGroup as OfGroup
from airflow_kafka_offsets.pipeline.moves import Reset as Reset
from airflow_kafka_offsets.pipeline.plan import Asker as Asker
from airflow_kafka_offsets.pipeline.plan import Assignment as Assignment
from airflow_kafka_offsets.pipeline.plan import plan_batch as plan_batch
from airflow_kafka_offsets.pipeline.preview import plan_offsets as plan_offsets
from airflow_kafka_offsets.pipeline.preview import preview as preview
from airflow_kafka_offsets.pipeline.redo import look_at_redo as look_at_redo
from airflow_kafka_offsets.pipeline.redo import take_for_redo as take_for_redo
from airflow_kafka_offsets.pipeline.reset import ResetOutcome as ResetOutcome
from airflow_kafka_offsets.pipeline.reset import reset_position as reset_position
from airflow_kafka_offsets.pipeline.said import committed_sentence as committed_sentence
from airflow_kafka_offsets.pipeline.said import first_sentence as first_sentence
from airflow_kafka_offsets.pipeline.said import last_sentence as last_sentence
from airflow_kafka_offsets.pipeline.skip import skip_batch as skip_batch
from airflow_kafka_offsets.pipeline.skip import skip_window as skip_window
from airflow_kafka_offsets.pipeline.status import position_of as position_of
from airflow_kafka_offsets.pipeline.surroundings import NO_AIRFLOW as NO_AIRFLOW
from airflow_kafka_offsets.pipeline.surroundings import NoAirflow as NoAirflow
from airflow_kafka_offsets.pipeline.window import plan_window as plan_window
