"""Situations that the model has found and that wait for a decision: each is left out, by its name, until it is mended.

``MODEL_STRICT=1 pytest tests/model`` leaves out none of them, ``MODEL_STRICT=<name>`` all but that one: so a mend is
shown to be one, and its line goes from here.
"""

from __future__ import annotations

import os

KNOWN = {
    "keep-checkpoint signs ahead": "a run with on_group_moved=keep-checkpoint signs what somebody wrote with the mark "
    "of the last batch, although it lies past that batch: a store that is lost now goes on from there",
    "windows of a lost log": "a window of a lost log stays in the output, and another one that overlaps it is planned",
    "late workers of a lost log": "a task that looked at a log before it was lost, or cleaned, writes its entry "
    "afterwards: the second of a log without a first one, or one of another batch; or a new batch with a number that "
    "was passed",
    "two cleans": "of two that clean at one moment, one ends with a ValueError",
    "a redo of what is gone": "a committed batch was taken to be done again, and its records are gone before it was: "
    "the run is never green again, although the output is whole by the attempts before",
    "a take-over of what is left": "another Airflow takes over, and a run that leaves its batch as it is writes "
    "nothing that says so: its commit is refused for ever",
    "left and not whole": "a run whose batch another run has committed cannot mend its output, and is told to clear "
    "Spark tasks that it does not have",
}
_STRICT = os.environ.get("MODEL_STRICT", "")


def is_left_out(name: str) -> bool:
    assert name in KNOWN
    return _STRICT not in ("1", name)
