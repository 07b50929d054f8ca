"""``python -m tests.model.broken``: the model must notice each broken rule, or it shows nothing.

Each patch breaks one rule in a copy of the package, and the model explores the copy as it does in CI. What is noticed
depends on what is explored: by default the seed is fixed; ``SEED=7 python -m tests.model.broken`` explores otherwise,
``MODEL_EXAMPLES=3000`` more. Words after the command choose patches by their names. It takes some minutes, so it is no
part of ``make mutate``.

One rule may be broken without anybody being harmed: who holds a batch is courtesy. That it is *not* noticed shows that
the model's complaints are about safety. Left out: that two attempts with the highest number verify nothing, because both
have looked, and neither wrote.
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
from tests.mutations.mutations import Mutation
from tests.mutations.patch import PACKAGE, apply

COMMIT, PLAN, WINDOW, GROUP = "pipeline/commit.py", "pipeline/plan.py", "pipeline/window.py", "pipeline/group.py"
ATTEMPTS, READS, VERIFY = "stores/attempts.py", "stores/reads.py", "offsets/reads/verify.py"
LOG, ANEW = "offsets/batch/log.py", "offsets/batch/anew.py"


@dataclass(frozen=True)
class Broken:
    """:ivar harmless: it must not be noticed."""

    name: str
    patches: tuple[Mutation, ...]
    harmless: bool = False


def _broken(name: str, *patches: tuple[str, str, str], harmless: bool = False) -> Broken:
    return Broken(name, tuple(Mutation(name, *patch) for patch in patches), harmless)


BROKEN = (
    _broken("nothing", harmless=True),
    _broken("the holder is waited for", (LOG, "    return is_running(holder.run)\n", "    return False\n"), harmless=True),
    _broken("the reads are verified", (COMMIT, "        if require_report:\n", "        if False:\n")),
    _broken("the current plan is the one that was handed over", (COMMIT, "        if batch.log.plan.plan_id != handed.plan_id:\n", "        if False:\n")),
    _broken("the highest attempt decides", (READS, "        if deciding and number < deciding[0].number:\n            break\n", "        if deciding and deciding[0].report:\n            break\n        deciding.clear()\n")),
    _broken("what is done again is newer", (COMMIT, "require_read(batch, again.attempts if again and again.by.run == me.run else None)", "require_read(batch)")),
    _broken("the splits of earlier plans are started", ("offsets/plan/splits.py", "sorted({*splits_with_records(plan), *plan.overwrites})", "sorted(splits_with_records(plan))")),
    _broken("a batch never has fewer splits", (ANEW, "splits=max(before.splits, fresh.splits)", "splits=fresh.splits"), (ANEW, "set(before.splits_to_start()) - splits_with_records(widened)", "{n for n in before.splits_to_start() if n < fresh.splits} - splits_with_records(widened)")),
    _broken("GroupMoved at resolve", (PLAN, 'if foreign and request.policies.group_moved == "fail" and', "if False and")),
    _broken("GroupMoved before the commit", (COMMIT, "        _refuse_foreign(batch, cluster, me)\n", "")),
    _broken("GroupMoved before the group is written", (GROUP, "    if foreign:\n        raise group_moved(newest.log.plan.asked.group_id", "    if False:\n        raise group_moved(newest.log.plan.asked.group_id"), (COMMIT, "        _refuse_foreign(batch, cluster, me)\n", "")),
    _broken("the first plan signs", (PLAN, "        sign(asker.cluster, asker.request, asker.signature, seen.held, _kept_now(asker, seen), seen.after)\n", "        pass\n")),
    _broken("the mirror looks at the log after the group", (GROUP, "newest = as_if or pipeline.newest_commit(newest) or newest", "newest = as_if or newest")),
    _broken("the mirror looks at the log again", (GROUP, "        after = pipeline.newest_commit(newest)\n", "        after = newest\n")),
    _broken("the next number is above the mark", (PLAN, "max(newest.number or 0 if newest else 0, number_of(self.marked)) + 1", "(newest.number or 0 if newest else 0) + 1")),
    _broken("a run has its own batch", (PLAN, "    own = seen.own\n", "    own = None\n")),
    _broken("a run is bound once it has taken", (PLAN, "    step = next_step(\n", "    if own is None and batch is not None:\n        asker.pipeline.bind(asker.run, batch)\n    step = next_step(\n")),
    _broken("restart words add up", ("pipeline/draft.py", "restarts=start.applied if start.restart is None else (*start.applied, start.restart)", "restarts=() if start.restart is None else (start.restart,)")),
    _broken("a batch planned anew goes on from where it began", (PLAN, "start = Start(position_within(old, kept), kept=kept,", "start = Start(kept, kept=kept,")),
    _broken("records that are gone are looked for", ("pipeline/records.py", "return not self.gone and not self.another_log", "return True")),
    _broken("what is verified and gone stays", (PLAN, "    if not records.there and is_read(batch):\n", "    if False:\n")),
    _broken("a redo writes down the attempts", (PLAN, "Taken(asker.me, asker.request.occasion.now_ms, highest_attempts(batch, splits))", "Taken(asker.me, asker.request.occasion.now_ms)")),
    _broken("a committed batch is not planned anew", (PLAN, '    if words.re_plan and isinstance(step, DoAgain | Leave):\n        raise BatchClosed("re_plan", str(name), "it is committed")\n', ""), (PLAN, '    """A committed batch once more; where its records are gone, what is written stays."""\n    plan = batch.log.plan\n', '    plan = batch.log.plan\n    if asker.request.words.re_plan:\n        return _replan(asker, seen, batch, planned_anew(plan, _draft_anew(asker, seen, batch), "re_plan"))\n')),
    _broken("WorkStoreLost", (PLAN, "if restart is None and told is None and asker.run and asker.around.has_succeeded_before(asker.run):", "if False:")),
    _broken("StoreBehindGroup", (PLAN, "    elif number_of(seen.marked) > _last_number(newest):\n", "    elif False:\n")),
    _broken("AnotherPipeline", (PLAN, "        refuse_another_pipeline(request, signature, follows)\n", "")),
    _broken("marks of a lost log are the position", (PLAN, "    if newest is None and told is not None:\n", "    if False:\n"), (PLAN, "if restart is None and told is None and asker", "if False and asker")),
    _broken("what a plan lacks keeps its offset", ("offsets/plan/position.py", "    offsets = {**inherited, **offsets}\n", "    offsets = dict(offsets)\n")),
    _broken("windows that overlap are refused", (WINDOW, "    if others:\n        raise WindowOverlaps", "    if False:\n        raise WindowOverlaps")),
    _broken("a window is claimed before the others are looked at", (WINDOW, "    asker.pipeline.claim(claim)\n    given_up = batch.log.plan.empty and batch.log.plan.reason is not None  # else two that have begun block each other\n    others = [] if given_up else _in_the_way(asker, claim)\n", "    given_up = batch.log.plan.empty and batch.log.plan.reason is not None\n    others = [] if given_up else _in_the_way(asker, claim)\n    asker.pipeline.claim(claim)\n")),
    _broken("a withdrawn window is planned anew", (WINDOW, 'raise BatchClosed("skip", request.words.skip.batch, "it is committed; use re_plan")\n    records = look_for_records(plan, asker.cluster)\n    if request.words.re_plan or plan.withdrawn:', 'raise BatchClosed("skip", request.words.skip.batch, "it is committed; use re_plan")\n    records = look_for_records(plan, asker.cluster)\n    if request.words.re_plan:')),
    _broken("a window that a driver has begun is not withdrawn", (WINDOW, "    if batch.log.committed or has_begun(batch):\n", "    if batch.log.committed:\n"), (WINDOW, "    if withdrawn is None or has_begun(batch):\n", "    if withdrawn is None:\n")),
    _broken("a driver looks before it writes", (ATTEMPTS, "        if rival is None and replaced is None:\n            return\n", "        return\n")),
    _broken("a driver looks at its report", (ATTEMPTS, "        if rival is not None or replaced is not None:\n            begin(", "        if False:\n            begin(")),
    _broken("nothing written is no write", (VERIFY, "        return self.report is None or self.report.wrote\n", "        return True\n")),
    _broken("UnknownOutput", ("spark/batch_job.py", "    if unknown:\n        raise UnknownOutput", "    if False:\n        raise UnknownOutput")),
    _broken("a batch that is done again knows those after it", ("spark/batch_job.py", "if later and _is_committed(batch) else later", "if False else later")),
)  # fmt: skip


def main(names: Sequence[str]) -> int:
    chosen = [broken for broken in BROKEN if not names or any(name in broken.name for name in names)]
    bad = 0
    with ThreadPoolExecutor(int(os.environ.get("WORKERS", "1"))) as pool:
        for broken, outcome in zip(chosen, pool.map(_outcome, chosen), strict=True):
            noticed = outcome.startswith("noticed")
            bad += noticed is broken.harmless
            print(f"{broken.name:52} {outcome}", flush=True)
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
