"""Jobs that ``spark-submit`` takes as they are."""
