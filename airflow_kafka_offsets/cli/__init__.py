"""The command ``kafka-offsets`` shows what log and cluster have. It changes no pipeline: a run's conf does."""
