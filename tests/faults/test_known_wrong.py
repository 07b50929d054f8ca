"""A row that is known to be wrong: its test fails when the row holds, and when it fails for another reason."""

from collections.abc import Callable

import pytest

from testbed.kafka_proxy import NotFired
from tests.faults.document import line
from tests.faults.rows import Row, judged
from tests.faults.scene import PromiseBroken

WRONG = Row("Spark", "a fault", lambda _: "", "healed", "by hand", known_wrong="rows are there twice", shows="twice 40")


def _raises(error: Exception) -> Callable[[], tuple[str, str]]:
    def play() -> tuple[str, str]:
        raise error

    return play


def test_what_it_broke_is_its_proof() -> None:
    proof, end = judged(WRONG, _raises(PromiseBroken("missing 0, twice 40")))
    assert (proof, end) == ("missing 0, twice 40", "known to be wrong: rows are there twice")


def test_a_row_that_holds_fails() -> None:
    with pytest.raises(PromiseBroken, match="holds now"):
        judged(WRONG, lambda: ("it fired", "healed"))


@pytest.mark.parametrize(
    "error",
    [PromiseBroken("missing 40, twice 0"), NotFired("twice 40"), AssertionError("twice 40"), OSError("twice 40")],
)
def test_a_row_that_fails_for_another_reason_fails(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        judged(WRONG, _raises(error))


def test_the_document_says_so_in_plain_words() -> None:
    assert line(WRONG, "missing 0, twice 40") == (
        "| a fault | by hand | known to be wrong: rows are there twice. It should end healed | missing 0, twice 40 |"
    )
