"""Airflow operators. They call the engine in ``batch/``."""
