"""The core: values and pure functions. No I/O, clock, logging, Airflow, confluent_kafka or pyspark in here."""
