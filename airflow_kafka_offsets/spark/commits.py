# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Which rows of the log table count: those that the pipeline's log has committed.

A commit names the version of the table that has the rows of its batch. So rows that another attempt has written since
are not these, whoever wrote them. Batches of a log that a person has adopted count as committed.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_offsets.spark.attempts import Entries, begun_since, entries_of
from airflow_kafka_offsets.spark.errors import LateAttempt, OtherOutput
from airflow_kafka_offsets.spark.plan import Plan
from airflow_kafka_offsets.spark.store import Store


@dataclass(frozen=True, slots=True)
class Commits:
    """The commits of a pipeline.

    :ivar pipeline: its folder; :ivar plan: one of its plans.
    :ivar output: the log table.
    """

    store: Store
    pipeline: str
    plan: Plan
    output: str

    def counts(self, key: str, version: int | None) -> bool:
        """Whether rows of the log table are committed; false: the batch is not committed yet.

        :param version: of the table, that wrote the rows of this key last; ``None``: its history does not say.
        :raises LateAttempt: the batch is committed, and these are not its rows.
        :raises OtherOutput: this log has no such batch.
        """
        folder, entries = self._entries(key)
        if not entries:
            if key <= max(self.plan.adopted.values(), default=""):
                return True
            cause = f"It has rows of batch {key}, and this log has no such batch"
            remedy = "Adopt the rows of the lost log, as the resolve task explains; or delete them"
            raise OtherOutput(f"Cannot merge {self.output}", cause, remedy)
        commits = [e for e in entries.values() if e["entry"] == "commit" and e["output"] == self.output]
        if not commits:
            return False
        said, is_closed = commits[-1]["snapshot"], entries[max(entries)]["entry"] == "commit"
        # A rewrite that no attempt has begun has changed nothing: it is refused if its records are gone.
        is_kept = is_closed or not begun_since(commits[-1], self.store.list(folder))
        if not (is_kept if said is None or version is None else said == str(version)):
            cause = f"Its run has committed version {said} of {self.output}, and its rows are of version {version}"
            remedy = "It is being rewritten: retry after that run; if none is running, clear it"
            raise LateAttempt(f"Cannot merge batch {key}", cause, remedy)
        return True

    def _entries(self, key: str) -> tuple[str, Entries]:
        """Of the batch that has this key, and its folder; none: there is no such batch."""
        for base in self.plan.bases:
            number = int(key[:10]) - base if key[:10].isdecimal() else 0
            folder, entries = entries_of(self.store, self.pipeline, number) if number > 0 else ("", {})
            if any(entry.get("key") == key for entry in entries.values()):
                return folder, entries
        return "", {}
