"""``python -m tests.model.broken``: the model must notice each broken rule, or it shows nothing.

Each patch breaks one rule in a copy of the package, and the model explores the copy as it does in CI. What is noticed
depends on what is explored: by default the seed is fixed; ``SEED=7 python -m tests.model.broken`` explores otherwise,
``MODEL_EXAMPLES=3000`` more. Words after the command choose patches by their names. It takes some minutes, so it is no
part of ``make mutate``.

One rule may be broken without anybody being harmed: who holds a batch is courtesy. That it is *not* noticed shows that
the model's complaints are about safety. Left out: that two attempts with the highest number verify nothing, because both
have looked, and neither wrote.
"""

# ruff: noqa: E501 - a table

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

from tests.mutations.changes import Always, Change, Instead, Never, Rather, Without
from tests.mutations.patch import PACKAGE, Mutation, apply
from tests.mutations.running import copy_project


@dataclass(frozen=True)
class Broken:
    """:ivar harmless: it must not be noticed."""

    name: str
    patches: tuple[Mutation, ...]
    harmless: bool = False


def _broken(name: str, *patches: tuple[str, Change], harmless: bool = False) -> Broken:
    return Broken(name, tuple(Mutation(name, where, change) for where, change in patches), harmless)


BROKEN = (
    _broken("nothing", harmless=True),
    _broken("the holder is waited for", ("_is_held", Instead("is_running(holder.run)", "False")), harmless=True),
    _broken("the reads are verified", ("commit_batch", Never("require_report"))),
    _broken("the current plan is the one that was handed over", ("commit_batch", Never("plan_id"))),
    _broken("the highest attempt decides", ("_deciding", Rather("number < deciding[0].number", "if deciding:\n    if deciding[0].report:\n        break\n    deciding.clear()"))),
    _broken("what is done again is newer", ("commit_batch", Instead("again.attempts if again and again.by.run == me.run else None", "None"))),
    _broken("the splits of earlier plans are started", ("splits_to_start", Instead("{*splits_with_records(plan), *plan.overwrites}", "splits_with_records(plan)"))),
    _broken("a batch never has fewer splits", ("planned_anew", Instead("max(before.splits, fresh.splits)", "fresh.splits")), ("planned_anew", Instead("set(splits_to_start(before))", "{n for n in splits_to_start(before) if n < fresh.splits}"))),
    _broken("GroupMoved at resolve", ("_look", Never("group_moved"))),
    _broken("GroupMoved before the commit", ("commit_batch", Without("_refuse_foreign"))),
    _broken("GroupMoved before the group is written", ("_to_mirror", Never("foreign")), ("commit_batch", Without("_refuse_foreign"))),
    _broken("the first plan signs", ("_settle", Without("sign"))),
    _broken("the mirror looks at the log after the group", ("mirror", Never("pipeline.newest_commit(newest)"))),
    _broken("the mirror looks at the log again", ("mirror", Rather("after = pipeline.newest_commit(newest)", "after = newest"))),
    _broken("the next number is above the mark", ("Seen.next_number", Instead("max(newest.number or 0 if newest else 0, number_of(self.marked))", "newest.number or 0 if newest else 0"))),
    _broken("a run has its own batch", ("_decide", Instead("seen.own", "None"))),
    _broken("a run is bound once it has taken", ("_decide", Instead("next_step", "(own is None and batch is not None and asker.pipeline.bind(asker.run, batch)) or next_step"))),
    _broken("restart words add up", ("draft", Instead("start.applied if start.restart is None else (*start.applied, start.restart)", "() if start.restart is None else (start.restart,)"))),
    _broken("a batch planned anew goes on from where it began", ("_draft_anew", Instead("position_within(old, kept)", "kept"))),
    _broken("records that are gone are looked for", ("Records.there", Instead("not self.gone and (not self.another_log)", "True"))),
    _broken("what is verified and gone stays", ("_do", Never("not records.there and is_read(batch)"))),
    _broken("a redo writes down the attempts", ("_do_again", Instead("Taken(asker.me, asker.request.occasion.now_ms, highest_attempts(batch, splits))", "Taken(asker.me, asker.request.occasion.now_ms)"))),
    _broken("a committed batch is not planned anew", ("_refuse_words", Never("re_plan")), ("_do_again", Rather("plan = batch.log.plan", "plan = batch.log.plan\nif asker.request.words.re_plan:\n    return _replan(asker, seen, batch, planned_anew(plan, _draft_anew(asker, seen, batch), 're_plan'))"))),
    _broken("WorkStoreLost", ("_look", Never("has_succeeded_before"))),
    _broken("StoreBehindGroup", ("_look", Never("number_of"))),
    _broken("AnotherPipeline", ("_look", Without("refuse_another_pipeline"))),
    _broken("marks of a lost log are the position", ("_look", Never("told is not None")), ("_look", Never("has_succeeded_before"))),
    _broken("what a plan lacks keeps its offset", ("_with", Instead("{**inherited, **offsets}", "dict(offsets)"))),
    _broken("windows that overlap are refused", ("_settle", Never("others"))),
    _broken("a window is claimed before the others are looked at", ("_settle", Without("asker.pipeline.claim(claim, batch.log.plan_number)")), ("_settle", Rather("_in_the_way", "others = [] if given_up else _in_the_way(asker, claim)\nasker.pipeline.claim(claim, batch.log.plan_number)"))),
    _broken("a withdrawn window is planned anew", ("_do_again", Never("withdrawn"))),
    _broken("a window that a driver has begun is not withdrawn", ("_withdraw", Instead("batch.log.committed or has_begun(batch)", "batch.log.committed")), ("_withdraw", Instead("withdrawn is None or has_begun(batch)", "withdrawn is None"))),
    _broken("a driver looks before it writes", ("SplitAttempt.look", Always("rival is None and replaced is None"))),
    _broken("a driver looks at its report", ("SplitAttempt.report", Never("rival is not None or replaced is not None"))),
    _broken("nothing written is no write", ("Attempt.may_have_written", Always("wrote"))),
    _broken("UnknownOutput", ("refuse_unknown_output", Never("unknown"))),
    _broken("a batch that is done again knows those after it", ("_later_keys", Never("_is_committed"))),
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
            patched = apply(patch, copy / PACKAGE)
            (copy / PACKAGE / patched.file).write_text(patched.text)
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
