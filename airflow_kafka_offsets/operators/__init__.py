"""Airflow operators. They call the use cases in ``pipeline/``."""
