# ruff: noqa: E501 - one twin a line
"""Broken twins: the real code without one rule. The model has to notice each.

A twin is an edit of the source of functions, so that it breaks just its rule. Where an edit does not apply any more, the
function was changed, and the twin has to follow.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from airflow_kafka_offsets.engine import by_hand, changes, commit, draft, group, look, mirror, resolve, windows
from airflow_kafka_offsets.log import clean, entries
from airflow_kafka_offsets.plan import body, ranges, window
from tests.model import scenes
from tests.model.driver import RULES
from tests.model.run import run_world
from tests.model.scenes import Scene, play
from tests.model.world import Kind

Edit = tuple[Any, str, str]


class Twin(NamedTuple):
    """
    :ivar edits: a function, a text in it, and what stands there instead; or a rule of the driver, left out.
    :ivar where: the scene that shows it, or the theme of random worlds.
    """

    edits: tuple[Edit | str, ...]
    where: Callable[[Scene], None] | str = "anything"


_UNVERIFIED: Edit = (commit._verified, "if problems:", "if False:")
_NEW_KEY: Edit = (draft.header, "old.key if again and old else ", "")
_NOT_AGAIN: Edit = (resolve._do, 'gone == "expired" and', "")
_OTHER_JOB: Edit = (commit._verified, "report.job != given.job", "False")
_HEADERS: Edit = (clean._names, 'if "-" in name', "")
_NO_ATTEMPT: tuple[Edit, ...] = (
    (by_hand.acknowledge, "after=highest,", "after=0,"),
    (entries.Plan.after.fget, "return self.acknowledged", "return 0"),
)
_LEFT: tuple[Edit, ...] = (
    (resolve._reprocess, "if batch.plan.require_report and not verdict.is_verified:", "if False:"),
    (clean._is_verified, "return ", "return True or "),
)
_EARLY: tuple[Edit, ...] = (
    (resolve.resolve, "look = Look(want, kafka)", "look = Look(want, kafka); log.early = want.window and log.batch_of_window(want.window)"),
    (windows.turn, "(number := log.batch_of_window(want.window))", "(number := log.early)"),
)  # fmt: skip
_NO_EMPTY: tuple[Edit, ...] = (
    (windows.turn, "number = 1 if", "if not body.offsets: return ''\n    number = 1 if"),
    (resolve.resolve, "if found is None:", "if found == '': return Nothing('')\n            if found is None:"),
)
_AT_USE: tuple[Edit, ...] = (
    (windows.plan_window, "covered.clamp(start_ms, tp, offset) for", "offset for"),
    (windows.plan_window, "covered.clamp(end_ms, tp, max(o, covered.offset_in(low, tp)))", "o"),
    (windows.plan_window, "end = covered.offset_in(high, tp)", "end = covered.clamp(end_ms, tp, covered.offset_in(high, tp))"),
    (windows.plan_window, "at = low.get(tp)", "at = low[tp]._replace(offset=covered.clamp(start_ms, tp, low[tp].offset)) if tp in low else None"),
)  # fmt: skip

TWINS: dict[Kind, dict[str, Twin]] = {
    "sequence": {
        "commits without verified reads": Twin((_UNVERIFIED,), "topics"),
        "drivers do not look again, sinks do not fence": Twin(("look", "fence"), scenes.driver_is_overtaken_by_a_shorter_plan),
        "a batch is planned again under a new key": Twin((_NEW_KEY,), "lost logs"),
        "the mirror does not look again": Twin(((mirror.mirror, "if committed.number == written.number:", "if True:"),), scenes.mirror_is_overtaken),
        "a cleared run does not claim": Twin(((resolve._reprocess, "if not log.append(batch.number, len(batch.entries) + 1, claim):", "if False:"),), scenes.cleared_run_writes_again),
        "late drivers write into committed batches": Twin(("committed",), scenes.driver_begins_after_the_commit),
        "a commit does not verify again": Twin(((commit.commit, "_verified(given, log, batch, body)  # an attempt", "pass  # an attempt"),), scenes.driver_begins_beside_the_commit),
        "what the group held is not kept": Twin(((group.strange, "return {", "return {} and {"),)),
        "clean removes headers": Twin((_HEADERS,), "outputs"),
        "resume_from lacks the starts of new partitions": Twin(((draft.draft_next, ", **starts}", "}"),)),
        "a plan that was replaced is committed": Twin(((commit._current, "batch.plan.plan_id != given.plan_id", "False"),), scenes.plan_is_replaced_under_a_job_without_report),
        "partitions that were not asked for lose their offset": Twin(
            ((body.PlanBody.position_after, "dict(self.resume_from)", "{}"),), "outputs"),
        "a verified batch is not written again": Twin((_NOT_AGAIN,), scenes.job_is_corrected_before_the_commit),
        "a report of another job is taken": Twin((_OTHER_JOB,), scenes.driver_of_an_earlier_job_is_late),
        "acknowledging carries no attempt": Twin(_NO_ATTEMPT, scenes.person_acknowledges_after_the_report),
        "drivers do not look at outputs": Twin(("outputs",)),
        "neither drivers nor commits look at outputs": Twin(
            ("outputs", (commit._refuse_other_output, "if output not in acknowledged", "if False"))
        ),
        "a run's own claim acknowledges": Twin(((resolve._reprocess, "after=highest)", "after=highest, acknowledged=highest)"),), scenes.output_moves_before_a_clear),
        "without a log, any reset is taken": Twin(((by_hand.reset, "if is_lost and not", "if False and not"),), scenes.log_is_lost_and_a_person_resets),
        "without a log, group-offsets asks nothing": Twin(((by_hand._refuse_duplicates, "if allowed or not", "if True or not"),), scenes.log_is_lost_behind_the_output),
        "a lost log is not noticed": Twin(((group.refuse_lost_log, "if newest is None", "if False"),), scenes.log_is_lost),
        "an older log is not noticed": Twin(((group.refuse_older_log, "if later", "if False and later"),), scenes.log_is_older_than_the_group),
        "an older log's batch gets another plan": Twin(((by_hand.reset, "if newest is not None and not at and", "if False and"),), scenes.log_is_an_older_copy),
        "reports of an older log count": Twin(((commit._refuse_moved_group, "if knows and", "if False and"),), scenes.report_is_of_an_older_copy),
        "a group below the log start is refused": Twin(((by_hand.reset, "if outside and not isinstance(want.start, GroupStart):", "if outside:"),), scenes.group_is_below_the_log_start),
        "a run that writes again compares the group": Twin(((commit._refuse_moved_group, "or batch.is_committed", ""),), scenes.group_was_moved_and_acknowledged_before_a_clear),
        "what does not verify is left and cleaned": Twin(_LEFT, scenes.batch_that_does_not_verify_expires),
        "re-created topics are not noticed": Twin(
            ((ranges.Facts.is_recreated, "return ", "return False and "), (look._is_other, "return ", "return False and "))
        ),
        "acknowledging takes a re-created topic for the old one": Twin(((by_hand.acknowledge, "if is_same_cluster:", "if False:"),), scenes.topic_is_recreated_before_a_person_acknowledges),
        "skips stay in a re-created topic": Twin(
            ((draft.replan, "if tp in present and not facts.is_recreated(tp, old.resume_from[tp])", "if tp in present"),), scenes.skipped_record_is_of_a_topic_that_is_no_more),
        "cut logs are not noticed": Twin(((look.cut_logs, "return {tp: end", "return {} and {tp: end"),), scenes.log_is_cut_behind_the_driver),
    },
    "window": {
        "commits without verified reads": Twin((_UNVERIFIED,)),
        "drivers do not look again, sinks do not fence": Twin(("look", "fence"), scenes.driver_is_overtaken_by_a_shorter_plan),
        "a batch is planned again under a new key": Twin((_NEW_KEY,), "people"),
        "cuts are not clamped": Twin(((window.Covered.clamp, "offset = max(", "return offset\n    offset = max("),), "outputs"),
        "cuts are clamped at use": Twin(_AT_USE, "lost logs"),
        "cuts are not shared": Twin(((windows.plan_window, "left, right = covered.cut_ending_at(start_ms), covered.cut_starting_at(end_ms)", "left = right = None"),), "zombies"),
        "two first runs at once are a lost log": Twin(((changes.has_succeeded, " and log.newest() is None", ""),), scenes.two_first_runs_at_once),
        "nobody helps with windows/": Twin(((windows.turn, "log.name_window(last, newest.number)", "pass"),)),
        "windows/ is looked at before the newest batch": Twin(_EARLY, "lost logs"),
        "a cut lacks what was not asked for": Twin(((windows._keep_unasked, "differ: list", "return []\n    differ: list"),)),
        "records of the future decide": Twin(((windows._look_up, "or at[tp] == future.get(tp)", ""),), "lost logs"),
        "empty windows leave no batch": Twin(_NO_EMPTY, "outputs"),
        "clean removes unfinished batches": Twin(((clean.clean, "is_old = batch.is_closed and", "is_old = not batch.is_committed or"), (clean.clean, "batch.is_cleaned or", "True or")), "outputs"),
        "clean removes headers": Twin((_HEADERS,), "old records"),
        "a verified batch is not written again": Twin((_NOT_AGAIN,), scenes.job_is_corrected_before_the_commit),
        "a report of another job is taken": Twin((_OTHER_JOB,), scenes.driver_of_an_earlier_job_is_late),
        "acknowledging carries no attempt": Twin(_NO_ATTEMPT, scenes.person_acknowledges_after_the_report),
        "drivers do not look at outputs": Twin(("outputs",), "people"),
        "a cut on the log start hides nothing": Twin(((windows._hidden, "if first", "if True or first"),), "old records"),
        "what a cut hid is not kept by later plans": Twin(((draft.replan, "if d.keep and not", "if False and not"),), "old records"),
        "what a re-created topic lost is not kept by later plans": Twin(((windows._kept, "keep=True", "keep=False"),), scenes.topic_is_recreated_between_windows),
        "the oldest stretches are merged unsaid": Twin(((window.with_window, "gaps.append(", "str("),)),
        "the oldest stretches are forgotten": Twin(((window.with_window, "Stretch(first.start_ms, second.end_ms, first.start_cut, second.end_cut)", "second"),), "zombies"),
    },
}  # fmt: skip


def noticed(kind: Kind, twin: Twin, most: int = 200) -> str | None:
    """What the model finds without the rule; random worlds with late swaps do not count."""
    with broken(twin):
        if callable(twin.where):
            return next(iter(play(twin.where, kind)), None)
        for seed in range(most):
            world = run_world(kind, seed, twin.where)
            if world.bad and not world.sink.late_swaps:
                return f"{world.bad[0]} (seed {seed})"
    return None


@contextmanager
def broken(twin: Twin) -> Iterator[None]:
    before = {edit[0]: edit[0].__code__ for edit in twin.edits if not isinstance(edit, str)}
    try:
        RULES.update({edit: False for edit in twin.edits if isinstance(edit, str)})
        for function in before:
            function.__code__ = _edited(function, [e for e in twin.edits if e[0] is function]).__code__
        yield
    finally:
        RULES.update(dict.fromkeys(RULES, True))
        for function, code in before.items():
            function.__code__ = code


def _edited(function: Any, edits: list[Edit]) -> Any:
    source = textwrap.dedent(inspect.getsource(function))
    for _, old, new in edits:
        assert old in source, f"{old!r} is no longer in {function.__qualname__}"
        source = source.replace(old, new)
    scope = dict(function.__globals__)
    exec(compile("from __future__ import annotations\n" + source, function.__code__.co_filename, "exec"), scope)
    edited = scope[function.__name__]
    return edited.fget if isinstance(edited, property) else edited
