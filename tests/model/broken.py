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
    """:ivar harmless: it must not be noticed.

    :ivar possible: the model's events that the rule is about: no others happen then, and these in each example.
    """

    name: str
    patches: tuple[Mutation, ...]
    harmless: bool = False
    possible: str = ""


def _broken(name: str, *patches: tuple[str, Change], harmless: bool = False, possible: str = "") -> Broken:
    return Broken(name, tuple(Mutation(name, where, change) for where, change in patches), harmless, possible)


BROKEN = (
    _broken("nothing", harmless=True),
    _broken("the holder is waited for", ("_is_held", Instead("is_running(holder.run)", "False")), harmless=True),
    _broken("the reads are verified", ("decide_commit", Never("order.require_report"))),
    _broken("the current plan is the one that was handed over", ("decide_commit", Never("plan.plan_id != reference.plan_id"))),
    _broken("the highest attempt decides", ("attempts_of", Rather("number < deciding[0].number", "if deciding:\n    if deciding[0].report:\n        break\n    deciding.clear()"))),
    _broken("what is done again is newer", ("decide_commit", Instead("again.attempts if again and again.by.run == me.run else None", "None"))),
    _broken("the splits of earlier plans are started", ("Plan.splits_with_rows", Instead("set(self.overwrites)", "set()"))),
    _broken("a batch never has fewer splits", ("planned_anew", Instead("max(before.split_count, fresh.split_count)", "fresh.split_count")), ("planned_anew", Instead("_left_over(before, splits)", "tuple(n for n in _left_over(before, splits) if n < count)"))),
    _broken("GroupMoved at resolve", ("goes_on", Never("planned_here"))),
    _broken("GroupMoved before the commit", ("decide_commit", Never("foreign and _is_on_its_cluster(plan, s)")), possible="reset_by_a_person"),
    _broken("GroupMoved before the group is written", ("_offsets", Without("refuse_foreign_offsets")), ("decide_commit", Never("foreign and _is_on_its_cluster(plan, s)"))),
    _broken("the first plan signs", ("_Steps._sign", Without("sign(self.world.cluster, group_id, signature, held, self._saved_now(), on.after)"))),
    _broken("the mirror looks at the log after the group", ("follow", Rather("newest = pipeline.newest_commit(newest) or newest", "pass"))),
    _broken("the mirror looks at the log again", ("follow", Rather("after = pipeline.newest_commit(newest)", "after = newest"))),
    _broken("the next number is above the mark", ("GoesOn.next_number", Instead("max(newest, number_of(self.group_key))", "newest"))),
    _broken("a run has its own batch", ("_next_batch", Instead("log_now(order, s).own", "None"))),
    _broken("restart words add up", ("draft", Instead("start.applied if start.restart is None else (*start.applied, start.restart)", "() if start.restart is None else (start.restart,)"))),
    _broken("records that are gone are looked for", ("RecordsNow.missing", Rather("needed = hulls(plan.splits)", "return []"))),
    _broken("what is verified and gone stays", ("_take_what_is_there", Never("not unverified(plan, attempts)")), possible="recreate_topic"),
    _broken("what is gone shortens a batch in place", ("_take_what_is_there", Instead("shortened(plan, order.me, verified, records.log_starts, reason)", "planned_anew(plan, at_hand.fresh(), order.me, reason)"))),
    _broken("a verified split stays", ("_take_what_is_there", Instead("shortened(plan, order.me, verified, records.log_starts, reason)", "shortened(plan, order.me, {}, records.log_starts, reason)"))),
    _broken("rows of a topic that is gone stay", ("_take_what_is_there", Always("not at_hand.on or not _rows_without_records(at_hand)")), possible="recreate_topic retention"),
    _broken("a split that stays counts by its own attempt", ("_problems_of_split", Instead("_plan_that_counts(plan, number, highest)", "report.plan_id if number in plan.verified else plan.plan_id")), possible="retention"),
    _broken("a plan anew knows what drivers did", ("put_in_place", Instead("isinstance(question, HasBegun | Reports)", "False"))),
    _broken("drivers stop before it is looked at what they did", ("put_in_place", Instead("batch.append(batch.log.planned) if seen else batch", "batch"))),
    _broken("re_plan writes over no row whose record is gone", ("plan_anew", Instead("_rows_without_records(at_hand)", "[]"))),
    _broken("skip past an offset keeps what is verified", ("skipped", Instead("untouched if skip.named else {}", "{}"))),
    _broken("a redo writes down the attempts", ("do_again", Instead("s.need(HighestAttempts(batch, splits))", "{}"))),
    _broken("WorkStoreLost", ("goes_on", Never("has_succeeded_before")), possible="lose_store expire"),
    _broken("StoreBehindGroup", ("goes_on", Never("_last_number")), possible="lose_store copy_store"),
    _broken("AnotherPipeline", ("goes_on", Without("refuse_another_pipeline")), possible="lose_store"),
    _broken("marks of a lost log are the position", ("goes_on", Never("newest is None and by_group is not None")), ("goes_on", Never("has_succeeded_before")), possible="lose_store"),
    _broken("what a plan lacks keeps its offset", ("_with", Instead("{**inherited, **offsets}", "dict(offsets)")), possible="delete_topic add_partition_or_topic"),
    _broken("windows that overlap are refused", ("_Steps._claim", Never("others"))),
    _broken("a window is claimed before the others are looked at", ("_Steps._claim", Without("pipeline.claim")), ("_Steps._claim", Rather("_in_the_way", "others = self._in_the_way(name, claim)\npipeline.claim(name, claim.places, batch.log.plan_number)"))),
    _broken("a withdrawn window is planned anew", ("why_anew", Never("withdrawn"))),
    _broken("a window that a driver has begun is not withdrawn", ("_Steps._withdraw", Instead("batch.log.committed or has_begun(batch.store, batch.plan_object)", "batch.log.committed")), ("_Steps._withdraw", Instead("withdrawn is None or has_begun(batch.store, batch.plan_object)", "withdrawn is None"))),
    _broken("a window that a job may have begun is not withdrawn", ("_Steps._claim", Instead("is_new or self.order.request.jobs_tell", "True"))),
    _broken("a driver looks before it writes", ("SplitAttempt.look", Always("rival is None and replaced is None"))),
    _broken("a driver looks at its report", ("SplitAttempt.report", Never("rival is not None or replaced is not None"))),
    _broken("nothing written is no write", ("Attempt.may_have_written", Always("wrote"))),
    _broken("UnknownOutput", ("refuse_unknown_output", Never("unknown"))),
    _broken("a topic that the plan lacks is emptied in its own output", ("Batch.topics", Instead("self._plans", "[self.plan]")), possible="delete_topic add_partition_or_topic"),
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
        environment = {**os.environ, "PYTHONPATH": str(copy), "MODEL_NO_SHRINK": "1", "MODEL_POSSIBLE": broken.possible}
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
