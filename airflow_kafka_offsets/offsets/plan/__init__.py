"""Request + the cluster's answers + the pipeline's position → the ranges of a batch, each with its reason."""
