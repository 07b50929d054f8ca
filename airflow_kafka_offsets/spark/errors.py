# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Errors of a Spark driver. Each says what failed and where, the cause, and the one thing to do.

Their codes are those of the package's error pages, so that one search of a log finds any error.
"""

from __future__ import annotations

from typing import ClassVar

NO_RETRY = 78
"""The exit status of a job after an error that no retry can mend (docs/job-contract.md)."""


class BatchError(Exception):
    """A driver stops. Nothing is reported, so nothing that it wrote is verified.

    :param what: what failed, and where.
    :param cause: why, with both values where two differ.
    :param remedy: what to do, as a parameter or a line to copy.
    :cvar code: of its page: ``kafka-offsets explain AKO-404``.
    :cvar is_final: no retry can mend it.
    """

    code: ClassVar[str]
    is_final: ClassVar[bool] = False

    def __init__(self, what: str, cause: str, remedy: str) -> None:
        super().__init__(what, cause, remedy)
        self.what, self.cause, self.remedy = what, cause, remedy

    def __str__(self) -> str:
        return f"{self.code}: {self.what}. {self.cause}. {self.remedy}\nPage: kafka-offsets explain {self.code}"


class InvalidJob(BatchError):
    """Arguments, settings, the job object or a frame are wrong: the author of the DAG or of the job corrects them."""

    code = "AKO-405"
    is_final = True


class OtherOutput(BatchError):
    """The job would write another output than before, or an output that carries another pipeline's name."""

    code = "AKO-403"
    is_final = True


class BadRecords(BatchError):
    """There are more bad records than the job accepts."""

    code = "AKO-404"
    is_final = True


class LateAttempt(BatchError):
    """Another attempt, a newer plan or a commit has taken the place of this driver."""

    code = "AKO-402"


class StoreUnavailable(BatchError):
    """The checkpoint location does not answer, or an object in it is missing or damaged."""

    code = "AKO-503"


class OutputLost(BatchError):
    """Rows of a committed batch are not in the output: the table was dropped, rolled back, or is another one."""

    code = "AKO-406"
    is_final = True


class LogBehind(BatchError):
    """The output has rows of later batches than the log: the checkpoint location is an older copy."""

    code = "AKO-305"
    is_final = True


class RecordsGone(BatchError):
    """Kafka has fewer records than the batch was committed with, so writing it again would lose rows."""

    code = "AKO-101"
    is_final = True


class ConditionNotMet(BatchError):
    """The rows of the whole batch are not as the job ensures that they are."""

    code = "AKO-407"
    is_final = True
