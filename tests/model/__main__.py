"""``python -m tests.model [worlds] [first seed] [sequence | window] [theme …]``."""

import sys
import time
from collections import Counter

from tests.model.people import THEMES
from tests.model.run import run_world

words = sys.argv[1:]
numbers = [int(word) for word in words if word.isdecimal()]
worlds, first = (*numbers, 300, 0)[:2] if len(numbers) != 1 else (numbers[0], 0)
for kind in [word for word in words if word in ("sequence", "window")] or ("sequence", "window"):
    counts: Counter[str] = Counter()
    began = time.process_time()
    for seed in range(first, first + worlds):
        world = run_world(kind, seed, *(word for word in words if word in THEMES))
        is_late = bool(world.bad and world.tables.late_swaps)
        counts += world.counts
        counts["batches committed"] += sum(b.is_committed for p in world.pipelines for b in world.batches(p))
        counts["WRONG BY A LATE SWAP into a table that fences nothing"] += is_late
        if world.bad and not is_late:
            counts["WRONG"] += 1
            print(f"{kind} {seed}: {world.bad[:2]}", flush=True)
    print(f"{kind}: {worlds} worlds from seed {first} in {time.process_time() - began:.0f} s")
    print("\n".join(f"  {number:7,} {name}" for name, number in sorted(counts.items())), flush=True)
