# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The arguments of a Spark job that are the batch's. All others are the job's own and are left alone."""

from __future__ import annotations

import re
from argparse import ArgumentError, ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_kafka_offsets.spark.errors import InvalidJob

_PLAN = re.compile(r"(.+?)/([^/]+/(?:[0-9]+-of-[0-9]+/)?batches/[0-9]{8}/[0-9]{10})/([1-9][0-9]*)\.json")
_REMEDY = "Give the job what the resolve task returned: application_args=resolve.output"


@dataclass(frozen=True, slots=True)
class Arguments:
    """What the resolve task gave to this job.

    :ivar root: the checkpoint location as a driver finds it.
    :ivar folder: the folder of the batch, below ``root``.
    :ivar entry: the number of the plan's entry in it.
    :ivar job: the name of the job object, below ``root``.
    :ivar servers: the bootstrap servers; ``None``: the Spark settings name them.
    :ivar has_nothing_to_do: the batch verifies and its records are gone: the job ends at once.
    """

    root: str
    folder: str
    entry: int
    job: str | None = None
    servers: str | None = None
    has_nothing_to_do: bool = False

    @property
    def pipeline(self) -> str:
        """The folder of the pipeline, or of its shard."""
        return self.folder.partition("/batches/")[0]

    @property
    def digest(self) -> str | None:
        """Of the job object, whose name it is."""
        return None if self.job is None else self.job.rpartition("/")[2].removesuffix(".json")


def parse(argv: Sequence[str]) -> Arguments:
    """Parse ``--name value`` and ``--name=value``.

    :raises InvalidJob: there is no plan, or an argument is malformed.
    """
    parser = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in ("--plan", "--job", "--bootstrap-servers"):
        parser.add_argument(name)
    parser.add_argument("--nothing-to-do", action="store_true")
    try:
        given, _ = parser.parse_known_args(list(argv))
    except ArgumentError as error:
        raise InvalidJob("Cannot read the arguments of this job", str(error), _REMEDY) from None
    if given.plan is None:
        raise InvalidJob("This job was started without arguments", "It has no --plan", _REMEDY)
    plan = _PLAN.fullmatch(given.plan)
    if plan is None:
        cause = f"{given.plan!r} does not end with <pipeline>/batches/<hundred>/<number>/<entry>.json"
        raise InvalidJob("Cannot read --plan", cause, _REMEDY)
    root, folder, entry = plan.groups()
    if given.job is not None and not given.job.startswith(f"{root}/"):
        raise InvalidJob("Cannot read --job", f"{given.job!r} is not in the checkpoint location {root}", _REMEDY)
    job = None if given.job is None else given.job.removeprefix(f"{root}/")
    return Arguments(root, folder, int(entry), job, given.bootstrap_servers or None, given.nothing_to_do)
