"""Airflow's shape of the core; thin."""
