"""A Spark driver by the documented contract of a job, and the tables that it writes::

    plan still current? → is the table this log's? → list attempts → begun <highest + 1>
    → look → read → write → look → report

``look``: the plan is current, no other attempt has this number or a higher one, the expected key is in the table, and
no key behind the batch's own. Half of the tables fence late drivers off. In the others a driver that was overtaken may
swap between its last look and its swap: nobody can look there. Such late swaps are counted.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from airflow_kafka_offsets.json_columns import to_columns
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.entries import digits_of
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, job_digest
from airflow_kafka_offsets.plan.body import PlanBody, body_from_dict
from airflow_kafka_offsets.store.objects import create_object, read_object
from tests.model.stepping import SteppingCluster, SteppingStore, pause

_ENTRY = re.compile(r"([0-9]+)\.json")
_BEGUN = re.compile(r"([0-9]+)-([0-9a-z]+)\.begun\.json")
RULES = dict.fromkeys(
    ("look", "fence", "committed", "expects before", "expects after", "behind", "owner", "compacted"), True
)
"""What a broken twin leaves out."""


class Stopped(Exception):
    """The driver ends without a report.

    :ivar acknowledge: what a person may accept, as the driver prints it, in place of identity ``after``.
    """

    def __init__(self, reason: str, acknowledge: dict[str, Any] | None = None, after: int = 0) -> None:
        super().__init__(reason)
        self.acknowledge, self.after = acknowledge, after


class Row(NamedTuple):
    """A record in a table. Two at one offset differ by the topic's origin or the leader epoch."""

    origin: str
    partition: TopicPartition
    offset: int
    epoch: int

    @property
    def place(self) -> tuple[str, TopicPartition, int]:
        return self[:3]


class Job(NamedTuple):
    """What rows mean, by number: a later one is corrected; and where they go (``None``: templated)."""

    number: int
    output: str | None

    @property
    def described(self) -> dict[str, Any]:
        return {"rows": self.number, "sink": {"keeps_rows": True}}

    @property
    def digest(self) -> str:
        return job_digest(self.described)


@dataclass
class Tables:
    """Rows by output and key. A swap replaces the rows of one key.

    :ivar owners: the mark of each table: the pipeline's name and the id of its log.
    :ivar attempts: the highest attempt that has written; ``jobs``: the number of the job that has.
    :ivar versions: earlier states of each table.
    :ivar limit: how many records Spark can hold; ``poison``: the place of one that no job can read.
    :ivar decoded_from: of records that not every job decodes, the number of the first one that does; ``bad``: the rows
        that are in the table of bad records.
    """

    fences: bool
    origins: dict[str, str]
    rows: defaultdict[str, dict[str, list[Row]]] = field(default_factory=lambda: defaultdict(dict))
    owners: dict[str, tuple[str, str]] = field(default_factory=dict)
    attempts: dict[tuple[str, str], int] = field(default_factory=dict)
    jobs: dict[tuple[str, str], int] = field(default_factory=dict)
    versions: defaultdict[str, list[dict[str, list[Row]]]] = field(default_factory=lambda: defaultdict(lambda: [{}]))
    limit: int | None = None
    poison: tuple[str, TopicPartition, int] | None = None
    decoded_from: dict[tuple[str, TopicPartition, int], int] = field(default_factory=dict)
    bad: dict[tuple[str, str], list[Row]] = field(default_factory=dict)
    late_swaps: int = 0

    def swap(self, output: str, key: str, rows: list[Row], attempt: int, job: int) -> None:
        at = output, key
        if self.fences and RULES["fence"] and self.attempts.get(at, 0) > attempt:
            raise Stopped("fenced")
        self.rows[output][key], self.attempts[at], self.jobs[at] = rows, attempt, job
        self.bad[at] = [row for row in rows if self.decoded_from.get(row.place, 0) > job]
        self.versions[output].append(dict(self.rows[output]))
        del self.versions[output][:-12]


class Driver:
    def __init__(
        self, store: SteppingStore, kafka: SteppingCluster, tables: Tables, rnd: Any, path: str, job: Job
    ) -> None:
        self.store, self.kafka, self.tables, self.rnd, self.path, self.job = store, kafka, tables, rnd, path, job
        self.folder, _, entry = path.rpartition("/")
        self.entry = int(entry.removesuffix(".json"))

    def run(self, *, writes_half: bool, only_looks: bool = False) -> None:
        names = self.store.list(self.folder)
        self.plan = self._read(self.path)
        if self.plan["entry"] != "plan":  # of another log
            raise Stopped("no plan")
        self.output = self.job.output or f"window {self.plan['window']}"
        body = body_from_dict(self._read(f"{self.folder}/{self.plan['ranges']['name']}"))
        self._require_current(names)
        self._require_owner()
        if only_looks:
            pause()
            if self.plan["key"] not in self.tables.rows[self.output]:
                raise Stopped("output lost")
            return
        self.number = 1 + max((n for n, _ in self._begun(self.store.list(self.folder))), default=0)
        self.random = f"{self.rnd.randrange(16**8):08x}"
        self._put("begun", {})
        self._look("expects before")
        at = self.output, self.plan["key"]
        of_kafka = self.kafka, body, self.plan["isolation_level"], self.tables
        rows = self._of_outputs() if self.plan["from_outputs"] else read(*of_kafka)
        for _ in range(self.rnd.randint(1, 8)):
            pause("swap")
        if self._is_overtaken():
            self.tables.late_swaps += not self.tables.fences
        is_compacted = self._is_compacted(len(rows))
        if not is_compacted:
            self.tables.swap(*at, rows[: len(rows) // 2] if writes_half else rows, self.number, self.job.number)
        pause()
        written = self.tables.rows[self.output].get(self.plan["key"], [])
        if is_compacted:
            self.tables.jobs[at], rows = self.job.number, written
        self._look("expects after")
        self._put("report", {"counts": counts_of(written, self.tables.bad.get(at, []), rows, body)})

    def _read(self, name: str) -> Any:
        value = read_object(self.store, name)
        if value is None:
            raise Stopped(f"{name} is not there")
        return value

    def _put(self, kind: str, more: dict[str, Any]) -> None:
        value = {"version": 1, "plan_id": self.plan["plan_id"], "job": self.job.digest, "output": self.output}
        create_object(self.store, f"{self.folder}/{self.number}-{self.random}.{kind}.json", value | more)

    def _begun(self, names: list[str]) -> list[tuple[int, str]]:
        return [(int(m[1]), m[2]) for m in map(_BEGUN.fullmatch, names) if m]

    def _stop(self, reason: str, **acknowledge: Any) -> None:
        raise Stopped(reason, acknowledge, self.plan["identity"])

    def _require_owner(self) -> None:
        """The table is this log's, or one that a person has adopted."""
        if self.plan["output"] is None or not RULES["owner"]:
            return
        own = self.plan["pipeline"].partition("/")[0], self.plan["log"]
        pause("owner")
        owner = self.tables.owners.setdefault(self.output, own)
        if owner != own and owner[1] not in self.plan["adopted"]:
            highest = max(self.tables.rows[self.output], default=f"{0:010}-{0:012}")
            self._stop("another log's table", log={owner[1]: highest})
        self.tables.owners[self.output] = own

    def _look(self, rule: str) -> None:
        if RULES["look"]:
            names = self.store.list(self.folder)
            self._require_current(names)
            if any(n >= self.number and r != self.random for n, r in self._begun(names)):
                raise Stopped("late")
        if self.plan["output"] is None:
            return
        pause()
        rows, expects = self.tables.rows[self.output], self.plan["expects"]
        if RULES[rule] and expects is not None and expects not in rows:
            self._stop("rows", rows=self._missing() or [expects])
        if RULES["behind"] and self.plan["newest"]:
            own, base = self.plan["key"], self.plan["bases"][-1]
            behind = [key for key in sorted(rows) if digits_of(key) >= digits_of(own) and digits_of(key) > base]
            if behind := [key for key in behind if key != own and not self._is_of_another_shard(key)]:
                self._stop("keys behind", batch=behind)

    def _missing(self) -> list[str]:
        """Keys of earlier batches that are committed with rows, which the table lacks."""
        log, there = PipelineLog(self.store.view, self.plan["pipeline"]), self.tables.rows[self.output]
        earlier = [b for b in map(log.batch, range(1, self.plan["number"])) if b is not None and b.is_committed]
        with_rows = [b for b in earlier if b.commits[-1].rows and b.output == self.output]
        return [b.plan.key for b in with_rows if b.plan.key not in there]

    def _is_of_another_shard(self, key: str) -> bool:
        own, other = (re.findall(r"-(\d+)of(\d+)-", k) for k in (self.plan["key"], key))
        return bool(own and other) and own[0][1] == other[0][1] and own[0][0] != other[0][0]

    def _committed(self) -> int | None:
        """How many records the last commit has in its outputs."""
        entries = [self._read(f"{self.folder}/{k}.json") for k in range(1, self.entry)]
        return next((e["rows"] + e["bad"] for e in reversed(entries) if e["entry"] == "commit"), None)

    def _is_compacted(self, found: int) -> bool:
        """A committed batch of which Kafka has fewer records by now than the table is left as it is."""
        committed, there = self._committed(), self.tables.rows[self.output].get(self.plan["key"], [])
        return RULES["compacted"] and committed is not None and found < committed <= len(there)

    def _of_outputs(self) -> list[Row]:
        """The batch's rows and bad records, where its tables are as they were committed."""
        there = self.tables.rows[self.output].get(self.plan["key"], [])
        if len(there) != self._committed():
            raise Stopped("changed since the commit")
        return there

    def _require_current(self, names: list[str]) -> None:
        later = sorted(k for m in map(_ENTRY.fullmatch, names) if m and (k := int(m[1])) > self.entry)
        entries = [self._read(f"{self.folder}/{k}.json") for k in later]
        if any(e["entry"] == "plan" and e["plan_id"] != self.plan["plan_id"] for e in entries):
            raise Stopped("replaced")
        if entries and entries[-1]["entry"] == "commit" and RULES["committed"]:
            raise Stopped("committed")

    def _is_overtaken(self) -> bool:
        """Asked by the world, at no cost: it is between the driver's read and its swap."""
        view = self.store.view
        names = view.list(self.folder)
        if not names or any(n > self.number for n, _ in self._begun(names)):
            return True
        numbers = sorted(int(m[1]) for m in map(_ENTRY.fullmatch, names) if m)
        entries = [read_object(view, f"{self.folder}/{k}.json") or {} for k in numbers]
        plans = [e["plan_id"] for e in entries if e["entry"] == "plan"]
        return plans[-1] != self.plan["plan_id"] or entries[-1]["entry"] == "commit"


def read(kafka: SteppingCluster, body: PlanBody, isolation_level: str, tables: Tables) -> list[Row]:
    """The records of a plan as Spark reads them, all at one moment and by the topics' names.

    Fails if some of them are gone. Compaction and transactions leave gaps, and move neither end of the log.
    """
    pause("read")
    rows = list[Row]()
    for tp, planned in sorted(body.ranges.items()):
        if planned.start == planned.end:
            continue
        log = kafka.log_of(tp)
        if log.log_start_offset > planned.start or log.high_watermark < planned.end:
            raise Stopped("gone")
        skips = {o for s in body.skips.get(tp, ()) for o in range(s.start_offset, s.end_offset)}
        records = kafka.records(tp, planned.start, planned.end, isolation_level)
        rows += [Row(tables.origins[i], tp, o, epoch) for i, o, epoch in records if o not in skips]
    if tables.limit is not None and len(rows) > tables.limit:
        raise Stopped("too many records")
    if any(row.place == tables.poison for row in rows):
        raise Stopped("poison")
    return rows


def counts_of(rows: list[Row], bad: list[Row], found: list[Row], body: PlanBody) -> dict[str, Any]:
    """What reading the tables back shows, and the gaps between what was found to be written.

    :param rows: all records; ``bad``: those that are in the table of bad records.
    """
    counts = {}
    for tp in {*body.ranges, *(row.partition for row in rows)}:
        offsets = [row.offset for row in rows if row.partition == tp]
        different = len(Counter(offsets))
        low, high = (min(offsets), max(offsets)) if offsets else (None, None)
        of_bad = sum(row.partition == tp for row in bad)
        gaps = body.planned(tp) - sum(row.partition == tp for row in found) if tp in body.ranges else 0
        counts[tp] = (len(offsets) - of_bad, of_bad, 0, different, gaps, low, high)
    return to_columns(("rows", "bad", "filtered", "offsets", "gaps", "first", "last"), counts)


def run_plain_job(
    kafka: SteppingCluster, tables: Tables, rnd: Any, plan: Any, body: PlanBody, is_overtaken: Callable[[], bool]
) -> None:
    """A job that knows nothing of the log: it reads the offsets that it was given, and reports nothing."""
    rows = read(kafka, body, plan.isolation_level, tables)
    for _ in range(rnd.randint(1, 8)):
        pause("swap")
    tables.late_swaps += is_overtaken()
    tables.swap("A", plan.key, rows, 0, 0)
