"""``python -m tests.model [worlds] [first seed] [sequence | window]``."""

import sys
import time
from collections import Counter

from tests.model.run import run_world

worlds, first = [*map(int, sys.argv[1:3]), 300, 0][:2] if len(sys.argv) != 2 else (int(sys.argv[1]), 0)
for kind in sys.argv[3:] or ("sequence", "window"):
    counts: Counter[str] = Counter()
    began = time.process_time()
    for seed in range(first, first + worlds):
        world = run_world(kind, seed)
        is_late = bool(world.bad and world.sink.late_swaps)
        counts += world.counts
        counts["batches committed"] += sum(batch.is_committed for batch in world.batches())
        counts["WRONG BY A LATE SWAP into a sink that fences nothing"] += is_late
        if world.bad and not is_late:
            counts["WRONG"] += 1
            print(f"{kind} {seed}: {world.bad[:2]}", flush=True)
    print(f"{kind}: {worlds} worlds from seed {first} in {time.process_time() - began:.0f} s")
    print("\n".join(f"  {number:7,} {name}" for name, number in sorted(counts.items())), flush=True)
