"""Whatever people write, the answer is a request or an ``InvalidRequest`` with sentences, and nothing else."""

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets import GroupOffsets, SpecificOffsets, Timestamp, parse_bound
from airflow_kafka_offsets.parameters import PARAMETERS
from airflow_kafka_offsets.request import RunContext, check_parameters, parse_request, parse_some

WORDS = st.sampled_from(
    ["earliest", "latest", "orders", "^o.*", "^(", "orders-1", "true", "5", "v1\n{}", "partition:0,offset:1", "{{ x }}"]
)
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.text(st.characters(categories=["Cs", "Cc", "Cf", "Lu"])),
    st.binary(),
    st.datetimes(timezones=st.none() | st.timezones()),
    WORDS,
    st.sampled_from([GroupOffsets, Timestamp, object(), print]),
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(PLAIN, inner, max_size=3),
        st.builds(GroupOffsets, inner, inner),
        st.builds(Timestamp, inner),
        st.builds(SpecificOffsets, inner, inner),
        st.dictionaries(st.sampled_from(["orders", "a b", "."]), st.dictionaries(PLAIN, inner), max_size=2),
    ),
    max_leaves=6,
)
GIVEN = st.dictionaries(st.sampled_from(PARAMETERS), VALUES, max_size=len(PARAMETERS))
VALID: dict[str, Any] = {"topics": ["orders"], "start": "earliest", "pipeline_id": "p"}


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def problems_of(parameters: dict[str, Any], conf: Any = None, setting: Any = None) -> list[str]:
    """Everything that the three ways of asking refuse. What else they raise fails the test."""
    connection = {"isolation.level": setting, "auto.offset.reset": setting} if setting is not None else {}
    problems: list[str] = []
    for ask in (
        lambda: parse_request(parameters, RunContext(10**12, None, {} if conf is None else conf), connection),
        lambda: parse_some(parameters, RunContext(10**12, (0, 1))),
        lambda: check_parameters(parameters),
    ):
        try:
            ask()
        except InvalidRequest as error:
            problems += error.problems or ["no problem is named"]
    return problems


@settings(max_examples=300)
@given(GIVEN, VALUES, VALUES)
def test_any_input_is_a_request_or_an_invalid_request_of_printable_sentences(given_parameters, conf, setting):
    problems = problems_of({**VALID, **given_parameters}, conf, setting)
    assert [problem for problem in problems if not problem.isprintable() or not problem.endswith(".")] == []


@pytest.mark.parametrize("name", [*PARAMETERS, "conf"])
def test_what_is_nested_too_deep_or_has_too_many_digits_is_refused(name):
    for value in (nested(100_000), '{"a":' * 100_000, SpecificOffsets('{"a":' * 100_000), 10**5_000):
        strange = {"conf": {"window": [value, 1], "acknowledge": value}} if name == "conf" else {}
        assert problems_of({**VALID, **({} if strange else {name: value})}, **strange)


@given(st.text() | WORDS, st.sampled_from([None, "earliest"]))
def test_any_text_of_the_command_line_is_a_bound_or_a_sentence(text, otherwise):
    with contextlib.suppress(ValueError):
        parse_bound(text, otherwise, lambda path: path)
