"""Policies and words of a run: every choice is one of its list, conf keys are known ones, ``skip`` says what goes."""

import re
from dataclasses import replace
from typing import get_args, get_type_hints

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.kafka_values import OffsetRange
from airflow_kafka_offsets.request import policies
from airflow_kafka_offsets.request.parameters import RequestParameters, names_of
from airflow_kafka_offsets.request.policies import (
    ANSWERS,
    DEFAULTS,
    NO_REASON,
    SITUATIONS,
    Policies,
    PolicyAnswers,
    RunOrders,
    Skip,
    answers_of,
    parse_skip,
)
from airflow_kafka_offsets.request.run_conf import CONF_WORDS, with_conf
from tests.builders import KEY, tp
from tests.request.asking import INTERVAL, WINDOW, parse, problems

# ── policies ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", SITUATIONS)
def test_each_situation_takes_its_answers_and_no_other(name):
    answers = answers_of(name)
    since = {"startup_mode": "timestamp", "startup_timestamp": "now-2h"}
    for answer in answers:
        assert parse(**since, policies={name: answer}).policies.answers[name] == answer
    [found] = problems(policies={name: "perhaps"})
    assert found == f"policies has {name}='perhaps'; use one of {', '.join(answers)}."


def test_the_commit_mode_takes_its_choices_and_no_other():
    for choice in get_args(policies.CommitMode):
        assert parse(commit_mode=choice).policies.commit_mode == choice
    [found] = problems(commit_mode="perhaps")
    assert found == "commit_mode is 'perhaps'; use one of on-success, checkpoint-only."


def test_one_table_has_every_situation_and_its_answers():
    """The types that an editor completes, and what the page says of each answer, are of the same answers."""
    of_editor = {name: get_args(kind) for name, kind in get_type_hints(PolicyAnswers).items()}
    assert {name: of_editor[name][1:] for name in of_editor} == {
        name: tuple(answer for answer in row.answers) for name, row in SITUATIONS.items()
    }
    assert {word.partition("=")[0] for word in ANSWERS} == SITUATIONS.keys()


@pytest.mark.parametrize(
    "written",
    [
        {"data_loss": "advance", "topic_vanished": "drop"},
        '{"data_loss": "advance", "topic_vanished": "drop"}',
        "data_loss=advance, topic_vanished=drop",
        ["data_loss=advance", "topic_vanished=drop"],
    ],
    ids=["a mapping", "rendered", "words", "a terminal's"],
)
def test_policies_are_read_in_each_form_that_they_are_written_in(written):
    assert parse(policies=written).policies == Policies(
        answers={**DEFAULTS, "data_loss": "advance", "topic_vanished": "drop"}
    )


@pytest.mark.parametrize("written", ["", "advance", 5, ["data_loss"], ("data_loss=advance",), True])
def test_policies_in_another_form_are_refused_with_an_example(written):
    [found] = problems(policies=written)
    assert found == f'policies is {written!r}; expected {{"data_loss": "advance"}}, or data_loss=advance.'


def test_every_wrong_answer_is_named():
    found = problems(policies={"data_loss": ["advance"], "dataloss": "advance", "group_moved": None})
    assert [problem.split(";")[0] for problem in found] == [
        "policies has data_loss=['advance']",
        "policies has 'dataloss'",
        "policies has group_moved=None",
    ]


# Neither loses a record: as Flink; and a run that goes on is what saves its records.
READ_NOTHING_TWICE = {"no_match": "end", "new_partition": "earliest", "retention_margin": "warn"}


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_nobody_has_decided_fails(name):
    """A choice that could lose records, or read them twice, is a person's."""
    default = READ_NOTHING_TWICE.get(name, "fail")
    assert Policies().answers[name] == parse().policies.answers[name] == answers_of(name)[0] == default


@pytest.mark.parametrize(
    "written", [["orders-3", "a-1-0"], '["orders-3", "a-1-0"]', "orders-3, a-1-0", ("a-1-0", "orders-3")]
)
def test_F14_hold_names_partitions(written):
    assert parse(topics="orders,a-1", hold=written).policies.hold == {tp(3), tp(0, "a-1")}


@pytest.mark.parametrize("written", [None, "", [], "[]"])
def test_an_empty_hold_holds_nothing(written):
    assert parse(hold=written).policies.hold == frozenset()


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("orders", "hold has 'orders'; expected <topic>-<partition>, such as orders-3."),
        (["orders-3", "orders[4]"], "hold has 'orders[4]'; expected <topic>-<partition>, such as orders-3."),
        ({"orders": [3]}, "hold is {'orders': [3]}; expected [\"orders-3\"]."),
        ([3], 'hold is [3]; expected ["orders-3"].'),
        ("payments-3", "hold has payments[3], which is not subscribed to."),
    ],
)
def test_a_hold_that_holds_nothing_that_is_read_is_refused(written, sentence):
    assert problems(topics="orders", hold=written) == [sentence]


@pytest.mark.parametrize("held", [{"hold": "orders-3"}, {"policies": {"unavailable": "hold"}}])
def test_F13_F14_a_window_holds_nothing(held):
    """Its partition would be in no later run."""
    [found] = problems(**WINDOW, interval=INTERVAL, **held)
    assert f"{next(iter(held))} cannot hold a partition of a window" in found


def test_a_window_cannot_start_before_its_time():
    [found] = problems(**WINDOW, interval=INTERVAL, policies={"no_match": "earliest"})
    assert "would be in the output of each window" in found


def test_new_partitions_start_at_a_time_only_where_there_is_one():
    [found] = problems(policies={"new_partition": "timestamp"})
    assert "needs startup_mode='timestamp'" in found


def test_the_defaults_of_the_parameters_are_those_of_the_values():
    assert parse().policies == Policies()
    assert parse().run_orders == RunOrders()


@pytest.mark.parametrize("written", ["kafka_periodic", "KAFKA_PERIODIC", "periodic"])
def test_I1_flinks_periodic_commit_is_refused_with_the_reason(written):
    [found] = problems(commit_mode=written)
    assert "a batch has no periodic commit" in found
    assert "after the reads were verified" in found


FLAGS = {
    "filter_restored_partitions": lambda request: request.policies.filter_restored_partitions,
    "re_plan": lambda request: request.run_orders.re_plan,
    "redo": lambda request: request.run_orders.redo,
    "require_complete_window": lambda request: request.limits.require_complete,
}


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize(("written", "flag"), [("True", True), ("false", False), (True, True), (False, False)])
def test_a_flag_is_read_as_templates_render_it(name, written, flag):
    assert FLAGS[name](parse(**WINDOW, interval=INTERVAL, **{name: written})) is flag


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("written", ["", "no", "None", 1, None])
def test_a_flag_that_is_none_is_refused(name, written):
    [found] = problems(**{name: written})
    assert found == f"{name} is {written!r}; use true or false."


# ── a person's words ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("written", "word"), [("2026-11-20", "2026-11-20"), (" a ", "a"), ("", None), (" ", None), (None, None)]
)
def test_a_restart_is_a_word_and_an_empty_template_is_none(written, word):
    assert parse(restart=written).run_orders.restart == word


@pytest.mark.parametrize("written", [2026, True, 1e50, ["x"], "two\nlines"])
def test_a_restart_that_is_no_word_is_refused(written):
    [found] = problems(restart=written)
    assert found.startswith(f"restart is {written!r}; it must be a word")


@pytest.mark.parametrize("word", ["re_plan", "redo"])
def test_skip_goes_alone(word):
    [found] = problems(skip=KEY, **{word: True})
    assert found.startswith("skip goes alone")


@pytest.mark.parametrize(
    ("written", "skip"),
    [
        pytest.param(None, None, id="nothing"),
        pytest.param(KEY, Skip(KEY), id="a key: all of the batch"),
        pytest.param(f" {KEY} ", Skip(KEY), id="blanks around it"),
        pytest.param({"batch": KEY}, Skip(KEY), id="the same as an object"),
        pytest.param({"batch": KEY, "reason": ""}, Skip(KEY, (), NO_REASON), id="an empty reason is none"),
        pytest.param(
            {"batch": KEY, "past": "orders-3:4711", "reason": "poison"},
            Skip(KEY, ((tp(3), 4711),), "poison"),
            id="past",
        ),
        pytest.param(
            {"batch": KEY, "past": "orders-3:0, my-topic.v2-0:5,a-1-2:7"},
            Skip(KEY, ((tp(2, "a-1"), 7), (tp(0, "my-topic.v2"), 5), (tp(3), 0))),
            id="several, sorted; topics have dashes",
        ),
        pytest.param(
            {"batch": KEY, "only": "orders-3:4711-4720, orders-3:7", "reason": "poison"},
            Skip(KEY, (), "poison", ((tp(3), OffsetRange(7, 8)), (tp(3), OffsetRange(4711, 4721)))),
            id="only these",
        ),
        pytest.param(Skip(KEY), Skip(KEY), id="one that is read already"),
    ],
)
def test_skip_names_a_batch_and_how_far(written, skip):
    assert parse_skip(written) == skip
    assert parse(skip=written).run_orders.skip == skip


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        pytest.param("", "is {'batch': ''}; expected", id="an empty template"),
        pytest.param(7, "is 7; expected", id="a number is no key"),
        pytest.param([KEY], 'expected {"batch": KEY', id="a list"),
        pytest.param({}, "is {}; expected", id="no batch"),
        pytest.param({"batch": 7}, "expected", id="a batch by number alone"),
        pytest.param({"batch": KEY, "until": 5}, "expected", id="a key that is not known"),
        pytest.param({"batch": KEY, "reason": 5}, "has the reason 5, which is no text", id="a reason that is no text"),
        pytest.param({"batch": KEY, "reason": "a\nb"}, "is 'a\\nb', which has a line end", id="a line end"),
        pytest.param({"batch": KEY, "past": ""}, "has past ''; expected <topic>-<partition>:<offset>", id="no past"),
        pytest.param({"batch": KEY, "past": 4711}, "has past 4711; expected", id="an offset of nothing"),
        pytest.param({"batch": KEY, "past": {"orders-3": 1}}, "has past", id="an object"),
        pytest.param({"batch": KEY, "past": "orders:4711"}, "has past 'orders:4711'", id="no partition"),
        pytest.param({"batch": KEY, "past": "-3:4711"}, "has past '-3:4711'", id="no topic"),
        pytest.param({"batch": KEY, "past": "orders-x:1"}, "has past 'orders-x:1'", id="a partition that is none"),
        pytest.param({"batch": KEY, "past": "orders-3:"}, "has offset '' for orders[3]", id="no offset"),
        pytest.param(
            {"batch": KEY, "past": "orders-3:-1"}, "has offset '-1' for orders[3], which is negative", id="-1"
        ),
        pytest.param({"batch": KEY, "past": "orders-3:1,orders-3:2"}, "names orders[3] twice", id="twice"),
        pytest.param({"batch": KEY, "past": "orders-3:1,"}, "has past", id="a comma at the end"),
        pytest.param({"batch": KEY, "only": "orders-3:9-7"}, "'orders-3:9-7', which ends before", id="backwards"),
        pytest.param({"batch": KEY, "only": "orders-3:9-"}, "has offset '' for orders[3]", id="no second end"),
        pytest.param({"batch": KEY, "only": ""}, "has only ''; expected", id="only nothing"),
        pytest.param({"batch": KEY, "only": 5}, "has only 5; expected", id="only a number"),
        pytest.param(
            {"batch": KEY, "only": "a-0:1", "past": "a-0:1"}, "has past and only; give one of them", id="past and only"
        ),
        pytest.param({"batch": KEY, "only": ",".join(["a-0:1"] * 21)}, "21 ranges; 20 are possible", id="too many"),
    ],
)
def test_a_skip_that_says_something_else_is_refused_in_words(written, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)) as refused:
        parse_skip(written)
    [found] = problems(skip=written)
    assert found == f"skip {refused.value}."


def test_what_is_left_out_and_why_is_in_the_words_of_the_plan():
    skip = Skip(KEY, ((tp(0), 5), (tp(3), 4711)), "poison")
    assert skip.words == "skip past orders[0]:5, orders[3]:4711: poison"
    assert Skip(KEY).words == f"skip: {NO_REASON}"


# ── a run's conf ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_conf_may_say_what_a_run_does_and_never_what_it_reads():
    assert {
        "auto_offset_reset",
        "commit_mode",
        "hold",
        "isolation_level",
        "policies",
        "re_plan",
        "redo",
        "restart",
        "skip",
    } == CONF_WORDS
    assert set(names_of(RequestParameters)) >= CONF_WORDS


def test_the_conf_replaces_what_the_dag_says_for_this_run():
    given = RequestParameters(topics="orders", restart="x")
    asked = with_conf(given, {"policies": {"data_loss": "advance"}, "redo": True})
    assert (asked.redo, asked.restart, asked.topics) == (True, "x", "orders")
    assert asked.policies == {"data_loss": "advance"}
    assert with_conf(given, None) is given
    assert with_conf(given, {"redo": False}) == replace(given, policies={})


def test_of_the_policies_the_conf_replaces_those_that_it_names():
    given = RequestParameters(topics="orders", policies='{"data_loss": "reset", "group_moved": "adopt-group"}')
    asked = with_conf(given, {"policies": "data_loss=advance"})
    assert asked.policies == {"data_loss": "advance", "group_moved": "adopt-group"}
    with pytest.raises(InvalidRequest, match="policies is 5; expected"):
        with_conf(given, {"policies": 5})


@pytest.mark.parametrize("conf", ["redo", ["redo"], True, 1])
def test_a_conf_that_is_no_object_is_refused_with_an_example(conf):
    with pytest.raises(InvalidRequest, match=r'expected an object, such as \{"redo": true\}'):
        with_conf(RequestParameters(), conf)


@pytest.mark.parametrize(
    ("conf", "unknown"),
    [
        pytest.param({"re-plan": True}, "re-plan", id="misspelt"),
        pytest.param({"topics": "clicks"}, "topics", id="what a run reads is the DAG's"),
        pytest.param(
            {"startup_mode": "latest-offset", "max_records": 5, "redo": True}, "max_records, startup_mode", id="two"
        ),
        pytest.param({"on_superseded": "fail"}, "on_superseded", id="of the first cut"),
        pytest.param({1: True}, "1", id="no text"),
    ],
)
def test_an_unknown_key_of_the_conf_is_refused_with_the_known_ones(conf, unknown):
    """One that was passed over in silence would be a run that does not do what a person ordered."""
    with pytest.raises(InvalidRequest) as refused:
        with_conf(RequestParameters(), conf)
    assert f'unknown keys under "kafka_offsets": {unknown}.' in str(refused.value)
    assert ", ".join(sorted(CONF_WORDS)) in str(refused.value)
