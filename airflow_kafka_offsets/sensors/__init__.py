"""Airflow sensors. They call the engine in ``batch/``."""
