"""``kafka-offsets``, and the same under ``airflow kafka-offsets``: the operators' functions for a terminal."""
