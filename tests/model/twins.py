# ruff: noqa: E501 - one twin a line
"""Broken twins: the real code without one rule. The model has to notice each. ``python -m tests.model.twins [kind]``
prints what does: a fixed schedule, or the first random world from seed 5000 on.

A twin is an edit of the source of functions, so that it breaks just its rule. Where an edit does not apply any more, the
function was changed, and the twin has to follow.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

from airflow_kafka_offsets.engine import (
    acts,
    begin,
    commit,
    identity,
    look,
    marks,
    mirror,
    plans,
    sequence,
    state,
    turn,
    windows,
)
from airflow_kafka_offsets.log import clean, entries, pipeline_log
from airflow_kafka_offsets.log import identity as log_identity
from airflow_kafka_offsets.plan import body, window
from tests.model import scenes_of_acts as of_acts
from tests.model import scenes_of_batches as of_batches
from tests.model import scenes_of_logs as of_logs
from tests.model import scenes_of_rules as of_rules
from tests.model.driver import RULES
from tests.model.run import run_world
from tests.model.scene import Scene
from tests.model.scenes import play
from tests.model.world import Kind

Edit = tuple[Any, str, str]


class Twin(NamedTuple):
    """
    :ivar edits: a function, a text in it, and what stands there instead; or a rule of the driver, left out.
    :ivar where: the scene that shows it, or the themes of random worlds, separated by commas.
    """

    edits: tuple[Edit | str, ...]
    where: Callable[[Scene], None] | str = ""


def _without(function: Any, text: str, instead: str, where: Callable[[Scene], None] | str = "") -> Twin:
    return Twin(((function, text, instead),), where)


_NOT_NAMED: tuple[Edit, ...] = (
    (acts.decide, "problems += [line for difference in left() for line in difference.lines]", "pass"),
    (
        acts.decide,
        "    if act.reset is not None and not problems:",
        "    new = replace(new, output=request.output, cluster_id=look.description.cluster_id)\n"
        "    if act.reset is not None and not problems:",
    ),
)
BOTH: dict[str, Twin] = {
    "commits without verified reads": _without(commit._verified, "if problems:", "if False:"),
    "neither drivers look again, nor tables fence": Twin(("look", "fence"), of_batches.driver_is_overtaken_by_another_plan),
    "planned again under a new key": _without(plans._kept_key, "        return plan.key\n", "        return _new_key(turn, batch.number)\n"),
    "commits a plan that was replaced": _without(commit._current, "batch.plan.plan_id != given.plan_id", "False", of_batches.plan_is_replaced_under_a_job_without_report),
    "drivers do not look at commits": Twin(("committed", "fence"), of_batches.driver_begins_after_the_commit),
    "commit does not verify again": _without(commit.commit, "_verified(given, log, batch, body)  # an attempt", "pass  # an attempt", of_batches.driver_begins_beside_the_commit),
    "a rewrite keeps the plan's id": _without(plans.rewritten, "plan_id=secrets.token_hex(8)", "plan_id=plan.plan_id", of_batches.rewrite_that_writes_nothing),
    "a verified batch is not written again": _without(turn._continue, 'gone == "expired" and', "", of_batches.job_is_corrected_before_the_commit),
    "a verified batch whose records expired is planned again": _without(turn._continue, 'gone == "expired" and', "False and", of_batches.verified_batch_expires),
    "commit takes a report of another job": _without(commit._verified, "report.job != given.job", "False", of_batches.driver_of_an_earlier_job_is_late),
    "what does not verify is left": _without(turn._heal_or_leave, "if plan.require_report and not verdict.is_verified:", "if False:", of_batches.batch_that_does_not_verify_expires),
    "what does not verify is left in another output": _without(turn._write_again, "    if gone or is_elsewhere:", "    if is_elsewhere:\n        return NoBatch('')\n    if gone:", of_batches.batch_that_does_not_verify_is_elsewhere),
    "the output is not compared": _without(identity._output, "if then != now:", "if False:", "outputs,typos"),
    "commit does not look at the identity": _without(commit._require_identity, "if identity is not None and", "if False and", of_acts.output_is_acknowledged_before_the_commit),
    "nor after the commit": _without(commit.commit, "None if is_rewrite else _require_identity(log, batch)", "log.identity()", of_acts.output_is_acknowledged_beside_the_commit),
    "a topic that ended is not noticed": _without(identity._topics, "    if lines:", "    if False:", "topics"),
    "commit does not look at topic ids": _without(commit._require_same_logs, 'if gone == "other log":', "if False:", of_batches.topic_is_recreated_before_the_read),
    "a rewrite that has read another topic is left": _without(turn._write_again, 'if gone == "other log" and', "if False and", of_batches.topic_is_recreated_before_a_rewrite_reads),
    "Spark alone is cleared, and the commit does not look at topic ids": _without(commit.commit, "if not batch.plan.require_report:", "if False:", of_batches.spark_alone_is_cleared_of_a_job_without_report),
    "truncated logs are not noticed": _without(look.Answers.truncated, "return {tp: end", "return {} and {tp: end", of_batches.log_is_truncated_behind_the_driver),
    "plans do not take skips": _without(sequence.skips_in, "identity.skipped(tp, position[tp].topic_id)", "()", of_acts.skipped_record_is_left_out),
    "an unfinished batch stays as the old identity had it": _without(turn._continue, "or skips_in(identity, body.ranges, body.resume_from) != body.skips", "", of_acts.skipped_record_is_left_out),
    "the table has no owner": Twin(("owner", "behind"), of_logs.another_environment),
    "records that are gone stay planned": _without(turn._continue, "if differs or gone:", "if differs:", of_batches.topic_is_recreated_before_the_read),
    "rows of a batch that is left are not looked for": _without(turn._heal_or_leave, "    return ResolvedBatch(turn.log, batch, body, turn.run, starts_job=True, is_left=True, note=note)", "    return NoBatch('')", of_rules.rows_of_a_batch_that_is_left_are_looked_for),
    "a rewrite takes what a compacted topic has left": Twin(("compacted",), of_rules.rewrite_finds_fewer_records_on_a_compacted_topic),
    "another definition of rows does not heal": _without(turn._heal_or_leave, "verdict.report.job != job_digest(job)", "False", of_rules.bad_record_is_healed_from_the_outputs),
    "what heals reads Kafka": _without(turn._heal_or_leave, "from_outputs=True", "from_outputs=False", of_rules.bad_record_is_healed_from_the_outputs),
    "the commit of what was healed looks at topic ids": _without(commit.commit, "if not batch.plan.from_outputs:", "if True:", of_rules.bad_record_is_healed_from_the_outputs),
    "commit takes rows of another output": _without(commit._verified, "batch.plan.output is not None and report.output != batch.plan.output", "False", of_rules.job_has_written_elsewhere),
    "commit does not look at the cluster": _without(commit._require_same_logs, 'if gone == "other cluster":', "if False:", of_rules.connection_leads_elsewhere_at_the_commit),
    "the first look at the identity is the last": _without(pipeline_log.PipelineLog.identity, "return self.identity()", "pass", of_batches.two_first_runs),
}  # fmt: skip
TWINS: dict[Kind, dict[str, Twin]] = {
    "sequence": {
        **BOTH,
        "a run does not know its batch": _without(turn._look_and_act, "None if by_window else log.batch_of(run)", "None", of_batches.rewrite_that_writes_nothing),
        "an unfinished batch stays in the old output": _without(turn._continue, "(plan.output, plan.adopted, plan.bases) != (identity.output, identity.adopted, identity.bases)", "False", of_acts.output_is_acknowledged_before_the_commit),
        "an unfinished batch looks for rows that were given up": _without(turn._continue, "or plan.expects != kept_expectation(turn, plan)", "", of_rules.rows_are_given_up_under_an_unfinished_batch),
        "rows of the former output are looked for in the new one": _without(plans._expected_key, "or before.plan.output != output", "", of_rules.next_batch_goes_into_another_output),
        "with nothing new the group is not renewed": _without(turn._plan_next, "if head.committed is not None:", "if False:", of_rules.group_is_renewed_although_nothing_is_new),
        "a refusal of live members is not said": _without(mirror.mirror, "        look.kafka.commit_offsets(group_id, offsets)", "        if look.kafka.describe_group(group_id).members:\n            return 0\n        look.kafka.commit_offsets(group_id, offsets)", of_rules.group_has_live_members),
        "a commit that is cleared alone leaves the group": _without(commit.commit, "if batch.plan.window is None:", "if batch.plan.window is None and identity is not None:", of_rules.group_has_live_members),
        "any digest accepts what the group holds": _without(acts._wrong_values, "group is None or acknowledged_value(group) != named.group", "False", of_rules.act_names_another_group_than_there_is),
        "a reset may lead out of the log": _without(acts._starts, "if not logs[tp].log_start_offset <= offset <= logs[tp].high_watermark:", "if False:", of_rules.reset_leads_out_of_the_log),
        "a reset reads again, unsaid": _without(acts._starts, "elif at is not None and offset < at.offset and not reset.allow_duplicates:", "elif False:", of_rules.reset_reads_again_unsaid),
        "an act begins a pipeline": _without(begin.begin, "if act is not None and not named.batch:", "if False:", of_rules.act_comes_before_the_first_run),
        "the group's marks are not known": _without(identity._unknown_batches, "keys = {key for key in own if not shard.knows(key, identity.bases)}", "keys = set()", of_rules.log_is_an_older_copy_that_only_the_group_knows),
        "keys begin anew behind acknowledged batches": _without(begin.begin, "(0, behind) if behind else (0,)", "(0,)", of_rules.keys_go_on_behind_a_lost_log),
        "clean takes the last two commits": _without(clean.clean, "kept < 2", "kept < 0", of_batches.cleaned_planner_wakes_up),
        "an act accepts whatever differs": Twin(_NOT_NAMED, of_acts.act_names_the_output_in_staging),
        "a turn takes a batch of a later identity than its own": _without(turn._look_and_act, "each.plan.identity > identity.number", "False", of_acts.reset_beside_a_slow_look_at_the_log),
        "an act may leave differences": _without(acts.decide, "problems += [line for difference in left() for line in difference.lines]", "pass", of_acts.reset_while_a_topic_was_recreated),
        "an act looks at its own shard only": _without(state.Turn.shards, "for one in logs]", "for one in logs if one is self.log]", of_acts.reset_of_one_shard_while_another_ones_topic_was_recreated),
        "a conf is carried out by each clear": _without(acts.is_done, "if then is not None and then.is_by(turn.run):\n            return True", "pass\n    return False", of_acts.act_is_clicked_twice_and_cleared),
        "a refused act prints the rest only": _without(acts.decide, '{**acts.get("acknowledge", {}), **everything}', "everything", of_acts.act_names_all_that_differs),
        "the cluster is not compared": _without(identity._cluster, "if then != now and", "if False and", "staging,migration"),
        "the shard count is not compared": _without(identity._other_pipeline, "if shards != identity.shards:", "if False:", "shards"),
        "nobody looks for the last key with rows": Twin(("expects before", "expects after"), of_logs.table_is_rolled_back_before_the_next_batch),
        "drivers look for it only before": Twin(("expects after",), of_logs.table_is_rolled_back_below_the_driver),
        "nothing is looked for behind rows that were given up": _without(plans._not_given_up, "None if batch is None else batch.plan.expects", "None", of_logs.table_is_rolled_back_again_behind_rows_that_were_given_up),
        "a rewrite does not look for it": _without(plans.rewritten, "expects=kept_expectation(turn, plan)", "expects=None", of_logs.table_is_rolled_back_before_a_clear),
        "a rewrite looks for keys behind its own": _without(plans.rewritten, "newest=False", "newest=True", of_logs.next_batch_is_written_beside_a_rewrite),
        "drivers do not look for keys behind": Twin(("behind",), of_logs.log_is_an_older_copy_that_only_the_table_knows),
        "a rewrite goes into the new output": _without(turn._write_again, "is_elsewhere = is_moved or plan.output != identity.output", "is_elsewhere = is_moved", of_acts.cleared_run_of_an_output_that_is_left),
        "partitions that are not asked for lose their offset": _without(body.PlanBody.position_after, "dict(self.resume_from)", "{}"),
        "first starts only of what the first run reads": _without(begin.begin, "partitions = look.description.partitions", "partitions = look.asked", of_acts.partition_is_excluded_from_the_first_batch),
        "the mirror does not look again": _without(mirror.mirror, "if later is None or not later.is_committed:", "if True:", of_acts.mirror_is_overtaken),
        "the group's offsets at the start are not kept": _without(begin.begin, "IdentityBody(first, unmarked)", "IdentityBody(first, {})", of_acts.group_that_was_there_is_kept),
        "a group that was moved is overwritten": _without(identity.unexpected_offsets, "and committed.offset != position[tp].offset", "and False", of_acts.group_was_moved),
        "the group is looked at after the log": Twin(((turn._look_and_act, "airflow.last_planned(), look.group", "airflow.last_planned(), None"),), of_acts.group_is_looked_at_before_the_log),
        "a start is applied by each plan": Twin(((log_identity.resume, "start.identity > under and", ""), (state.Decided.resumed_from, "if self.identity.starts_at > first else {}", "")), of_acts.act_is_clicked_twice_and_cleared),
        "a start moves back what was read since": _without(log_identity.resume, "to.offset > at.offset or start.allow_duplicates", "True", of_acts.batch_is_committed_beside_a_reset),
        "a reset leaves the unfinished batch": _without(turn._continue, "or identity.reset_at > plan.identity", "", of_acts.reset_makes_a_large_batch_smaller),
        "a plan again forgets where new partitions started": _without(sequence.plan_sequence, "*head)", "head.committed)", of_acts.new_partition_is_planned_again),
        "new partitions of an unfinished batch are not known to a reset": _without(log_identity.resume, "is_unread = at is None and tp in found", "is_unread = False", of_acts.reset_skips_records_of_a_new_partition),
        "topics of another cluster are found by name later": _without(log_identity.Identity.on_its_cluster, "self.topics.get(tp.topic, at.topic_id)", "None", of_acts.topic_of_the_new_cluster_is_recreated),
        "topics of another cluster are those of the act's subscription": _without(acts.decide, "{*known, *body.starts, *look.description.partitions}", "look.description.partitions", of_acts.cluster_is_named_by_a_run_that_subscribes_to_less),
        "an ended topic lives on on the new cluster": _without(log_identity.Identity.on_its_cluster, " or self.is_ended(at)", "", of_acts.topic_had_ended_before_the_cluster_was_replaced),
        "topics are not asked for again": _without(identity._topics, "look.confirm(names)", "pass", of_acts.topic_is_created_between_two_looks),
        "keys without random bits": Twin(((plans._new_key, "secrets.token_hex(6)", '"0" * 12'), (plans._new_key, "turn.log.shard", "None")), "losses"),
        "an unfinished batch's new topic starts anew": _without(state.Decided.resumed, "not self.identity.is_ended(self.identity.on_its_cluster(tp, at, plan.identity))", "tp not in position", of_acts.re_created_topic_of_a_new_cluster_is_planned_again),
        "single partitions are looked at twice": _without(look.Look.description.func, "if self.describe(found.topics).topic_ids != found.topic_ids:", "if False:", of_acts.topic_is_re_created_between_two_looks),
        "a mark counts for a re-created topic": _without(begin._resumed, "return marked | look.log_starts(ended)", "return marked", of_logs.log_is_lost_behind_a_mark_of_another_topic),
        "keys of unfinished batches move with the base": Twin(((plans._kept_key, "plan.key == batch.first_plan.key > highest", "False"), (plans._kept_key, "plan.key if plan.key > highest", "plan.key if plan.bases == turn.identity.bases")), of_logs.log_is_an_older_copy_and_another_shard_has_an_unfinished_batch),
        "Airflow's memory is not asked": _without(identity._unknown_batches, "told is not None\n", "False\n", of_logs.log_is_an_older_copy),
        "memory is asked after the log": Twin(((turn._look_and_act, "Shard(log, memory, newest)", "Shard(log, airflow.last_planned(), newest)"),), of_logs.another_run_plans_between_the_looks_at_memory_and_log),
        "a batch without records needs no job, whatever it had": _without(entries.Batch.has_records.fget, "any(plan.offsets for plan in self.plans)", "bool(self.plan.offsets)", of_logs.older_log_with_an_unfinished_batch_expires),
        "an attempt's rows are looked for under the newest key": _without(plans._kept_key, "keys[-1] if keys else ", "", of_logs.batch_returns_to_the_table_of_its_first_attempt),
        "a run from before an acknowledged loss is refused": _without(identity._unknown_batches, "digits_of(told.key) > _acknowledged(identity, shard)", "True", of_logs.run_from_before_an_acknowledged_loss_reads_on),
        "a loss that another shard acknowledged counts": _without(identity._acknowledged, "shard_in(key) == shard_part(shard.log.shard)", "True", of_logs.loss_that_one_shard_acknowledges_says_nothing_of_another),
        "rows behind an older copy are not named": _without(identity._later_rows, "kafka_batch >= '{first}'", "kafka_batch >= '9'", of_logs.log_is_an_older_copy_by_two_batches),
        "rows behind a lost log are not named": _without(marks.rows_behind, "{newest + 1:010}", "{newest + 2:010}", of_logs.log_is_lost_behind_rows_that_were_not_committed),
        "a lost log is not noticed": _without(begin.begin, "if not known <= {*named.batch} or", "if False or", of_logs.log_is_lost_behind_a_group),
        "keys begin anew after a lost log": _without(acts._acknowledge, "if behind > new.bases[-1]", "if False", of_logs.log_is_lost_and_nothing_remembers_it),
        "a planner with a bug, and the commit does not check where a plan resumes": Twin(((sequence.plan_sequence, "position = resumed.position", "position = {tp: at._replace(offset=at.offset + (committed is not None)) for tp, at in resumed.position.items()}"), (commit._require_join, "if apart:", "if False:")), of_logs.next_batch_is_written_beside_a_rewrite),
        "clean removes headers": Twin(((clean._names, 'if "-" in name', ""), "behind"), of_batches.cleaned_planner_wakes_up),
    },
    "window": {
        **BOTH,
        "the kind is not compared": _without(identity._other_pipeline, "if kind != identity.kind:", "if False:", of_rules.run_is_of_the_other_kind),
        "a turn looks at the newest batch only": _without(turn._look_and_act, "for each in (newest, batch))", "for each in (newest,))", of_rules.open_window_is_planned_again_under_a_slow_run),
        "topics are those of the stretches' bounds": _without(identity._known_topics, "yield from first.resume_from.items()", "pass", of_rules.topic_ends_that_only_a_window_in_a_gap_knew),
        "windows may overlap": _without(windows.require_free, "if taken := covered.overlapping(window):", "if False:", of_rules.windows_overlap),
        "a window need not have ended": _without(windows.require_free, "if window[1] > request.now_ms:", "if False:", of_rules.window_has_not_ended),
        "windows of a lost log are planned again": _without(windows.require_not_lost, "identity.windows_from is not None and window[0] < identity.windows_from", "False", of_rules.window_may_be_of_a_lost_log),
        "the subscription is not compared": _without(identity._other_pipeline, "if str(request.subscription) != identity.subscription:", "if False:", of_rules.window_is_of_another_subscription),
        "the cluster is not compared": _without(identity._other_pipeline, "if look.description.cluster_id != identity.cluster_id:", "if False:", of_rules.window_is_of_another_cluster),
        "a window planned again looks up its end anew": _without(windows.replan_window, "ends[tp] = Offset(r.end, r.leader_epoch, at.topic_id)", "ends[tp] = Offset(turn.look.snapshots([tp])[tp].end_offset, r.leader_epoch, at.topic_id)", of_logs.log_is_an_older_copy_of_an_unfinished_window),
        "an ended topic's cut counts": _without(window.Covered._live, "if at.topic_id not in self.ended} if self.ended else cut", "} if True else cut", of_batches.topic_is_recreated_before_the_read),
        "rows of the former output are looked for in the new one": _without(plans.kept_expectation, "None if plan.output != turn.identity.output else", "", of_rules.open_window_goes_into_another_output),
        "cuts are not clamped": Twin(((windows._cut, ", floor.get(tp, 0))", ", 0)"), (windows._cut, "offset if ceiling is None else", "offset if True else"))),
        "a turn takes a batch of a later identity than its own": _without(turn._look_and_act, "each.plan.identity > identity.number", "False", of_batches.topic_is_recreated_between_windows_of_which_a_later_one_is_faster),
        "nobody helps with windows/": _without(windows.find_window, "log.name_window(newest.first_plan.window, newest.number)", "pass"),
        "windows/ is looked at before the newest batch": Twin(((turn._look_and_act, "    newest = log.newest()", "    early = by_window and log.batch_of_window(request.window)\n    newest = log.newest()"), (turn._look_and_act, "find_window(request, log, newest)", "None if not early else log.existing(early)"))),
        "records of the future decide": _without(windows.plan_window, "if o != future.get(tp)", ""),
        "empty windows leave no batch": Twin(((turn._plan_next_window, "    number = 1 if", "    if not body.offsets:\n        return NoBatch('')\n    number = 1 if"),)),
        "clean removes what is not committed": Twin(((clean.clean, "if not batch.is_closed or not (batch.is_cleaned or _is_verified(log, batch)):", "if False:"),)),
        "cuts of truncated logs stay where they were": _without(windows._in_log, "| look.truncated(known)", "", of_batches.log_is_truncated_below_a_cut),
        "a cut on the log start hides nothing": _without(windows._hidden, "if first.get(tp, answer) >= answer and", "if False and"),
        "what a cut hid is not kept by later plans": _without(windows.replan_window, 'd.kind == "hidden" or', ""),
        "old stretches are forgotten": Twin(((windows.require_free, "len(covered.stretches) >= MOST_STRETCHES and", "False and"), (window.with_window, "return tuple(sorted([*others", "return tuple(sorted([*others[-1:]"))),
    },
}  # fmt: skip


def noticed(kind: Kind, twin: Twin, seeds: range = range(40)) -> str | None:
    """What the model finds without the rule; random worlds with late swaps do not count."""
    with broken(twin):
        if callable(twin.where):
            return next(iter(play(twin.where, kind)), None)
        for seed in seeds:
            world = run_world(kind, seed, *filter(None, twin.where.split(",")))
            if world.bad and not world.tables.late_swaps:
                return f"seed {seed}"
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
    if isinstance(edited, cached_property):
        return edited.func
    return edited.fget if isinstance(edited, property) else edited


def main(kinds: list[Kind], seeds: range) -> None:
    for kind in kinds:
        for name, twin in TWINS[kind].items():
            found = noticed(kind, twin, seeds)
            where = (
                f"fixed schedule: {twin.where.__name__}" if callable(twin.where) else f"worlds {twin.where}: {found}"
            )
            print(f"| {kind} | {name} | {where if found else 'NOT NOTICED'} |", flush=True)


if __name__ == "__main__":
    both: tuple[Kind, ...] = ("sequence", "window")
    main([kind for kind in both if kind in sys.argv[1:] or len(sys.argv) == 1], range(5000, 5060))
