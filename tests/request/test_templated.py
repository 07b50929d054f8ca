"""Config objects are rendered into new values, shown as they were written, and never equal across classes."""

import pickle
from datetime import date, timedelta

import pytest

from airflow_kafka_offsets.offsets import GroupOffsets, SpecificOffsets, Timestamp
from airflow_kafka_offsets.templated import is_settled, plain


class Task:
    """As much of Airflow's ``Templater`` as ``resolve`` uses."""

    def render_template(self, value, context):
        if isinstance(value, str):
            return value.replace("{{ ds }}", "2026-11-20")
        if isinstance(value, dict):
            return {name: self.render_template(item, context) for name, item in value.items()}
        return value


def test_a_value_is_rendered_into_a_new_one_and_stays_as_it_was_written():
    written = SpecificOffsets({"orders": {"0": "{{ ds }}"}}, "latest")
    assert written.resolve({"task": Task()}) == SpecificOffsets({"orders": {"0": "2026-11-20"}}, "latest")
    assert repr(written) == "SpecificOffsets(offsets={'orders': {'0': '{{ ds }}'}}, otherwise='latest')"


@pytest.mark.parametrize("value", [GroupOffsets(), Timestamp(), GroupOffsets("g"), Timestamp("2026-11-20")])
def test_a_value_is_shown_without_its_defaults_and_can_be_pickled(value):
    assert eval(repr(value)) == value
    assert "None" not in repr(value)
    assert pickle.loads(pickle.dumps(value)) == value


def test_values_of_two_classes_are_never_equal():
    assert len({GroupOffsets("x"), Timestamp("x"), GroupOffsets("x")}) == 2


def test_xcoms_inside_are_found_in_plain_tuples():
    xcom = object()
    assert plain(SpecificOffsets(xcom)) == (xcom, None)
    assert plain("earliest") == "earliest"


@pytest.mark.parametrize(
    ("value", "is_known"),
    [
        *[(value, True) for value in (None, 1, 1.5, b"", "a", date.max, timedelta(1), GroupOffsets, Timestamp(5))],
        *[([value], True) for value in (["{"], {"a": {"b": "}}"}}, {1, 2}, ("{ { x } }",))],
        *[(value, False) for value in ("{{ ds }}", "{% if x %}", "a{# c #}", object(), print, lambda: 1)],
        *[(value, False) for value in ([{"a": ("{{ ds }}",)}], Timestamp("{{ ds }}"), {"{{ ds }}": 1}, {object()})],
    ],
    ids=lambda value: type(value).__name__,
)
def test_templates_and_objects_of_airflow_are_not_known_before_the_run(value, is_known):
    assert is_settled(value) is is_known
