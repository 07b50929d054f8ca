# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""``clean``: remove objects of old batches that no later run reads."""

from __future__ import annotations

import re

from airflow_kafka_offsets.cli.call import CHECKPOINT, PIPELINE, Call, command, option
from airflow_kafka_offsets.cli.printing import Answer
from airflow_kafka_offsets.errors import InvalidRequest, counted, shown
from airflow_kafka_offsets.log.clean import clean
from airflow_kafka_offsets.times import iso

_DRY_RUN = "This was a dry run: nothing was removed. To remove it, repeat the command with --execute."
_MS = {"h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def clean_old(call: Call) -> Answer:
    """Remove the details of old batches.

    These are ranges, attempts and reports. Headers stay, so lists and totals are complete. The last two committed
    batches, later ones, and batches that are unfinished or do not verify are kept. A cleaned batch can no longer be
    rewritten: clearing its run writes nothing.
    """
    age = re.fullmatch(r"([0-9]{1,5})([hdw])", call["older_than"])
    if age is None:
        raise InvalidRequest(
            (f"--older-than is {shown(call['older_than'])}; give hours, days or weeks: 36h, 90d, 12w.",)
        )
    before_ms, execute = call.now_ms - int(age[1]) * _MS[age[2]], call["execute"]
    call.newest()
    done = clean(call.log, before_ms, execute=execute)
    removed = f"{counted(done.objects, 'object')} of {counted(len(done.batches), 'batch')}"
    text = f"{'Removed' if execute else 'Would remove'} {removed} committed before {iso(before_ms)}."
    facts = {"pipeline": call.log.pipeline_id, "dry_run": not execute, "batches": done.batches, "objects": done.objects}
    return Answer(text, facts, notes=[] if execute else [_DRY_RUN])


clean_command = command(
    clean_old,
    "clean orders --older-than 90d --execute",
    PIPELINE,
    option("--older-than", "Since the last commit: 36h, 90d, 12w.", metavar="AGE", required=True),
    option("--execute", "Remove them. Without it, this is a dry run.", is_flag=True),
    CHECKPOINT,
)
