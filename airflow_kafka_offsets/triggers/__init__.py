"""Airflow triggers: the waits of deferred sensors and of asset watchers."""
