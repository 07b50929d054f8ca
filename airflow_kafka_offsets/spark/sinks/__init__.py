"""Sinks: what writes the rows of a batch under its key, and reads them back."""
