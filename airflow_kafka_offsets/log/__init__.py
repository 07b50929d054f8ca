"""The log of batches: its entries, the reads beside them, and where they lie in the work store."""
