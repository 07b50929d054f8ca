"""The Spark job of ``kafka_spark_batch(merge=…)``: committed batches from the log table into the entity table."""

from airflow_kafka_offsets.spark.jobs.program import run
from airflow_kafka_offsets.spark.merge import merge_batches

if __name__ == "__main__":
    run(merge_batches)
