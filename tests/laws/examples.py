"""How many examples a law has: its own number, or with ``LAW_SHARE=0.2`` in the environment a fifth of it."""

from __future__ import annotations

import os

from hypothesis import settings

SHARE = float(os.environ.get("LAW_SHARE", "1"))


def of_examples(examples: int) -> settings:
    """A slow machine breaks no law: there is no deadline."""
    return settings(max_examples=max(10, int(examples * SHARE)))
