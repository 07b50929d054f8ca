"""Errors of a Spark driver. Each says what failed and where, the cause, and the one thing to do."""

from __future__ import annotations


class BatchError(Exception):
    """A driver stops. Nothing is reported, so nothing that it wrote is verified.

    :param what: what failed, and where.
    :param cause: why, with both values where two differ.
    :param remedy: what to do, as a parameter or a line to copy.
    """

    def __init__(self, what: str, cause: str, remedy: str) -> None:
        super().__init__(what, cause, remedy)
        self.what, self.cause, self.remedy = what, cause, remedy

    def __str__(self) -> str:
        return f"{self.what}. {self.cause}. {self.remedy}"


class InvalidJob(BatchError):
    """Arguments, settings, the job object or a frame are wrong: the author of the DAG or of the job corrects them."""


class OtherOutput(BatchError):
    """The job would write another output than before, or an output that carries another pipeline's name."""


class BadRecords(BatchError):
    """There are more bad records than the job accepts."""


class LateAttempt(BatchError):
    """Another attempt, a newer plan or a commit has taken the place of this driver."""


class StoreUnavailable(BatchError):
    """The checkpoint location does not answer, or an object in it is missing or damaged."""
