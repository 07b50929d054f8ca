"""A Spark driver by the documented contract of a job, and the sink that it writes to::

    plan still current? → list attempts → begun <highest + 1> → look → output? → read → write → look → report

Half of the sinks fence late drivers off. In the others a driver that was overtaken may swap between its last look and
its swap: nobody can look there. The sink counts such late swaps.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from airflow_kafka_offsets.json_columns import to_columns
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.plan.body import PlanBody, body_from_dict
from airflow_kafka_offsets.store.objects import create_object, read_object
from tests.model.stepping import SteppingCluster, SteppingStore, pause

_ENTRY = re.compile(r"([0-9]+)\.json")
_BEGUN = re.compile(r"([0-9]+)-([0-9a-z]+)\.begun\.json")
RULES = dict.fromkeys(("look", "fence", "committed", "outputs"), True)
"""What a broken twin leaves out."""


class Stopped(Exception):
    """The driver ends without a report."""


class Job(NamedTuple):
    """What rows mean, by number: a later one is corrected; and where they go."""

    number: int
    output: str

    @property
    def digest(self) -> str:
        return f"job{self.number}"


FIRST_JOB = Job(0, "A")


@dataclass
class Sink:
    """Rows by output and key. A swap replaces the rows of one key.

    :ivar attempts: the highest attempt that has written; ``jobs``: the number of the job that has.
    """

    fences: bool
    rows: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    attempts: dict[tuple[str, str], int] = field(default_factory=dict)
    jobs: dict[tuple[str, str], int] = field(default_factory=dict)
    late_swaps: int = 0

    def swap(self, output: str, key: str, rows: list[Any], attempt: int, job: int) -> None:
        at = output, key
        if self.fences and RULES["fence"] and self.attempts.get(at, 0) > attempt:
            raise Stopped("fenced")
        self.rows[at], self.attempts[at], self.jobs[at] = rows, attempt, job


class Driver:
    def __init__(self, store: SteppingStore, kafka: SteppingCluster, sink: Sink, rnd: Any, path: str, job: Job) -> None:
        self.store, self.kafka, self.sink, self.rnd, self.path, self.job = store, kafka, sink, rnd, path, job
        self.folder, _, entry = path.rpartition("/")
        self.entry = int(entry.removesuffix(".json"))

    def run(self, *, writes_half: bool) -> None:
        names = self.store.list(self.folder)
        self.plan = self._read(self.path)
        if self.plan["entry"] != "plan":  # of another log
            raise Stopped("no plan")
        body = body_from_dict(self._read(f"{self.folder}/{self.plan['ranges']['name']}"))
        self._require_current(names)
        for _ in range(self.rnd.randint(1, 8)):
            pause()  # the sink is asked whether this pipeline may write it
        begun = self._begun(names)
        self.number = 1 + max((n for n, _ in begun), default=0)
        self.random = f"{self.rnd.randrange(16**8):08x}"
        self._put("begun", {})
        self._look()
        names = self.store.list(self.folder)
        self._require_output(names, [b for b in self._begun(names) if b[0] < self.number])
        rows, gaps = read(self.kafka, body)
        for _ in range(self.rnd.randint(1, 8)):
            pause("swap")
        if self._is_overtaken():
            self.sink.late_swaps += not self.sink.fences
        at = self.job.output, self.plan["key"]
        self.sink.swap(*at, rows[: len(rows) // 2] if writes_half else rows, self.number, self.job.number)
        pause()
        written = self.sink.rows[at]
        self._look()
        self._put("report", {"counts": counts_of(written, gaps, body)})

    def _read(self, name: str) -> Any:
        value = read_object(self.store, name)
        if value is None:
            raise Stopped(f"{name} is not there")
        return value

    def _put(self, kind: str, more: dict[str, Any]) -> None:
        value = {"version": 1, "plan_id": self.plan["plan_id"], "job": self.job.digest, "output": self.job.output}
        create_object(self.store, f"{self.folder}/{self.number}-{self.random}.{kind}.json", value | more)

    def _begun(self, names: list[str]) -> list[tuple[int, str]]:
        return [(int(m[1]), m[2]) for m in map(_BEGUN.fullmatch, names) if m]

    def _look(self) -> None:
        if RULES["look"]:
            names = self.store.list(self.folder)
            self._require_current(names)
            if any(n >= self.number and r != self.random for n, r in self._begun(names)):
                raise Stopped("late")

    def _require_current(self, names: list[str]) -> None:
        later = sorted(k for m in map(_ENTRY.fullmatch, names) if m and (k := int(m[1])) > self.entry)
        kinds = [self._read(f"{self.folder}/{k}.json")["entry"] for k in later]
        if "plan" in kinds or (kinds and kinds[-1] == "commit" and RULES["committed"]):
            raise Stopped("replaced")

    def _require_output(self, names: list[str], earlier: list[tuple[int, str]]) -> None:
        if not RULES["outputs"]:
            return
        entries = [self._read(f"{self.folder}/{m[0]}") for m in map(_ENTRY.fullmatch, names) if m]
        acknowledged = max(e.get("acknowledged", 0) for e in entries)
        outputs = {(n, r): self._read(f"{self.folder}/{n}-{r}.begun.json")["output"] for n, r in earlier}
        settled = {output for (n, _), output in outputs.items() if n <= acknowledged}
        others = {output for (n, _), output in outputs.items() if n > acknowledged}
        if self.plan["output"] is not None and self.job.output not in settled:
            others.add(self.plan["output"])
        if others - {self.job.output}:
            raise Stopped("output")

    def _is_overtaken(self) -> bool:
        """Asked by the world, at no cost: it is between the driver's read and its swap."""
        names = [n for n in self.store.objects if n.startswith(f"{self.folder}/")]
        names = [n.rpartition("/")[2] for n in names]
        if any(n > self.number for n, _ in self._begun(names)):
            return True
        later = sorted(k for m in map(_ENTRY.fullmatch, names) if m and (k := int(m[1])) > self.entry)
        kinds = [b'"entry":"plan"' in self.store.objects[f"{self.folder}/{k}.json"] for k in later]
        is_closed = bool(later) and b'"entry":"commit"' in self.store.objects[f"{self.folder}/{later[-1]}.json"]
        return any(kinds) or is_closed or not names


def read(kafka: SteppingCluster, body: PlanBody) -> tuple[list[tuple[Any, ...]], dict[TopicPartition, int]]:
    """The records of a plan as Spark reads them, all at one moment, and the gaps between them.

    Fails if some of them are gone. Compaction leaves gaps, and moves neither end of the log.
    """
    pause()
    rows, gaps = [], {}
    for tp, planned in sorted(body.ranges.items()):
        if planned.start == planned.end:
            continue
        log = kafka.topics[tp.topic].logs.get(tp.partition)
        if log is None or log.log_start_offset > planned.start or log.high_watermark < planned.end:
            raise Stopped("gone")
        skips = {o for s in body.skips.get(tp, ()) for o in range(s.start_offset, s.end_offset)}
        found = [row for row in kafka.records(tp, planned.start, planned.end) if row[2] not in skips]
        gaps[tp] = body.planned(tp) - len(found)
        rows += found
    return rows, gaps


def counts_of(rows: list[tuple[Any, ...]], gaps: dict[TopicPartition, int], body: PlanBody) -> dict[str, Any]:
    """What reading the output back shows; the gaps as the scan of Kafka had them."""
    topic = next(iter(body.ranges)).topic if body.ranges else "orders"
    counts = {}
    for tp in {*body.ranges, *(TopicPartition(topic, row[1]) for row in rows)}:
        offsets = [row[2] for row in rows if row[1] == tp.partition]
        different = len(Counter(offsets))
        low, high = (min(offsets), max(offsets)) if offsets else (None, None)
        counts[tp] = (len(offsets), 0, 0, different, gaps.get(tp, 0), low, high)
    return to_columns(("rows", "bad", "filtered", "offsets", "gaps", "first", "last"), counts)


def run_plain_job(
    kafka: SteppingCluster, sink: Sink, rnd: Any, batch: Batch, body: PlanBody, is_overtaken: Any
) -> None:
    """A job that knows nothing of the log: it reads the offsets that it was given, and reports nothing."""
    rows, _ = read(kafka, body)
    for _ in range(rnd.randint(1, 8)):
        pause("swap")
    sink.late_swaps += is_overtaken()
    sink.swap("A", batch.plan.key, rows, 0, 0)
