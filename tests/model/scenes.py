"""Fixed schedules for rules that random worlds seldom need: which there are, and of which kind of pipeline."""

from __future__ import annotations

from collections.abc import Callable

from tests.model import scenes_of_acts as of_acts
from tests.model import scenes_of_batches as of_batches
from tests.model import scenes_of_logs as of_logs
from tests.model import scenes_of_rules as of_rules
from tests.model.run import the_same_names
from tests.model.scene import Scene
from tests.model.world import Kind

_BOTH: tuple[Callable[[Scene], None], ...] = (
    of_batches.plan_is_replaced_under_a_job_without_report,
    of_batches.driver_begins_beside_the_commit,
    of_batches.remedy_of_a_driver_beside_the_commit_works,
    of_batches.rewrite_that_writes_nothing,
    of_batches.driver_of_an_earlier_job_is_late,
    of_batches.driver_begins_after_the_commit,
    of_batches.driver_is_overtaken_by_another_plan,
    of_batches.topic_is_recreated_before_the_read,
    of_batches.topic_is_recreated_before_a_rewrite_reads,
    of_batches.spark_alone_is_cleared_of_a_job_without_report,
    of_batches.log_is_truncated_behind_the_driver,
    of_batches.record_gets_the_offset_of_a_marker,
    of_batches.job_is_corrected_before_the_commit,
    of_batches.batch_that_does_not_verify_expires,
    of_batches.batch_that_does_not_verify_is_elsewhere,
    of_batches.verified_batch_expires,
    of_acts.output_is_acknowledged_before_the_commit,
    of_acts.output_is_acknowledged_beside_the_commit,
    of_acts.skipped_record_is_left_out,
    of_batches.two_first_runs,
    of_logs.another_environment,
    of_rules.rows_of_a_batch_that_is_left_are_looked_for,
    of_rules.rewrite_finds_fewer_records_on_a_compacted_topic,
    of_rules.bad_record_is_healed_from_the_outputs,
    of_rules.run_is_of_the_other_kind,
    of_rules.job_has_written_elsewhere,
    of_rules.connection_leads_elsewhere_at_the_commit,
)
_IN_SEQUENCE = (
    of_batches.cleaned_planner_wakes_up,
    of_acts.act_names_all_that_differs,
    of_acts.act_is_clicked_twice_and_cleared,
    of_acts.act_names_the_output_in_staging,
    of_acts.batch_is_committed_beside_a_reset,
    of_acts.reset_makes_a_large_batch_smaller,
    of_acts.reset_beside_a_slow_look_at_the_log,
    of_acts.reset_while_a_topic_was_recreated,
    of_acts.reset_of_one_shard_while_another_ones_topic_was_recreated,
    of_acts.reset_beside_a_plan_of_a_topic_that_ends,
    of_acts.reset_skips_records_of_a_new_partition,
    of_acts.re_created_topic_is_planned_again,
    of_acts.re_created_topic_of_a_new_cluster_is_planned_again,
    of_acts.topic_is_re_created_between_two_looks,
    of_acts.new_partition_of_an_unfinished_batch_on_a_new_cluster,
    of_acts.cleared_run_of_an_output_that_is_left,
    of_acts.topic_of_the_new_cluster_is_recreated,
    of_acts.cluster_is_named_by_a_run_that_subscribes_to_less,
    of_acts.topic_had_ended_before_the_cluster_was_replaced,
    of_acts.partition_is_excluded_from_the_first_batch,
    of_acts.new_partition_is_planned_again,
    of_acts.topic_is_created_between_two_looks,
    of_acts.mirror_is_overtaken,
    of_acts.group_is_looked_at_before_the_log,
    of_acts.group_that_was_there_is_kept,
    of_acts.group_was_moved,
    of_logs.log_is_an_older_copy,
    of_logs.log_is_an_older_copy_by_two_batches,
    of_logs.log_is_an_older_copy_of_an_unfinished_batch,
    of_logs.log_is_an_older_copy_and_another_shard_has_an_unfinished_batch,
    of_logs.loss_that_one_shard_acknowledges_says_nothing_of_another,
    of_logs.log_is_an_older_copy_that_only_the_table_knows,
    of_logs.log_is_lost,
    of_logs.log_is_lost_behind_a_group,
    of_logs.log_is_lost_behind_rows_that_were_not_committed,
    of_logs.run_from_before_an_acknowledged_loss_reads_on,
    of_logs.log_is_lost_behind_a_mark_of_another_topic,
    of_logs.log_is_lost_and_nothing_remembers_it,
    of_logs.another_run_plans_between_the_looks_at_memory_and_log,
    of_logs.older_log_with_an_unfinished_batch_expires,
    of_logs.batch_returns_to_the_table_of_its_first_attempt,
    of_logs.table_is_rolled_back_before_the_next_batch,
    of_logs.table_is_rolled_back_below_the_driver,
    of_logs.table_is_rolled_back_again_behind_rows_that_were_given_up,
    of_logs.table_is_rolled_back_before_a_clear,
    of_logs.next_batch_is_written_beside_a_rewrite,
    of_logs.pipeline_is_divided_otherwise,
    of_rules.group_is_renewed_although_nothing_is_new,
    of_rules.group_has_live_members,
    of_rules.rows_are_given_up_under_an_unfinished_batch,
    of_rules.next_batch_goes_into_another_output,
    of_rules.act_names_another_group_than_there_is,
    of_rules.reset_leads_out_of_the_log,
    of_rules.reset_reads_again_unsaid,
    of_rules.act_comes_before_the_first_run,
    of_rules.log_is_an_older_copy_that_only_the_group_knows,
    of_rules.keys_go_on_behind_a_lost_log,
)
_BY_WINDOW = (
    of_batches.log_is_lost_by_window,
    of_batches.topic_is_recreated_between_windows,
    of_batches.topic_is_recreated_between_windows_of_which_a_later_one_is_faster,
    of_batches.log_is_truncated_below_a_cut,
    of_logs.log_is_an_older_copy_of_an_unfinished_window,
    of_rules.open_window_goes_into_another_output,
    of_rules.windows_overlap,
    of_rules.window_has_not_ended,
    of_rules.window_is_of_another_subscription,
    of_rules.window_is_of_another_cluster,
    of_rules.window_may_be_of_a_lost_log,
    of_rules.open_window_is_planned_again_under_a_slow_run,
    of_rules.topic_ends_that_only_a_window_in_a_gap_knew,
)
_WITHOUT_REPORTS = (
    of_batches.spark_alone_is_cleared_of_a_job_without_report,
    of_batches.plan_is_replaced_under_a_job_without_report,
    of_batches.topic_is_recreated_before_a_rewrite_reads,
)
_OF_TWO_SHARDS = (
    of_acts.reset_of_one_shard_while_another_ones_topic_was_recreated,
    of_logs.log_is_an_older_copy_and_another_shard_has_an_unfinished_batch,
    of_logs.loss_that_one_shard_acknowledges_says_nothing_of_another,
)
SCENES: list[tuple[Callable[[Scene], None], Kind]] = [
    *((scene, kind) for scene in _BOTH for kind in ("sequence", "window")),
    *((scene, "sequence") for scene in _IN_SEQUENCE),
    *((scene, "window") for scene in _BY_WINDOW),
]


def play(scene: Callable[[Scene], None], kind: Kind) -> list[str]:
    """What is wrong after it."""
    with the_same_names(0):
        stage = Scene(
            kind,
            has_reports=scene not in _WITHOUT_REPORTS,
            fences=scene is of_batches.driver_is_overtaken_by_another_plan,
            shards=2 if scene in _OF_TWO_SHARDS else 1,
        )
        scene(stage)
        return stage.finish()
