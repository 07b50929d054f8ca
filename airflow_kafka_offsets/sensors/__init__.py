"""Airflow sensors. They call the use cases in ``pipeline/``."""
