"""The log of a batch and of a pipeline, as values: what may be appended when, and what a run has to do."""
