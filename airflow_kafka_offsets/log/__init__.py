"""A pipeline is a numbered log of batches: names that are created once, in the checkpoint location."""
