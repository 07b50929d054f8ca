"""Airflow triggers: what looks at Kafka while a sensor is deferred, and what an asset watcher runs."""
