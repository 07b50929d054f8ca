"""Request + what the cluster said + where the pipeline stands → the ranges of a batch, each with its reason."""
