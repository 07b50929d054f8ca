"""Airflow sensors. They wait in the triggerer."""
