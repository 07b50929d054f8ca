"""Fixed schedules of single rules: what a run, a commit or an act refuses, and what a later plan takes along."""

from __future__ import annotations

from airflow_kafka_offsets.kafka_values import CommittedOffset
from tests.model import happenings
from tests.model.deployment import Run
from tests.model.driver import Job
from tests.model.scene import FIRST, RETURNS, Scene
from tests.model.stepping import T0, UNIT_MS


def _window(s: Scene, name: str, start: int, end: int) -> Run:
    return s.world.new_run(name, window=(start, end))[0]


def _acknowledge_output(s: Scene, output: str) -> Run:
    s.world.true_output = s.world.req_output = output
    return s.act(acknowledge={"output": output})


# ── a turn ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def group_is_renewed_although_nothing_is_new(s: Scene) -> None:
    s.with_group()
    s.do(s.one)
    happenings.forget_group(s.world)
    s.do(s.other)
    s.expect(bool(s.world.kafka.groups.get("g")), "the group's offsets expired, and nobody renews them")


def rows_are_given_up_under_an_unfinished_batch(s: Scene) -> None:
    s.do(s.one)
    s.more(FIRST)
    s.do(s.other, "resolve")
    batch = s.world.batches()[0]
    s.world.tables.rows["A"] = {}
    s.world.spoilt |= s.world.places_of(batch.plan)
    s.expect(s.do(s.other, "spark") is not None, "a table that has lost rows is written on")
    error = s.do(s.act(acknowledge={"rows": [batch.plan.key]}))
    s.expect(error is None, f"rows were given up, and are looked for: {error}")


def rows_of_a_batch_that_is_left_are_looked_for(s: Scene) -> None:
    s.do(s.one)
    s.world.spoilt |= s.world.places_of(s.world.batches()[0].plan)
    for tp in s.world.partitions:
        s.world.kafka.delete_records(tp, 5)
    s.world.tables.rows["A"] = {}
    error = s.do(s.one, "resolve") or (s.do(s.one, "spark") if s.one.task == "spark" else None)
    s.expect(error is not None, "a cleared run is green, and its rows are gone")


def rewrite_finds_fewer_records_on_a_compacted_topic(s: Scene) -> None:
    s.do(s.one)
    log = s.world.kafka.log_of(FIRST)
    log.entries.pop(1)
    s.world.compacted.add(happenings.row_at(s.world, FIRST, 1))
    error = s.do(s.one)
    s.expect((error, s.rows()) == (None, 15), f"of 15 rows {s.rows()} are left: {error}")


def bad_record_is_healed_from_the_outputs(s: Scene) -> None:
    """Kafka has its record no more, and a later definition of rows decodes it."""
    tables, place = s.world.tables, happenings.row_at(s.world, RETURNS, 1).place
    tables.decoded_from[place] = 1
    s.do(s.one)
    ((key, bad),) = tables.bad.items()
    s.expect([row.place for row in bad] == [place], f"bad records: {bad}")
    happenings.delete_topic(s.world, "returns")
    s.create(RETURNS, 6, 6, 6, 6, 6, 6)
    happenings.correct(s.world)
    error = s.do(s.one)
    s.expect((error, tables.bad[key]) == (None, []), f"it is bad, and another definition decodes it: {error}")


def next_batch_goes_into_another_output(s: Scene) -> None:
    s.do(s.one)
    s.more()
    error = s.do(_acknowledge_output(s, "B"))
    s.expect(error is None, f"rows of the former output are looked for in the new one: {error}")


def open_window_goes_into_another_output(s: Scene) -> None:
    s.world.clock = 50
    s.do(s.one)
    for tp in s.world.partitions:
        happenings.produce(s.world, tp, 12)
    s.do(_window(s, "w2", 10, 20), "resolve")
    act = _acknowledge_output(s, "B")
    act.window = 10, 20
    error = s.do(act)
    s.expect(error is None, f"rows of the former output are looked for in the new one: {error}")


def run_is_of_the_other_kind(s: Scene) -> None:
    s.do(s.one)
    s.other.window = (0, 10) if s.other.window is None else None
    s.expect(s.do(s.other, "resolve") is not None, "a run of the other kind is planned")


# ── a commit ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def job_has_written_elsewhere(s: Scene) -> None:
    s.do(s.one, "resolve")
    s.one.job = Job(s.one.job.number, "C")
    s.expect(s.do(s.one, "spark", "commit") is not None, "a batch is committed, and its rows are in another output")
    s.world.tables.rows["C"].clear()


def group_has_live_members(s: Scene) -> None:
    s.with_group()
    happenings.change_members(s.world)
    s.expect(s.do(s.one) is not None, "a commit is green, and the group was not written")
    happenings.change_members(s.world)
    error = s.do(s.one, "commit")
    held = {tp: at.offset for tp, at in s.world.kafka.groups.get("g", {}).items()}
    s.expect((error, held) == (None, dict.fromkeys(s.world.partitions, 5)), f"the group holds {held}: {error}")


def connection_leads_elsewhere_at_the_commit(s: Scene) -> None:
    s.do(s.one, "resolve", "spark")
    s.world.conn = "Z"
    s.expect(s.do(s.one, "commit") is not None, "a commit over a connection to another cluster is green")


# ── acts ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def act_names_another_group_than_there_is(s: Scene) -> None:
    s.with_group()
    s.do(s.one)
    s.world.kafka.commit_as_somebody_else("g", {FIRST: CommittedOffset(2)})
    s.world.group_moves += 1
    error = s.do(s.act(acknowledge={"group": "0123456789abcdef"}))
    s.expect(error is not None, "an act for another group is carried out")


def reset_leads_out_of_the_log(s: Scene) -> None:
    s.do(s.one)
    s.expect(s.do(s.act(reset={"start": {str(FIRST): 99}})) is not None, "a start behind the log's end is accepted")


def reset_reads_again_unsaid(s: Scene) -> None:
    s.do(s.one)
    s.expect(s.do(s.act(reset={"start": {str(FIRST): 2}})) is not None, "records are read again, unsaid")


def act_comes_before_the_first_run(s: Scene) -> None:
    s.do(s.act(after=0, reset={"start": "latest"}))
    s.expect(s.world.identities() == [], "a run with an act begins a pipeline")


# ── logs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def log_is_an_older_copy_that_only_the_group_knows(s: Scene) -> None:
    s.with_group()
    s.do(s.one)
    copy = dict(s.world.pipeline.store.objects)
    s.more()
    s.do(s.other)
    happenings.replace_log(s.world, copy)
    s.world.pipeline.memory.clear()
    s.expect(s.do(s.third, "resolve") is not None, "the group knows a batch that the log lacks, and a run goes on")


def keys_go_on_behind_a_lost_log(s: Scene) -> None:
    s.with_group()
    s.do(s.one)
    key = s.world.batches()[0].plan.key
    happenings.replace_log(s.world, None)
    s.more()
    s.do(s.act(after=0, acknowledge={"batch": [key]}), "resolve")
    new = s.world.batches()[0].plan.key
    s.expect(new[:10] > key[:10], f"{new} comes behind {key}")


# ── windows ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def windows_overlap(s: Scene) -> None:
    s.do(s.one)
    s.expect(s.do(_window(s, "w2", 5, 15), "resolve") is not None, "a window that overlaps another is planned")


def window_has_not_ended(s: Scene) -> None:
    s.expect(s.do(_window(s, "w2", 10, 99), "resolve") is not None, "a window that has not ended is planned")


def window_is_of_another_subscription(s: Scene) -> None:
    s.do(s.one)
    s.world.asks = {"topics": ["orders"]}
    s.expect(s.do(_window(s, "w2", 10, 20), "resolve") is not None, "a window of another subscription is planned")
    s.world.asks = {}


def window_is_of_another_cluster(s: Scene) -> None:
    s.do(s.one)
    s.world.conn = "Z"
    s.expect(s.do(_window(s, "w2", 10, 20), "resolve") is not None, "a window of another cluster is planned")


def open_window_is_planned_again_under_a_slow_run(s: Scene) -> None:
    """It is not the newest batch. The slow run has looked at the identity before the act that leaves a record out."""
    s.world.clock = 50
    for tp in s.world.partitions:
        happenings.produce(s.world, tp, 12)
    s.do(s.one, "resolve")
    s.do(_window(s, "w2", 10, 20), "resolve")
    slow = s.go(s.start(s.one, "resolve"), "list orders/batches")
    s.do(s.act(skip=[f"{FIRST}:2"]), "resolve")
    s.world.alive.clear()
    s.go(slow)
    s.do(s.one, "spark", "commit")
    batch = s.world.batches()[0]
    s.expect(bool(s.world.body_of(batch.plan).skips), "a slow run takes back what an act has left out")


def topic_ends_that_only_a_window_in_a_gap_knew(s: Scene) -> None:
    """Its cuts have merged into the stretch, whose bounds are cuts of the topic before."""
    s.world.clock = 60
    s.do(s.one)
    s.do(_window(s, "w3", 20, 30))
    happenings.delete_topic(s.world, "returns")
    s.create(RETURNS, 35)
    topic = s.world.kafka.topics["returns"].topic_id
    s.do(_window(s, "w2", 10, 20))
    happenings.delete_topic(s.world, "returns")
    s.do(_window(s, "w4", 30, 40))
    s.expect(topic in s.world.identities()[-1].ended, "an unread record went with its topic, unsaid")


def window_may_be_of_a_lost_log(s: Scene) -> None:
    s.do(s.one)
    key = s.world.batches()[0].plan.key
    happenings.replace_log(s.world, None)
    act = s.act(after=0, acknowledge={"batch": [key], "windows_from": T0 + 10 * UNIT_MS})
    act.window = 10, 20
    s.do(act, "resolve")
    s.expect(s.do(s.other, "resolve") is not None, "a window that a lost log may have written is planned")
