"""Every wrong parameter gets a sentence with its remedy, all of them at once; nothing valid is refused."""

import pickle
from datetime import UTC, datetime

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.kafka_values import PartitionSet, TopicList, TopicPartition, TopicPattern
from airflow_kafka_offsets.offsets import GroupOffsets, SpecificOffsets, Timestamp
from airflow_kafka_offsets.request import (
    GroupStart,
    OffsetsStart,
    Request,
    RunContext,
    TimeStart,
    check_parameters,
    parse_some,
)
from tests.request.asking import HOUR, INTERVAL, NOW, WINDOW, parse, problems

SOME = SpecificOffsets({"orders": {"0": 42, "1": 300}})
OFFSETS = {TopicPartition("orders", 0): 42, TopicPartition("orders", 1): 300}


# ── one wrong parameter, one sentence ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        pytest.param({"topics": None}, "topics is None; give ['orders']", id="G6 none"),
        pytest.param({"topics": []}, "topics is []; give ['orders']", id="no topic in the list"),
        pytest.param({"topics": ""}, "topics has topic ''; topic names have", id="an empty template"),
        pytest.param({"topics": "orders,,clicks"}, "topics has topic ''", id="an empty topic name"),
        pytest.param({"topics": 2026}, "topics is 2026; give ['orders']", id="a number"),
        pytest.param({"topics": ["orders", 2026]}, "has topic 2026, which is not text", id="one is a number"),
        pytest.param({"topics": ["a" * 250]}, "up to 249", id="a long name"),
        pytest.param({"topics": ["^orders"]}, "has topic '^orders'", id="a pattern among names"),
        pytest.param({"topics": "^orders["}, "topics '^orders[' is not a regular expression", id="no regex"),
        pytest.param({"topics": "^(?!x).*"}, "RE2 has no look-around", id="a pattern that RE2 does not take"),
        pytest.param({"topics": "^orders\x1b"}, r"has the control character '\x1b'", id="control in a pattern"),
        pytest.param({"topics": {}}, "topics is empty; expected {'orders': [0, 2]}", id="no partition"),
        pytest.param({"topics": {"orders": []}}, "topics has [] for topic 'orders'", id="no partition of a topic"),
        pytest.param({"topics": {"orders": "02"}}, "expected a list such as [0, 2]", id="no list"),
        pytest.param({"topics": {"orders": ["x"]}}, "has partition 'x' of topic orders", id="partition x"),
        pytest.param({"topics": {"orders": [-1]}}, "has partition -1 of topic orders", id="partition -1"),
        pytest.param({"topics": "['orders']"}, "topics is not JSON", id="a list that a template wrote in Python"),
        pytest.param({"group_id": ""}, "group_id is '', which is empty", id="D7 empty group"),
        pytest.param({"group_id": " \t"}, r"group_id is ' \t', which is empty", id="D7 blank group"),
        pytest.param({"group_id": " g"}, "begins with a space: the Kafka client would use another", id="cut off"),
        pytest.param({"group_id": "g\0h"}, r"has the control character '\x00'", id="the client ends a name at NUL"),
        pytest.param({"group_id": "g\ud800"}, r"has the control character '\ud800'", id="a surrogate aborts it"),
        pytest.param({"group_id": "ä" * 16_351}, "group_id has 32,702 bytes; Kafka takes 32,700", id="a long group"),
        pytest.param({"group_id": 2026}, "group_id is 2026, which is not text", id="a group that is a number"),
        pytest.param({"group_id": None}, "start is GroupOffsets(), and there is no group to read", id="D6 no group"),
        pytest.param({"start": GroupOffsets(" ")}, "start has a group_id that is ' ', which is empty", id="D7 own"),
        pytest.param({"start": GroupOffsets}, "start is the class GroupOffsets and not GroupOffsets()", id="class"),
        pytest.param({"end": Timestamp}, "end is the class Timestamp and not Timestamp()", id="class at the end"),
        pytest.param({"start": "earlest"}, "start is 'earlest'; give 'earliest', 'latest', Timestamp()", id="M1"),
        pytest.param({"start": None}, "start is None; give 'earliest', 'latest'", id="no start"),
        pytest.param({"start": {"orders": {"0": 1}}}, "GroupOffsets() or SpecificOffsets({…})", id="bare offsets"),
        pytest.param({"start": GroupOffsets(otherwise="none")}, "start has otherwise='none'; give", id="D8"),
        pytest.param({"start": SpecificOffsets({"orders": 3})}, "start has 3 for topic 'orders'", id="no offsets"),
        pytest.param({"start": Timestamp()}, "start is Timestamp(), and this run has no data interval", id="A8"),
        pytest.param({"start": Timestamp(-1)}, "start is -1, before 1970", id="B1"),
        pytest.param({"start": Timestamp("soon")}, "start is 'soon'; give epoch milliseconds", id="no time"),
        pytest.param({"start": Timestamp(NOW + 1)}, "start 2026-11-20T10:00:00.001Z is in the future (it is", id="B2"),
        pytest.param({"end": "earliest"}, "end is 'earliest', before which there is nothing to read", id="K6"),
        pytest.param({"end": GroupOffsets(otherwise="latest")}, "end has otherwise='latest', which goes with", id="K4"),
        pytest.param({"end": SpecificOffsets({}, "latest")}, "end has otherwise='latest', which goes with", id="K5"),
        pytest.param({"end": Timestamp()}, "end is Timestamp(), and this run has no data interval", id="no end time"),
        pytest.param({"max_records": 0}, "max_records is 0; give at least 1", id="cap 0"),
        pytest.param({"max_records": "many"}, "max_records is 'many', which is not a whole number", id="cap a word"),
        pytest.param({"max_records": True}, "max_records is True, which is not a whole number", id="cap a flag"),
        pytest.param({"on_data_loss": "ignore"}, "on_data_loss is 'ignore'; give 'fail', 'advance'", id="data loss"),
        pytest.param({"on_data_loss": "reset"}, "on_data_loss='reset' needs to know where to resume", id="E2 reset"),
        pytest.param({"exclude": ["orders"]}, "exclude has 'orders'; expected <topic>-<partition>", id="exclude"),
        pytest.param({"exclude": ["orders-x"]}, "exclude has partition 'x' of topic orders", id="exclude x"),
        pytest.param({"exclude": [("orders", 1)]}, "expected <topic>-<partition>", id="exclude a pair"),
        pytest.param({"exclude": 3}, "exclude is 3; give partitions such as ['orders-3']", id="exclude a number"),
        pytest.param({"exclude": ["clicks-0"]}, "exclude has clicks-0, which is not in the subscription", id="typo"),
        pytest.param({"shard": (4, 4)}, "shard is (4, 4); i is 0 to n - 1", id="H4 shard"),
        pytest.param({"shard": 3}, "shard is 3; give (i, n)", id="no shard"),
        pytest.param({"shard": (0, None)}, "shard has None, which is not a whole number", id="half a shard"),
        pytest.param({"require_report": "no"}, "require_report is 'no'; give True or False", id="no flag"),
        pytest.param({"filter_restored_partitions": None}, "filter_restored_partitions is None; give", id="none"),
        pytest.param({"pipeline_id": None}, "pipeline_id is missing", id="no pipeline"),
        pytest.param({"pipeline_id": "a/b"}, "'/' separates a pipeline from its shards", id="a shard's name"),
        pytest.param({"pipeline_id": "a\x1b[2J"}, r"has the control character '\x1b'", id="a terminal's control"),
        pytest.param({"pipeline_id": "a\u202eb"}, r"has the control character '\u202e'", id="text that turns round"),
        pytest.param({"pipeline_id": "a" * 201}, "pipeline_id has 201 characters; give 200 at most", id="long"),
        pytest.param({"pipeline_id": 5}, "pipeline_id is 5, which is not text", id="a pipeline that is a number"),
        pytest.param({"start_offsets": "x"}, "start_offsets is not a parameter of a request", id="an unknown one"),
        pytest.param(
            {"connection": {"isolation.level": "serializable"}},
            "isolation.level in the Kafka connection is 'serializable'; give", id="isolation",
        ),
        pytest.param({"conf": []}, 'conf is []: input should be a dictionary', id="a conf that is none"),
        pytest.param({"connection": {"auto.offset.reset": "oldest"}}, "connection is 'oldest'; give", id="D8 reset"),
        pytest.param({"conf": {"restart": True}}, "conf has 'restart', which is no word of it", id="conf"),
        pytest.param({"conf": {"reason": "a\nb"}}, r"has the control character '\n'", id="two lines"),
        pytest.param({"conf": {"window": [NOW]}}, "conf has window: field required. An", id="half a window"),
        pytest.param({"conf": {"window": "today"}}, "conf has window: input should be a valid tuple", id="no window"),
        pytest.param({"conf": {"window": ["a", NOW]}}, "conf has window, which is 'a'; give epoch", id="no bound"),
        pytest.param({"conf": {"window": INTERVAL}}, "which goes with start=Timestamp() and end=", id="in sequence"),
        pytest.param(
            {**WINDOW, "interval": (NOW, NOW)},
            "data interval of this run is empty (2026-11-20T10:00Z to 2026-11-20T10:00Z)", id="Airflow 3's @hourly",
        ),
        pytest.param(
            {**WINDOW, "start": Timestamp(NOW), "end": Timestamp(NOW - 1)},
            "end 2026-11-20T09:59:59.999Z is not after start 2026-11-20T10:00Z", id="the wrong way round",
        ),
        pytest.param({**WINDOW, "interval": INTERVAL, "group_id": "g"}, "group_id cannot be used by window", id="gr"),
        pytest.param({**WINDOW, "interval": INTERVAL, "max_records": 5}, "max_records cannot be used by", id="capped"),
    ],
)  # fmt: skip
def test_a_wrong_parameter_gets_one_sentence(parameters, sentence):
    [said] = problems(**parameters)
    assert sentence in said
    assert said.endswith("."), "a sentence"


def test_all_problems_come_at_once_each_on_a_line_of_its_own():
    wrong = {
        "topics": None, "group_id": " ", "start": Timestamp("soon"), "end": "never", "max_records": 0, "shard": 1,
        "on_data_loss": "ignore", "exclude": 0, "require_report": 7, "filter_restored_partitions": 7, "pipeline_id": "",
    }  # fmt: skip
    with pytest.raises(InvalidRequest) as refused:
        parse(**wrong, conf={"restart": 1}, connection={"isolation.level": "dirty"})
    first, *lines = refused.value.message.splitlines()
    assert first == "13 problems with the request:"
    for name in (*wrong, "The run's conf has 'restart',", "isolation.level"):
        assert sum(line.startswith(f"- {name}") for line in lines) == 1, name


def test_no_setting_of_the_connection_but_the_wrong_one_is_in_a_message():
    connection = {"sasl.password": "s3cret", "isolation.level": "dirty"}
    with pytest.raises(InvalidRequest) as refused:
        parse(connection=connection, start="never", on_data_loss="reset")
    assert "dirty" in str(refused.value)
    assert b"s3cret" not in pickle.dumps(refused.value)
    assert "s3cret" not in repr(parse(connection={**connection, "isolation.level": "read_committed"}))


# ── nothing valid is refused ──────────────────────────────────────────────────────────────────────────────────────────


def test_A1_the_defaults_are_the_groups_offsets_to_the_latest():
    assert parse() == Request(
        TopicList(("orders",)), "p", "g", GroupStart("g"), "latest", None, None, "fail", None, frozenset(), None,
        True, True, "read_uncommitted", NOW, "topics orders, start offsets of group g, end latest",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "start", "end"),
    [
        ({"start": "earliest", "group_id": None}, "earliest", "latest"),
        ({"start": "latest", "group_id": None}, "latest", "latest"),
        ({"start": GroupOffsets("other"), "group_id": None}, GroupStart("other"), "latest"),
        ({"start": GroupOffsets(otherwise="earliest")}, GroupStart("g", "earliest"), "latest"),
        ({"start": Timestamp(NOW)}, TimeStart(NOW), "latest"),  # B2: equal to now
        ({"start": Timestamp(0)}, TimeStart(0), "latest"),  # B3
        ({"start": Timestamp(datetime(2026, 11, 20, 9, tzinfo=UTC))}, TimeStart(NOW - HOUR), "latest"),
        ({"start": Timestamp(), "interval": INTERVAL}, TimeStart(INTERVAL[0]), "latest"),
        ({"start": SOME}, OffsetsStart(OFFSETS, "g"), "latest"),
        ({"start": SOME, "group_id": None}, OffsetsStart(OFFSETS), "latest"),  # C5: without a group
        ({"start": SpecificOffsets({}, "latest")}, OffsetsStart({}, "g", "latest"), "latest"),  # C14
        ({"end": GroupOffsets("other")}, GroupStart("g"), GroupStart("other")),
        ({"end": GroupOffsets()}, GroupStart("g"), GroupStart("g")),
        ({"end": Timestamp(NOW + HOUR)}, GroupStart("g"), TimeStart(NOW + HOUR)),  # K3: "what is there"
        ({"end": Timestamp(), "interval": INTERVAL}, GroupStart("g"), TimeStart(INTERVAL[1])),
        ({"end": SOME}, GroupStart("g"), OffsetsStart(OFFSETS)),
        ({**WINDOW, "interval": INTERVAL}, TimeStart(INTERVAL[0]), TimeStart(INTERVAL[1])),
    ],
)
def test_every_start_and_end_can_be_asked_for(parameters, start, end):
    request = parse(**parameters)
    assert (request.start, request.end) == (start, end)
    assert request.window == ((start.ms, end.ms) if parameters == {**WINDOW, "interval": INTERVAL} else None)


@pytest.mark.parametrize(
    ("written", "meaning"),
    [
        ("orders", TopicList(("orders",))),
        ("orders, clicks,orders", TopicList(("clicks", "orders"))),
        (("orders", "clicks"), TopicList(("clicks", "orders"))),
        ('["orders", "clicks"]', TopicList(("clicks", "orders"))),
        ("^ord.*", TopicPattern("^ord.*")),
        ({"orders": [2, 0, "2"]}, PartitionSet((TopicPartition("orders", 0), TopicPartition("orders", 2)))),
        ('{"orders": [0]}', PartitionSet((TopicPartition("orders", 0),))),
    ],
)
def test_a_subscription_is_read_as_it_is_written(written, meaning):
    assert parse(topics=written).subscription == meaning


def test_G2_a_pattern_matches_the_whole_name():
    pattern = parse(topics="^orders|clicks").subscription
    assert [pattern.matches(topic) for topic in ("orders", "clicks", "orders-eu", "my-clicks")] == [1, 1, 0, 0]


def test_a_pattern_takes_linear_time_whatever_topics_are_called():
    assert not parse(topics="^(a+)+$").subscription.matches("a" * 240 + "b")  # Python's own takes 2^240 steps


@pytest.mark.parametrize("topics", ["orders", {"orders": [0, 1]}])
def test_C13_flinks_text_means_the_only_topic(topics):
    start = SpecificOffsets("partition:0,offset:42;partition:1,offset:300")
    assert parse(topics=topics, start=start).start == OffsetsStart(OFFSETS, "g")


def test_what_templates_render_as_text_counts_as_what_it_says():
    request = parse(
        max_records="1000", shard=("0", "4"), require_report="False", filter_restored_partitions="true",
        exclude="orders-1, orders-2", start=Timestamp(str(NOW)),
    )  # fmt: skip
    assert (request.max_records, request.shard, request.require_report) == (1000, (0, 4), False)
    assert request.exclude == {TopicPartition("orders", 1), TopicPartition("orders", 2)}
    assert request.start == TimeStart(NOW)


def test_partitions_to_exclude_may_be_written_as_those_to_read():
    assert parse(exclude={"orders": [1]}).exclude == parse(exclude=["orders-1"]).exclude
    assert parse(exclude=[]).exclude == parse(exclude="").exclude == frozenset()


def test_a_shard_is_a_pipeline_of_its_own():
    request = parse(shard=(1, 4))
    assert (request.pipeline_id, request.shard) == ("p/1-of-4", (1, 4))


@pytest.mark.parametrize(
    ("setting", "otherwise"),
    [
        *[(word, "earliest") for word in ("earliest", "smallest", "beginning", "EARLIEST")],
        *[(word, "latest") for word in ("latest", "largest", "end")],
        *[(word, None) for word in ("none", "error", "by_duration:PT1H", None)],
    ],
)
def test_D8_D9_the_connection_says_what_no_committed_offset_means_unless_the_start_does(setting, otherwise):
    connection = {"auto.offset.reset": setting}
    assert parse(connection=connection).start == GroupStart("g", otherwise)
    assert parse(connection=connection, start="earliest").otherwise == otherwise
    assert parse(connection=connection, start=GroupOffsets(otherwise="latest")).otherwise == "latest"
    assert parse(connection=connection, start=SpecificOffsets({})).start == OffsetsStart({}, "g", otherwise)
    assert parse(connection=connection, end=GroupOffsets()).end == GroupStart("g"), "an end has no otherwise (K4)"


def test_reset_resumes_where_otherwise_says():
    assert parse(on_data_loss="reset", start=GroupOffsets(otherwise="latest")).otherwise == "latest"
    assert parse(on_data_loss="reset", start="earliest", connection={"auto.offset.reset": "latest"}).otherwise


def test_the_isolation_level_is_the_connections_else_kafkas_default():
    assert parse(connection={"isolation.level": "read_committed"}).isolation_level == "read_committed"


@pytest.mark.parametrize("name", ["start", "end"])
def test_B10_seconds_are_warned_of_and_accepted(name):
    [warning] = parse(**{name: Timestamp(NOW // 1000)}).warnings
    assert warning.startswith(f"{name} is 1970-01-21T")
    assert parse(**{name: Timestamp(NOW)}).warnings == ()


# ── windows and the run's conf ────────────────────────────────────────────────────────────────────────────────────────


def test_the_window_of_a_runs_conf_takes_the_place_of_its_times():
    conf = {"window": ["2026-11-20T08:00:00Z", NOW]}
    for start in (Timestamp(), Timestamp(5)):
        request = parse(**{**WINDOW, "start": start}, interval=INTERVAL, conf=conf)
        assert request.window == (NOW - 2 * HOUR, NOW)
        assert (request.start, request.end) == (TimeStart(NOW - 2 * HOUR), TimeStart(NOW))


def test_a_window_may_lie_in_the_future_as_far_as_the_request_knows():
    """Whether it has ended is found when the batch is planned, and then the window is named."""
    assert parse(**WINDOW, interval=(NOW + 1, NOW + 2)).window == (NOW + 1, NOW + 2)


def test_a_window_without_an_interval_is_refused_at_both_ends():
    assert [line.split(" and ")[0] for line in problems(**WINDOW)] == ["start is Timestamp(),", "end is Timestamp(),"]


def test_an_empty_interval_may_bound_one_side_of_a_batch_in_sequence():
    assert parse(end=Timestamp(), interval=(NOW, NOW)).end == TimeStart(NOW)


def test_the_request_is_told_in_one_line():
    asked = parse(**WINDOW, interval=INTERVAL).asked
    assert asked == "topics orders, window 2026-11-20T08:00Z to 2026-11-20T09:00Z"
    asked = parse(start=SpecificOffsets({"orders": {n: n for n in range(9)}}, "latest"), max_records=5_000).asked
    assert asked == (
        "topics orders, start offsets orders-0:0, orders-1:1, orders-2:2, orders-3:3, orders-4:4 and 4 more, "
        "otherwise latest, end latest, at most 5,000 records"
    )
    assert len(parse(topics=[f"topic-{n}" for n in range(10_000)]).asked) < 300


# ── when the DAG is parsed ────────────────────────────────────────────────────────────────────────────────────────────


class XComArg:
    """An object of Airflow's, as far as this package knows."""

    def __repr__(self) -> str:  # in the ids of tests, which are the same in each process
        return "XComArg()"


@pytest.mark.parametrize(
    "parameters",
    [
        {"topics": "{{ params.topics }}", "start": "earliest"},
        {"topics": XComArg(), "start": "earliest"},
        {"topics": ["orders", "{{ params.other }}"], "start": "earliest"},
        {"topics": {"orders": [XComArg()]}, "start": "earliest"},
        {"topics": "orders", "start": GroupOffsets("{{ params.group }}")},
        {"topics": "orders", "group_id": "{{ params.group }}"},
        {"topics": "orders", "start": SpecificOffsets(XComArg())},
        {"topics": "orders", "start": Timestamp(), "end": Timestamp("{% if 1 %}{{ ts }}{% endif %}")},
        {"topics": "orders", "start": Timestamp("{{ ts }}"), "group_id": "g"},
        {"topics": "orders", "start": "earliest", "max_records": "{{ params.n }}", "shard": (0, XComArg())},
        {"topics": "orders", "start": "earliest", "on_data_loss": "reset"},  # the connection may have the rest
        {"topics": "{{ params.topics }}", "start": "earliest", "exclude": ["orders-1"]},
    ],
    ids=str,
)
def test_templates_and_xcoms_pass_when_the_dag_is_parsed(parameters):
    check_parameters(parameters)


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ({"topics": "{{ x }}", "group_id": "g", "max_records": 0, "shard": 1}, ["max_records", "shard"]),
        ({"topics": ["orders"]}, ["start"]),
        ({"topics": ["orders"], "start": GroupOffsets}, ["start"]),
        ({}, ["topics", "start"]),
        ({"topics": "a", **WINDOW, "group_id": "g", "start": Timestamp("{{ ts }}")}, ["group_id"]),
    ],
    ids=str,
)
def test_what_no_template_can_put_right_is_refused_when_the_dag_is_parsed(parameters, names):
    with pytest.raises(InvalidRequest) as refused:
        check_parameters(parameters)
    assert [problem.split()[0] for problem in refused.value.problems] == names


def test_what_passed_when_the_dag_was_parsed_is_refused_in_the_run():
    assert problems(topics="{{ params.topics }}")[0].startswith("topics is not JSON")
    assert problems(topics=["{{ params.topic }}"])[0].startswith("topics has topic '{{ params.topic }}'")
    assert problems(end=XComArg())[0].startswith("end is XComArg()")


def test_a_sensor_reads_its_parameters_as_a_request_does():
    run = RunContext(NOW, INTERVAL)
    assert parse_some({"topics": "orders", "end": Timestamp()}, run) == {
        "topics": TopicList(("orders",)),
        "end": TimeStart(INTERVAL[1]),
    }
    assert parse_some({"topics": "orders", "end": XComArg()}) == {"topics": TopicList(("orders",))}
    with pytest.raises(InvalidRequest) as refused:
        parse_some({"topics": [], "group_id": "", "end": "soon"}, run)
    assert [problem.split()[0] for problem in refused.value.problems] == ["topics", "group_id", "end"]
