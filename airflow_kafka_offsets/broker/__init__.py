"""The only room that imports confluent_kafka: what a cluster is asked, and the one commit to a group."""
