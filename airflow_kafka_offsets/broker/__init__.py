"""Everything that is asked of a Kafka cluster, and the one write. The only folder that imports confluent_kafka."""
