"""The only room that imports confluent_kafka: questions to a cluster, and the one commit to a group."""
