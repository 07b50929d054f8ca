"""Airflow hooks: connections, settings and the state of other runs, for the operators."""
