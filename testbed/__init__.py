"""The ground that the demo and the tests stand on: a Java, the jars, one real Kafka broker, and what Spark needs.

It is part of the repository, not of the wheel. It knows Kafka and Spark, and nothing of `airflow_kafka_offsets`, so
that what it shows about that package is not that package's own word.
"""
