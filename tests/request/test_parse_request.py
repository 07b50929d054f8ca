"""Every wrong parameter gets a sentence with its remedy, all of them at once; nothing valid is refused."""

import json
from dataclasses import fields
from datetime import UTC, datetime

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.request.modes import (
    BOUNDED_MODES,
    STARTUP_MODES,
    AtTimestamp,
    SpecificOffsets,
)
from airflow_kafka_offsets.request.offset_maps import parse_partition_offsets
from airflow_kafka_offsets.request.parameters import RequestParameters, ScopeParameters, names_of, parameters_of
from airflow_kafka_offsets.request.parse_request import Limits, RunContext, parse_window_end
from airflow_kafka_offsets.request.policies import Policies
from airflow_kafka_offsets.request.subscription import PartitionSet, Scope, TopicList, TopicPattern, parse_scope
from tests.builders import NOW, tp
from tests.request.asking import HOUR, INTERVAL, WINDOW, parse, problems

OFFSETS = {"orders": {"0": 42, "1": 300}}


# ── one wrong parameter, one sentence ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        pytest.param({"topics": None}, "exactly one of topics, topic_pattern and partitions, not none", id="G6 none"),
        pytest.param({"topic_pattern": ".*"}, "exactly one of topics, topic_pattern and partitions", id="G6 two"),
        pytest.param(
            {"topic_pattern": ".*", "partitions": {"orders": [0]}}, "not topics and topic_pattern and partitions",
            id="G6 all three are named",
        ),
        pytest.param({"topics": []}, "topics is []; give at least one topic name", id="no topic in the list"),
        pytest.param({"topics": ""}, "topics is ''; give at least one topic name", id="an empty template"),
        pytest.param({"topics": "orders,,clicks"}, "no empty one", id="an empty topic name"),
        pytest.param({"topics": None, "topic_pattern": "orders["}, "topic_pattern 'orders[' is not a regular", id="re"),
        pytest.param({"topics": None, "topic_pattern": ""}, "topic_pattern is ''; give a regular", id="empty pattern"),
        pytest.param({"topics": None, "partitions": {}}, "partitions is empty", id="no partition"),
        pytest.param({"topics": None, "partitions": {"orders": []}}, "partitions has [] for topic 'orders'", id="[]"),
        pytest.param({"topics": None, "partitions": {"orders": "02"}}, "expected a list such as [0, 2]", id="no list"),
        pytest.param({"topics": None, "partitions": "orders"}, "partitions is not JSON", id="partitions not JSON"),
        pytest.param({"topics": None, "partitions": "[0]"}, 'partitions is [0]; expected {"orders": [0, 2]}', id="[0]"),
        pytest.param({"topics": None, "partitions": {"orders": ["x"]}}, "partition 'x' of topic 'orders'", id="p x"),
        pytest.param({"topics": None, "partitions": {"orders": [1.5]}}, "not a whole number", id="partition 1.5"),
        pytest.param({"group_id": ""}, "group_id is empty", id="D7 empty group"),
        pytest.param({"group_id": "  "}, "group_id is empty", id="D7 blank group"),
        pytest.param({"group_id": None}, "startup_mode='group-offsets' reads a committed offset", id="D6 no group"),
        pytest.param(
            {"group_id": None, "startup_mode": "earliest-offset", "bounded_mode": "group-offsets"},
            "bounded_mode='group-offsets' reads a committed offset", id="D6 no group to end at",
        ),
        pytest.param({"startup_mode": "earliest"}, f"use one of {', '.join(STARTUP_MODES)}", id="M1 no such mode"),
        pytest.param({"bounded_mode": "unbounded"}, f"use one of {', '.join(BOUNDED_MODES)}", id="M3 no batch"),
        pytest.param({"bounded_mode": "earliest-offset"}, "bounded_mode is 'earliest-offset'; use one", id="K6"),
        pytest.param({"startup_mode": "timestamp"}, "startup_timestamp is missing and this run has no", id="A8 time"),
        pytest.param({"bounded_mode": "timestamp"}, "bounded_timestamp is missing and this run has no", id="M3 time"),
        pytest.param({"startup_mode": "specific-offsets"}, "needs specific_offsets, such as", id="A8 offsets"),
        pytest.param({"bounded_mode": "specific-offsets"}, "needs bounded_offsets, such as", id="M3 offsets"),
        pytest.param({"startup_timestamp": NOW}, "goes with startup_mode='timestamp' only", id="A7 stray start time"),
        pytest.param({"bounded_timestamp": NOW}, "goes with bounded_mode='timestamp' only", id="A7 stray end time"),
        pytest.param({"specific_offsets": OFFSETS}, "goes with startup_mode='specific-offsets' only", id="A7 stray"),
        pytest.param({"bounded_offsets": OFFSETS}, "goes with bounded_mode='specific-offsets' only", id="A7 strays"),
        pytest.param(
            {"startup_mode": "timestamp", "startup_timestamp": -1}, "startup_timestamp is -1, before 1970", id="B1"
        ),
        pytest.param(
            {"startup_mode": "timestamp", "startup_timestamp": NOW + 1},
            "startup_timestamp 2026-11-20T10:00:00.001Z is in the future (it is 2026-11-20T10:00Z now)", id="B2",
        ),
        pytest.param(
            {"startup_mode": "timestamp", "interval": (NOW + HOUR, NOW + 2 * HOUR)}, "is in the future",
            id="B2 an interval that has not begun",
        ),
        pytest.param({"bounded_mode": "timestamp", "bounded_timestamp": "soon"}, "bounded_timestamp is 'soon'", id="t"),
        pytest.param(
            {**WINDOW, "startup_timestamp": NOW, "bounded_timestamp": NOW - 1},
            "bounded_timestamp (2026-11-20T09:59:59.999Z) is before startup_timestamp (2026-11-20T10:00Z)",
            id="a window that ends before it starts",
        ),
        pytest.param({"auto_offset_reset": "newest"}, "auto_offset_reset is 'newest'; use one of earliest", id="D8"),
        pytest.param(
            {"auto_offset_reset": "by_duration:1x"}, "auto_offset_reset has a duration that is '1x'", id="D10"
        ),
        pytest.param({"isolation_level": "serializable"}, "isolation_level is 'serializable'; use one", id="isolation"),
        pytest.param(
            {"policies": {"data_loss": "ignore"}}, "policies has data_loss='ignore'; use one of fail, advance", id="odl"
        ),
        pytest.param({"split_by": "hash"}, "split_by is 'hash'; use one of size, flink", id="split_by"),
        pytest.param({"splits": 0}, "splits is 0; it must be at least 1", id="H4 no splits"),
        pytest.param({"splits": 10_001}, "splits is 10001; there can be 10000 Spark jobs at most", id="many splits"),
        pytest.param({"max_records": 0}, "max_records is 0; it must be at least 1", id="cap 0"),
        pytest.param({"max_records": "many"}, "max_records is 'many', which is not a whole number", id="cap a word"),
        pytest.param({"max_records_per_partition": True}, "is True, which is not a whole number", id="cap a flag"),
        pytest.param(
            {**WINDOW, "interval": INTERVAL, "max_records": 5}, "cannot be used with a window", id="capped window"
        ),
        pytest.param(
            {**WINDOW, "interval": INTERVAL, "max_records_per_partition": 5}, "Use a smaller window", id="capped p"
        ),
        pytest.param({"require_complete_window": True}, "needs bounded_mode='timestamp'", id="K3 only a time"),
        pytest.param(
            {**WINDOW, "interval": INTERVAL, "restart": "today"}, "a window has none. Use re_plan", id="restart window"
        ),
        pytest.param({"output_name": " "}, "output_name is ' '; give the path or the table", id="no output"),
        pytest.param({"commit_mode": "never"}, "use one of on-success, checkpoint-only", id="I1 no such commit mode"),
        pytest.param({"idle_timeout": float("inf")}, "idle_timeout is inf, which has no end", id="a wait without end"),
    ],
)  # fmt: skip
def test_a_wrong_parameter_gets_one_sentence(parameters, sentence):
    found = problems(**parameters)
    assert len(found) == 1, found
    assert sentence in found[0]
    assert found[0].endswith("."), "a sentence"


@pytest.mark.parametrize(
    ("offset", "name"),
    [
        (-1, "latest"),
        (-2, "earliest"),
        (-3, "committed"),
        ("-2", "earliest"),
        (-915623761773, "committed"),
        (-915623761774, "latest"),
        (-915623761775, "earliest"),
        (-915623761776, "not set"),
    ],
)
@pytest.mark.parametrize(
    "parameters",
    [("startup_mode", "specific_offsets"), ("bounded_mode", "bounded_offsets")],
    ids=["start", "end"],
)
def test_A9_C10_a_sentinel_is_refused_by_name(parameters, offset, name):
    mode, offsets = parameters
    [found] = problems(**{mode: "specific-offsets", offsets: {"orders": {"3": offset}}})
    assert found.startswith(f"{offsets} has offset {offset!r} for orders[3]")
    assert repr(name) in found


@pytest.mark.parametrize("offset", [-4, -(2**63)])
def test_C10_any_other_negative_offset_is_refused(offset):
    [found] = problems(startup_mode="specific-offsets", specific_offsets={"orders": {"0": offset}})
    assert f"offset {offset} for orders[0]" in found


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_records": -1},
        {"max_records_per_partition": -2},
        {"splits": -1},
        {"topics": None, "partitions": {"orders": [-1]}},
    ],
    ids=str,
)
def test_a_negative_count_or_partition_is_not_called_a_sentinel(parameters):
    """-1 is "latest" where an offset belongs, and there only; elsewhere "use a mode instead" would mislead."""
    [found] = problems(**parameters)
    assert "-1" in found or "-2" in found
    assert "sentinel" not in found
    assert "mode" not in found


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"orders": 42}, "has 42 for topic 'orders'"),
        ({"orders": {"x": 42}}, "has partition 'x' of topic 'orders', which is not a whole number"),
        ({"orders": {"0": "x"}}, "has offset 'x' for orders[0]; expected an offset"),
        ({"orders": {"0": None}}, "has offset None for orders[0]"),
        ({"orders": {"0": 4.5}}, "has offset 4.5 for orders[0]"),
        ({"orders": {"0": True}}, "has offset True for orders[0]"),
        ("[]", 'is []; expected {"orders": {"0": 42}}'),
        ("{", "is not JSON"),
    ],
)
def test_bad_offsets_are_named_by_partition(value, sentence):
    with pytest.raises(ValueError, match=r"expected|whole number") as refused:
        parse_partition_offsets(value)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("parameter", ["startup_timestamp", "bounded_timestamp"])
def test_a_missing_time_in_an_interval_without_length_names_the_timetable(parameter):
    """A plain cron string gives zero-length intervals in Airflow 3."""
    mode = {"startup_timestamp": "startup_mode", "bounded_timestamp": "bounded_mode"}[parameter]
    [found] = problems(**{mode: "timestamp"}, interval=(NOW, NOW))
    assert found.startswith(f"{parameter} is missing and the run's data interval has no length")
    assert "CronDataIntervalTimetable" in found


# ── several at once, and no false ones ────────────────────────────────────────────────────────────────────────────────


def test_all_problems_come_at_once():
    found = problems(
        topics=None,
        group_id=" ",
        startup_mode="timestamp",
        startup_timestamp="soon",
        bounded_mode="never",
        auto_offset_reset="newest",
        isolation_level="dirty",
        pipeline_id="",
        skip=5,
        restart=5,
        data_loss="ignore",
        split_by="hash",
        splits=0,
        max_records=0,
        max_records_per_partition="x",
    )
    assert len(found) == 14
    for name in ("Give exactly one", "group_id", "startup_timestamp", "bounded_mode", "auto_offset_reset", "isolation",
                 "policies has data_loss", "split_by", "splits", "max_records ", "max_records_per_partition",
                 "pipeline_id", "skip", "restart"):  # fmt: skip
        assert sum(problem.startswith(name) for problem in found) == 1, name


def test_the_message_has_every_problem_on_a_line_of_its_own():
    with pytest.raises(InvalidRequest) as refused:
        parse(splits=0, split_by="hash")
    first, *rest = refused.value.message.splitlines()
    assert first == "2 problems with the request:"
    assert sorted(line[:10] for line in rest) == ["- split_by", "- splits i"]


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param({"startup_mode": "timestamp", "startup_timestamp": "soon"}, id="a bad start time"),
        pytest.param({"startup_mode": "earlest-offset"}, id="a misspelt mode"),
        pytest.param({"startup_mode": "specific-offsets"}, id="missing offsets"),
        pytest.param(
            {"startup_mode": "earliest-offset", "bounded_mode": "timestamp", "bounded_timestamp": "soon",
             "require_complete_window": True}, id="a bad end time of a window that must be complete",
        ),
    ],
)  # fmt: skip
def test_a_wrong_mode_draws_no_problem_about_a_mode_that_nobody_asked_for(parameters):
    """Without a group: a start that cannot be read must not be checked as if it were group-offsets."""
    found = problems(group_id=None, **parameters)
    assert len(found) == 1, found


# ── nothing valid is refused ──────────────────────────────────────────────────────────────────────────────────────────


def test_A1_the_defaults_are_group_offsets_to_the_latest():
    request = parse()
    assert (request.startup, request.bounded) == ("group-offsets", "latest-offset")
    assert request.policies == Policies(auto_offset_reset=None), "nobody has said what no commit means (A1)"
    assert request.scope == Scope(TopicList(("orders",)), "g", "read_uncommitted", None)
    assert request.limits == Limits()
    assert (request.window, request.output, request.group_follows) == (False, None, True)


@pytest.mark.parametrize(
    ("parameters", "startup", "bounded"),
    [
        ({"startup_mode": "earliest-offset", "group_id": None}, "earliest-offset", "latest-offset"),
        ({"startup_mode": "latest-offset", "group_id": None}, "latest-offset", "latest-offset"),
        (
            {"startup_mode": "timestamp", "startup_timestamp": NOW},
            AtTimestamp(NOW),
            "latest-offset",
        ),  # B2: equal to now
        ({"startup_mode": "timestamp", "startup_timestamp": 0}, AtTimestamp(0), "latest-offset"),  # B3
        (
            {"startup_mode": "timestamp", "startup_timestamp": datetime(2026, 11, 20, 9, tzinfo=UTC)},
            AtTimestamp(NOW - HOUR),
            "latest-offset",
        ),
        (
            {"startup_mode": "specific-offsets", "specific_offsets": OFFSETS, "group_id": None},
            SpecificOffsets({tp(0): 42, tp(1): 300}),
            "latest-offset",
        ),
        ({"startup_mode": "specific-offsets", "specific_offsets": {}}, SpecificOffsets({}), "latest-offset"),  # C14
        ({"bounded_mode": "group-offsets"}, "group-offsets", "group-offsets"),
        (
            {"bounded_mode": "timestamp", "bounded_timestamp": NOW + HOUR},  # K3: a future end is "what is there"
            "group-offsets",
            AtTimestamp(NOW + HOUR),
        ),
        (
            {"bounded_mode": "specific-offsets", "bounded_offsets": {"orders": {"0": 0}}},  # K10: 0 is an end
            "group-offsets",
            SpecificOffsets({tp(0): 0}),
        ),
        (
            {**WINDOW, "startup_timestamp": NOW, "bounded_timestamp": NOW},
            AtTimestamp(NOW),
            AtTimestamp(NOW),
        ),
    ],
)
def test_every_mode_can_be_asked_for(parameters, startup, bounded):
    request = parse(**parameters)
    assert (request.startup, request.bounded) == (startup, bounded)


@pytest.mark.parametrize(
    ("written", "meaning"),
    [
        ({"topics": "orders"}, TopicList(("orders",))),
        ({"topics": "orders, clicks,orders"}, TopicList(("clicks", "orders"))),
        ({"topics": ["orders", "clicks"]}, TopicList(("clicks", "orders"))),
        ({"topic_pattern": "ord.*"}, TopicPattern("ord.*")),
        ({"partitions": {"orders": [2, 0, 2]}}, PartitionSet((tp(0), tp(2)))),
        ({"partitions": '{"orders": [0, "2"], "clicks": [1]}'}, PartitionSet((tp(1, "clicks"), tp(0), tp(2)))),
    ],
)
def test_a_subscription_is_read_as_it_is_written(written, meaning):
    assert parse(**{"topics": None, **written}).scope.subscription == meaning
    assert parse_scope(ScopeParameters(**written)) == Scope(meaning)


def test_a_scope_on_its_own_is_refused_in_the_same_words_and_with_every_problem():
    with pytest.raises(InvalidRequest) as refused:
        parse_scope(ScopeParameters(isolation_level="dirty", group_id=""))
    assert list(refused.value.problems) == problems(topics=None, isolation_level="dirty", group_id="")
    assert len(refused.value.problems) == 3


@pytest.mark.parametrize(
    ("pattern", "topic", "matches"),
    [("orders", "orders", True), ("orders", "orders-eu", False), ("orders", "my-orders", False), ("a|b", "ab", False)],
)
def test_G2_a_pattern_matches_the_whole_name(pattern, topic, matches):
    assert TopicPattern(pattern).matches(topic) is matches


@pytest.mark.parametrize(
    ("written", "strategy"),
    [
        *[(word, "earliest") for word in ("earliest", "smallest", "beginning", "EARLIEST", " earliest ")],
        *[(word, "latest") for word in ("latest", "largest", "end")],
        *[(word, "none") for word in ("none", "error", "None")],
    ],
)
def test_D8_D9_the_synonyms_of_librdkafka_are_kafkas_three_strategies(written, strategy):
    assert parse(auto_offset_reset=written).policies.auto_offset_reset == strategy


@pytest.mark.parametrize("parameter", ["specific_offsets", "bounded_offsets"])
def test_offsets_may_be_JSON(parameter):
    mode = {"specific_offsets": "startup_mode", "bounded_offsets": "bounded_mode"}[parameter]
    as_value = parse(**{mode: "specific-offsets", parameter: OFFSETS})
    as_text = parse(**{mode: "specific-offsets", parameter: json.dumps(OFFSETS)})
    assert as_text == as_value
    made = as_value.startup if parameter == "specific_offsets" else as_value.bounded
    assert made.offsets == {tp(0): 42, tp(1): 300}


@pytest.mark.parametrize(
    "written",
    [
        "partition:0,offset:42;partition:1,offset:300",
        "partition:0,offset:42;partition:1,offset:300;",
        "topic:orders,partition:0,offset:42;partition:1,offset:300",
    ],
    ids=["as in SQL", "trailing semicolon", "with its topic"],
)
def test_C13_the_string_of_Flinks_SQL_is_accepted(written):
    request = parse(topics="orders", startup_mode="specific-offsets", specific_offsets=written)
    assert request.startup == SpecificOffsets({tp(0): 42, tp(1): 300})


def test_M8_the_string_of_Flinks_SQL_is_accepted_for_several_topics_that_it_names():
    written = "topic:orders,partition:0,offset:42;topic:clicks,partition:0,offset:7"
    request = parse(topics="orders,clicks", startup_mode="specific-offsets", specific_offsets=written)
    assert request.startup == SpecificOffsets({tp(0): 42, tp(0, "clicks"): 7})


def test_M8_which_of_several_topics_a_string_means_is_not_guessed():
    [found] = problems(
        topics="orders,clicks", startup_mode="specific-offsets", specific_offsets="partition:0,offset:42"
    )
    assert "names no topic" in found


@pytest.mark.parametrize(
    "written",
    ["", ";", "partition:0", "partition:0,offset:x", "offset:1,partition:0", "partition:0,offset:-1",
     "partition:0, offset:1", "partition:0,offset:1,offset:2", "partition:0,offset:1partition:1,offset:2"],
)  # fmt: skip
def test_C13_a_malformed_string_is_refused(written):
    [found] = problems(startup_mode="specific-offsets", specific_offsets=written)
    assert found.startswith("specific_offsets ")


def test_numbers_may_be_the_strings_of_templates_and_command_lines():
    request = parse(max_records="1000", max_records_per_partition="10", splits="3")
    assert request.limits == Limits(max_records=1000, max_records_per_partition=10, splits=3)


def test_the_interval_fills_in_both_bounds():
    request = parse(**WINDOW, interval=INTERVAL)
    assert (request.startup, request.bounded) == (AtTimestamp(INTERVAL[0]), AtTimestamp(INTERVAL[1]))
    assert request.startup.written == "of the data interval"
    assert request.run_context.interval == INTERVAL
    assert request.window


def test_an_explicit_time_wins_over_the_interval():
    request = parse(**WINDOW, interval=INTERVAL, startup_timestamp=INTERVAL[0] - HOUR)
    assert (request.startup, request.bounded) == (AtTimestamp(INTERVAL[0] - HOUR), AtTimestamp(INTERVAL[1]))
    assert request.startup.written is None


def test_the_interval_of_a_live_schedule_only_ends_it():
    """The pair that DESIGN recommends for a live schedule: from the position, to the interval's end."""
    request = parse(bounded_mode="timestamp", interval=INTERVAL, require_complete_window=True)
    assert (request.startup, request.bounded) == ("group-offsets", AtTimestamp(INTERVAL[1]))
    assert not request.window
    assert request.limits.require_complete


@pytest.mark.parametrize("parameter", ["startup_timestamp", "bounded_timestamp"])
def test_B10_seconds_are_warned_of_and_accepted(parameter):
    mode = {"startup_timestamp": "startup_mode", "bounded_timestamp": "bounded_mode"}[parameter]
    [warning] = parse(**{mode: "timestamp", parameter: NOW // 1000}).warnings
    assert warning.startswith(f"{parameter} {NOW // 1000} is 1970-01-21T")
    assert "seconds?" in warning
    assert parse(**{mode: "timestamp", parameter: NOW}).warnings == ()


# ── windows and runs ──────────────────────────────────────────────────────────────────────────────────────────────────

BOTH_OFFSETS = {
    "startup_mode": "specific-offsets",
    "specific_offsets": OFFSETS,
    "bounded_mode": "specific-offsets",
    "bounded_offsets": OFFSETS,
}


@pytest.mark.parametrize(
    ("parameters", "window"),
    [
        pytest.param({**WINDOW, "interval": INTERVAL, "run_type": "scheduled"}, True, id="two times, scheduled"),
        pytest.param({**WINDOW, "interval": INTERVAL, "run_type": "backfill"}, True, id="two times, backfill"),
        pytest.param({**BOTH_OFFSETS, "run_type": "manual"}, True, id="two offsets, by hand"),
        pytest.param({**BOTH_OFFSETS, "run_type": "operator_triggered"}, True, id="two offsets, by another DAG"),
        pytest.param({**BOTH_OFFSETS, "run_type": "asset_materialization"}, True, id="two offsets, for an asset"),
        pytest.param({**BOTH_OFFSETS, "run_type": "scheduled"}, False, id="two offsets on a schedule"),
        pytest.param({**BOTH_OFFSETS, "run_type": "asset_triggered"}, False, id="two offsets, asset-triggered"),
        pytest.param({"startup_mode": "timestamp", "startup_timestamp": NOW}, False, id="a start time alone"),
        pytest.param({"bounded_mode": "timestamp", "bounded_timestamp": NOW}, False, id="an end time alone"),
        pytest.param({"startup_mode": "earliest-offset"}, False, id="earliest to latest"),
    ],
)
def test_a_window_has_both_bounds_from_time_or_by_hand_from_offsets(parameters, window):
    assert parse(**parameters).window is window


@pytest.mark.parametrize(
    ("parameters", "group_follows", "reads_commits"),
    [
        pytest.param({}, True, True, id="the defaults"),
        pytest.param({"startup_mode": "earliest-offset"}, True, False, id="no offset of the group, which follows"),
        pytest.param({"commit_mode": "checkpoint-only"}, False, True, id="checkpoint-only starts from a commit"),
        pytest.param({"startup_mode": "earliest-offset", "group_id": None}, False, False, id="no group"),
        pytest.param({**WINDOW, "interval": INTERVAL}, False, False, id="a window"),
        pytest.param(
            {"startup_mode": "latest-offset", "bounded_mode": "group-offsets", "commit_mode": "checkpoint-only"},
            False, True, id="an end that is a commit",
        ),
    ],
)  # fmt: skip
def test_which_requests_look_at_the_group_and_which_lead_it(parameters, group_follows, reads_commits):
    request = parse(**parameters)
    assert (request.group_follows, request.reads_commits) == (group_follows, reads_commits)


def test_an_output_is_one_however_its_path_ends():
    assert parse(output_name=" s3://lake/orders/ ").output == parse(output_name="s3://lake/orders").output


def test_the_occasion_and_the_pipeline_are_kept_as_given():
    request = parse(pipeline_id="c", run_type="scheduled", interval=INTERVAL)
    assert request.run_context == RunContext(NOW, INTERVAL, None, "scheduled")
    assert request.scope.pipeline_id == "c"


# ── a name that is no text ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("rendered", [2026, 1e50, True, 0, False], ids=str)
@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param(lambda it: {"topics": it}, id="topics"),
        pytest.param(lambda it: {"topics": ["orders", it]}, id="one of topics"),
        pytest.param(lambda it: {"topics": None, "topic_pattern": it}, id="topic_pattern"),
        pytest.param(lambda it: {"topics": None, "partitions": {it: [0]}}, id="partitions"),
        pytest.param(lambda it: {"topics": None, "partitions": {"orders": [0], it: [0]}}, id="one of partitions"),
        pytest.param(lambda it: {"group_id": it}, id="group_id"),
        pytest.param(lambda it: {"pipeline_id": it}, id="pipeline_id"),
        pytest.param(lambda it: {"output_name": it}, id="output_name"),
        pytest.param(
            lambda it: {"startup_mode": "specific-offsets", "specific_offsets": {it: {"0": 1}, "orders": {"0": 1}}},
            id="specific_offsets",
        ),
        pytest.param(
            lambda it: {"startup_mode": "timestamp", "startup_timestamp": {it: NOW}}, id="startup_timestamp",
        ),
    ],
)  # fmt: skip
def test_a_name_that_native_rendering_made_a_number_is_one_problem_that_shows_it(parameters, rendered):
    """``render_template_as_native_obj`` makes 2026 of the topic "2026"; a bare TypeError told nobody."""
    [found] = problems(**parameters(rendered))
    assert repr(rendered) in found
    assert not found.endswith((".).", "..")), found


def test_how_a_template_keeps_such_a_name_text_is_said():
    [found] = problems(topics=2026)
    assert """write "'{{ params.topic }}'\"""" in found


# ── the parameters themselves ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_parameters_of_an_object_are_found_by_name_and_others_keep_their_defaults():
    class Operator:
        topics, splits, unrelated = "clicks", 3, "x"

    assert parameters_of(RequestParameters, Operator()) == RequestParameters(topics="clicks", splits=3)
    assert parameters_of(ScopeParameters, Operator()) == ScopeParameters(topics="clicks")


def test_a_scope_is_the_first_of_a_requests_parameters():
    assert names_of(RequestParameters)[: len(fields(ScopeParameters))] == names_of(ScopeParameters)
    assert set(RequestParameters(topics="a", splits=2).to_dict()) == set(names_of(ScopeParameters))


# ── the end of a window alone ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_sensor_waits_for_the_end_that_the_request_would_have():
    end = parse_window_end(ScopeParameters(topics="orders"), None, RunContext(NOW, INTERVAL))
    assert end.until == parse(**WINDOW, interval=INTERVAL).bounded
    assert end.scope == Scope(TopicList(("orders",)))
    assert (end.idle_timeout_ms, end.clock_skew_ms) == (300_000, 10_000)


def test_a_sensor_names_every_problem():
    with pytest.raises(InvalidRequest) as refused:
        parse_window_end(ScopeParameters(), "soon", RunContext(NOW), idle_timeout=float("nan"), clock_skew="P1M")
    assert [problem.split()[0] for problem in refused.value.problems] == ["Give", "end", "idle_timeout", "clock_skew"]
