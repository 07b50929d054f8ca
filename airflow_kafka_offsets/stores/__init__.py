"""The work store: write-once objects under one root; plans, receipts, read reports. All of its I/O is in here.

Used by the worker (an Airflow ``ObjectStoragePath``) and by the Spark driver (no Airflow installed): nothing in this
folder imports Airflow, the root is any path object.
"""
