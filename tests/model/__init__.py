"""The model: random interleavings of the real engine, with crashes and zombies between any two verbs.

``python -m tests.model 1000 7`` runs 1,000 worlds of each kind from seed 7 on.
"""
