"""Spark jobs that this package brings."""
