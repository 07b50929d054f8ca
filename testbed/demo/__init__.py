"""`make demo`: the main job on real parts, and checks of its promise that can fail.

A real broker (or yours, `KAFKA_BOOTSTRAP_SERVERS`), a real Airflow that runs the DAGs in `dags/`, and a real Spark.
Every figure is counted from the tables' files and from Kafka, not from what the package reports. With `UI=1` Airflow
stays up afterwards, until Ctrl-C.
"""
