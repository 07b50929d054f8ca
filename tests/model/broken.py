"""``python -m tests.model.broken``: the model must notice each broken rule, or it shows nothing.

Each patch breaks one rule in a copy of the package, and the model explores the copy as it does in CI. What is noticed
depends on what is explored: by default the seed is fixed; ``SEED=7 python -m tests.model.broken`` explores otherwise.
Words after the command choose patches by their names. It takes some minutes, so it is no part of ``make mutate``.

Where a rule is covered by another, the two are broken together, and their names say so. Not noticed so far, and left
out: row 5 (a moved parent is refused anyway), a landed commit that is not seen (the next run is refused, and asks a
person), the splits of a re-plan, and that the lowest turn goes on. Plain tests claim those. Rare ones (row 1, row 3 once
the chain has gone on, a re-plan after the commit, the position to mirror over, the fence alone, records that are gone, the
partitions that a plan lacks) take more examples than CI's: ``MODEL_EXAMPLES=3000``.
"""

# ruff: noqa: E501 - what is searched for is as long as the lines of the code are

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutations.__main__ import copy_project
from tests.mutations.mutations import COMMITS, COMMITTING, FROZEN, REPLAY, RESTORE, RUNS, Mutation
from tests.mutations.patch import PACKAGE, apply


@dataclass(frozen=True)
class Broken:
    name: str
    patches: tuple[Mutation, ...]


def _broken(name: str, *patches: tuple[str, str, str]) -> Broken:
    return Broken(name, tuple(Mutation(name, *patch) for patch in patches))


NO_PARENT = (COMMITTING, "        record.require_parent_or_own(plan)\n", "")
NO_PARENT_IN_STORE = (COMMITTING, "    record.require_parent_or_own(plan, checkpoint_only=True)\n", "")
NO_FENCE = (
    COMMITTING,
    "cluster.open_commit(group_id, fencing) as commit",
    'cluster.open_commit(group_id, "compare") as commit',
)
NO_SECOND_LOOK = (
    COMMITTING,
    "        _refuse_movement(group_id, before, cluster.committed(group_id, partitions, stable=False))\n",
    "",
)
NO_TURN_TO_COMMIT = (COMMITTING, "chain.turns.take(plan.run, is_alive)  # before the fence", "pass  # before the fence")
NO_SUPERSEDED = (REPLAY, "    if by is not None:\n", "    if False:\n")

BROKEN = (
    Broken("nothing", ()),
    _broken("row 1: a topic made anew", (COMMITS, "if planned_id is None or topic_id == planned_id:", "if True:")),
    _broken("row 2: base is end", (COMMITS, "mark.plan_id == plan.plan_id) or base == end)", "mark.plan_id == plan.plan_id) or True)")),
    _broken("row 3: keep", (COMMITS, '        return "keep"  # row 3\n', '        return "write"  # row 3\n')),
    _broken("row 4: base", (COMMITS, "if now == base and (base is None or", "if True and (base is None or")),
    _broken("row 6: anything else", (COMMITS, "    raise Refusal(\n        CommitConflict,\n        f\"{tp}: the group was at", "    return \"write\"\n    raise Refusal(\n        CommitConflict,\n        f\"{tp}: the group was at")),
    _broken("superseded", NO_SUPERSEDED),
    _broken("superseded, and the parent at the commit", NO_SUPERSEDED, NO_PARENT, NO_PARENT_IN_STORE),
    _broken("the parent at the commit", NO_PARENT, NO_PARENT_IN_STORE),
    _broken("the fence", NO_FENCE),
    _broken("the parent at the commit, and the fence", NO_PARENT, NO_PARENT_IN_STORE, NO_FENCE),
    _broken("the second look", NO_SECOND_LOOK),
    _broken("the second look at the reports", (COMMITTING, "        verify()\n        commit.commit()", "        commit.commit()")),
    _broken("the reports at all", (COMMITTING, "        if require_report:\n", "        if False:\n")),
    _broken("restore: the group moved", (RESTORE, "        and commit.offset != checkpoint.offsets[tp].group_offset\n", "        and False\n")),
    _broken("restore: another pipeline's mark", (RESTORE, " if mark.pipeline in here}", "}")),
    _broken("a plan that was replaced", (RUNS, "current is not None and current.plan.plan_id != plan.plan_id:\n        raise PlanReplaced", "False:\n        raise PlanReplaced")),
    _broken("replay: records that are gone", (REPLAY, "    if not gone:\n", "    if True:\n")),
    _broken("row 3: once the chain has gone on", (COMMITS, "if own_commit_on_record and (gone_on or (", "if own_commit_on_record and ((")),
    _broken("replaced while its commit landed", (FROZEN, "    if committed and committed.plan_id != stored.plan.plan_id:\n", "    if False:\n"), (FROZEN, "    committed = _committed_plan(store, run, cluster)\n    # A window", "    committed = kept.plan if has_committed(kept.plan, store, cluster) else None\n    # A window")),
    _broken("what a late job has begun", (COMMITTING, "            _refuse_left_over(plan, store)\n", ""), (RUNS, "current is not None and current.plan.plan_id != plan.plan_id:\n        raise PlanReplaced", "False:\n        raise PlanReplaced")),
    _broken("replay: a re-plan after the commit", (FROZEN, "    if request.re_plan and committed:\n", "    if False:\n")),
    _broken("windows: a rival that holds it", ("stores/windows.py", "            if rivals:\n", "            if False:\n")),
    _broken("windows: no position to mirror over", (COMMITS, "    if mark is not None and not mark.window:\n        return f", "    if False:\n        return f")),
    _broken("unblock: what it skips", ("offsets/unblock.py", "                    skipped=skipped,\n", "                    skipped=0,\n")),
    _broken("checkpoint: what the plan lacks", ("offsets/checkpoint.py", "offsets={**inherited, **kept},", "offsets=dict(kept),")),
)  # fmt: skip


def main(names: Sequence[str]) -> int:
    chosen = [broken for broken in BROKEN if not names or any(name in broken.name for name in names)]
    bad = 0
    with ThreadPoolExecutor(int(os.environ.get("WORKERS", "1"))) as pool:
        for broken, outcome in zip(chosen, pool.map(_outcome, chosen), strict=True):
            noticed = outcome.startswith("noticed")
            bad += noticed is not bool(broken.patches)
            print(f"{broken.name:42} {outcome}", flush=True)
    return int(bad > 0)


def _outcome(broken: Broken) -> str:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="broken-") as folder:
        copy = copy_project(Path(folder) / "copy")
        for patch in broken.patches:
            path = copy / PACKAGE / patch.file
            path.write_text(apply(patch, path.read_text()))
        environment = {**os.environ, "PYTHONPATH": str(copy), "MODEL_NO_SHRINK": "1"}
        seed = f"--hypothesis-seed={os.environ.get('SEED', '1')}"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", seed, "tests/model"]
        result = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    seconds = f"after {time.monotonic() - begun:.0f} s"
    if result.returncode == 0:
        return f"not noticed {seconds}"
    if result.returncode != 1 or "FAILED tests/model" not in result.stdout:
        return f"not tested: pytest ended with {result.returncode}\n{result.stdout[-1500:]}"
    said = re.search(r"^E   +(\w+(?:\.\w+)*: [^\n]*)", result.stdout, re.MULTILINE)
    return f"noticed {seconds}: {said[1][:200] if said else result.stdout[-1500:]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
