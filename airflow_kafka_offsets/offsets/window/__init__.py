"""Windows of time: their names, which of them overlap, whether one is complete, and what came late."""
