"""The key of a batch: number, time and four characters, whose order as text is the order of the numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.plan.plan import HIGHEST, new_key, number_of
from airflow_kafka_offsets.plan.window_claims import OffsetClaim, TimeClaim, batch_name_of

AT = 1_795_314_057_000  # 2026-11-22T02:20:57Z
NUMBERS = st.integers(1, HIGHEST)
MOMENTS = st.integers(0, 253_402_300_799_999)  # to the end of the year 9999
CHARACTERS = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=4, max_size=4)


def test_a_key_is_number_time_and_four_characters():
    assert new_key(7, AT, "k3f9") == "0000000007-20261122T022057-k3f9"


@given(NUMBERS, MOMENTS, CHARACTERS)
def test_a_key_tells_its_number(number, at_ms, characters):
    assert number_of(new_key(number, at_ms, characters)) == number


@given(NUMBERS, NUMBERS, MOMENTS, MOMENTS, CHARACTERS)
def test_keys_sort_as_their_numbers_do(one, other, early, late, characters):
    if one < other:
        assert new_key(one, late, characters) < new_key(other, early, characters)


@given(NUMBERS, MOMENTS, CHARACTERS, CHARACTERS)
def test_two_logs_that_have_one_number_at_one_moment_have_two_keys(number, at_ms, mine, theirs):
    assert (new_key(number, at_ms, mine) == new_key(number, at_ms, theirs)) == (mine == theirs)


@pytest.mark.parametrize(
    ("number", "characters"),
    [(0, "k3f9"), (-1, "k3f9"), (HIGHEST + 1, "k3f9"), (7, "k3f"), (7, "k3f90"), (7, "K3F9"), (7, "k-f9"), (7, "")],
)
def test_what_would_not_be_read_back_is_not_made(number, characters):
    with pytest.raises(ValueError, match="is not the key of a batch"):
        new_key(number, AT, characters)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "7",
        "0000000007",
        "0000000007-20261122T022057",
        "0000000007-20261122T022057-k3f9\n",
        "x0000000007-20261122T022057-k3f9",
        "000000007-20261122T022057-k3f9",
        "٠٠٠٠٠٠٠٠٠٧-20261122T022057-k3f9",
        "0000000007-20261122T022057-K3F9",
        "20261120T000000Z--20261120T010000Z",
        batch_name_of(TimeClaim(AT, AT + 1), "g/dag/resolve").key,
        batch_name_of(TimeClaim(AT, AT + 1, (("orders", AT, AT + 1),)), "g/dag/resolve").key,
        batch_name_of(OffsetClaim((("orders", None, 0, 0, 5),)), "g/dag/resolve").key,
    ],
)
def test_anything_else_has_no_number(text):
    """A window's key among them: windows stand in no order."""
    assert number_of(text) == 0
