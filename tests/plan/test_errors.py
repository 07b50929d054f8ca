"""Every error of the tree: pickles, has its exit status, stays short, and cannot hold a client's configuration."""

import copy
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import count
from typing import Any, get_type_hints

import pytest

from airflow_kafka_offsets import errors
from airflow_kafka_offsets.errors import (
    GroupActive,
    InvalidRequest,
    KafkaOffsetsError,
    LateAttempt,
    PartitionsRefused,
    RefusedError,
    RequestError,
    UnavailableError,
    listed,
)

MANY = tuple(f"orders[{number}]: start offset 120 is below log start offset 480" for number in range(10_000))
NUMBERS = count(4711)
EXAMPLES = {
    Sequence[str]: lambda name: (f"the first of {name}", f"the second of {name}"),
    str: lambda name: f"the {name}",
    str | None: lambda name: f"the {name}",
    int: lambda name: next(NUMBERS),
    bool: lambda name: True,
    tuple[str, ...]: lambda name: (f"the {name}",),
    Mapping[Any, str]: lambda name: {f"a partition of {name}": "why"},
}
FOR_PROGRAMS = {"dag_id", "run_id", "next_entry", "unanswered"}
"""Facts that a trigger waits by, or that a policy goes by; the message says the same in words."""


def tree(root=KafkaOffsetsError):
    below = [kind for kind in root.__subclasses__() if kind.__module__ == errors.__name__]
    return [root, *(kind for branch in below for kind in tree(branch))]


CLASSES = list(dict.fromkeys(tree()))
LEAVES = [kind for kind in CLASSES if not kind.__subclasses__()]
every_class = pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)


def example(kind):
    hints = get_type_hints(kind)
    return kind(**{field.name: EXAMPLES[hints[field.name]](field.name) for field in fields(kind)})


def test_the_tree_is_found():
    assert len(LEAVES) >= 25, LEAVES


@every_class
def test_an_error_survives_the_way_between_processes(kind):
    error = example(kind)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert str(again) == str(error)
        assert [getattr(again, f.name) for f in fields(kind)] == [getattr(error, f.name) for f in fields(kind)]
        assert (again.exit_status, again.retriable) == (error.exit_status, error.retriable)


@every_class
def test_an_error_holds_texts_and_flags_and_so_no_configuration(kind):
    """A mapping, or an object, could carry ``sasl.password`` into a log."""
    assert {get_type_hints(kind)[field.name] for field in fields(kind)} <= EXAMPLES.keys()


@every_class
def test_the_exit_status_says_who_can_act(kind):
    expected = 2 if issubclass(kind, RequestError) else 3 if issubclass(kind, UnavailableError) else 1
    assert example(kind).exit_status == expected
    assert issubclass(kind, RequestError | RefusedError | UnavailableError) or kind is KafkaOffsetsError


@pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)
def test_the_docstring_draws_every_error_once(kind):
    assert sum(line.strip("│ ├└─").startswith(f"{kind.__name__} ") for line in errors.__doc__.splitlines()) == 1


@pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)
def test_the_message_has_every_fact(kind):
    error = example(kind)
    for field in fields(kind):
        value = getattr(error, field.name)
        for fact in [] if isinstance(value, bool) else [str(value)] if isinstance(value, str | int) else value:
            assert (fact in error.message) == (field.name not in FOR_PROGRAMS), field.name


@pytest.mark.parametrize(
    "kind", [kind for kind in LEAVES if issubclass(kind, PartitionsRefused)], ids=lambda kind: kind.__name__
)
def test_10_000_partitions_are_a_short_message_and_all_of_them_a_fact(kind):
    error = kind(MANY, "Do this now.")
    lines = error.message.splitlines()
    assert len(lines) == 22
    assert lines[0] == MANY[0]
    assert lines[-2:] == ["… and 9980 more", "Do this now."]
    assert len(error.partitions) == 10_000


def test_10_000_members_are_a_short_message():
    assert len(str(GroupActive("g", "Stable", MANY)).splitlines()) < 30


def test_a_group_whose_members_are_not_listed_says_so():
    assert "does not list its members" in str(GroupActive("g", "Stable", ()))


def test_one_problem_is_its_sentence_and_several_are_a_list():
    assert InvalidRequest(("Give topics.",)).message == "Give topics."
    assert InvalidRequest(("a.", "b.")).message == "2 problems with the request:\n- a.\n- b."


@pytest.mark.parametrize("retriable", [True, False])
def test_what_time_may_heal_is_the_clusters_answer_and_not_the_classes(retriable):
    unavailable = UnavailableError("describe", "timed out", "Look at the broker.", retriable)
    assert pickle.loads(pickle.dumps(unavailable)).retriable is retriable
    assert str(unavailable) == "describe: timed out\nLook at the broker."


@pytest.mark.parametrize(
    ("rows", "lines", "last"), [(0, 1, ""), (20, 20, "x19"), (21, 21, "… and 1 more"), (1000, 21, "… and 980 more")]
)
def test_a_list_stops_at_twenty(rows, lines, last):
    shown = listed(f"x{number}" for number in range(rows)).split("\n")
    assert (len(shown), shown[-1]) == (lines, last)


def test_a_late_job_that_wrote_nothing_has_nothing_to_tell():
    error = LateAttempt("attempt 1 at split 0 of batch 7", "attempt 2", "s3://lake", wrote=False)
    assert "stops before it writes: attempt 2" in str(error)
    assert "Clear" not in str(error)
