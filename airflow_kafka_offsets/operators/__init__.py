"""Airflow operators. Each reads what Airflow gives it, lets the engine decide, and writes down what it decided."""
