"""Plans written by the documented format (docs/job-contract.md), and what drivers leave beside them."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.store import jvm_of
from airflow_kafka_offsets.store.local import LocalStore

Partition = tuple[str, int]
Ends = tuple[int, int]
LOG = "10c1d2e3f405"
HEADER: dict[str, Any] = {
    "identity": 1,
    "log": LOG,
    "adopted": {},
    "bases": [0],
    "window": None,
    "isolation_level": "read_uncommitted",
    "output": None,
    "expects": None,
    "newest": False,
    "from_outputs": False,
}
"""Members of a plan's header that a test may change."""


def encode(value: Mapping[str, Any]) -> bytes:
    body = json.dumps(value, separators=(",", ":"))[:-1].encode()
    return body + b',"sha256":"%s"}' % hashlib.sha256(body).hexdigest().encode()


def columns(rows: Sequence[tuple[Partition, Ends]]) -> dict[str, dict[str, list[int]]]:
    topics: dict[str, dict[str, list[int]]] = {}
    for (topic, partition), (start, end) in rows:
        table = topics.setdefault(topic, {"partition": [], "start": [], "end": []})
        for name, value in zip(table, (partition, start, end), strict=True):
            table[name].append(value)
    return topics


@dataclass
class PlannedBatch:
    """A batch in a checkpoint location: its entries, and the attempts at it."""

    root: Path
    servers: str
    pipeline: str
    number: int
    entries: int = 0
    ranges: Mapping[Partition, Ends] = field(default_factory=dict)
    skips: Sequence[tuple[Partition, Ends]] = ()

    @property
    def folder(self) -> Path:
        return self.root / self.pipeline / "batches" / f"{self.number // 100:08}" / f"{self.number:010}"

    @property
    def key(self) -> str:
        return f"{self.number:010}-3f9a01c2d4e5"

    def plan(
        self,
        ranges: Mapping[Partition, Ends],
        skips: Sequence[tuple[Partition, Ends]] = (),
        partitions: Mapping[str, int] | None = None,
        given_up: Sequence[str] = (),
        **header: Any,
    ) -> PlannedBatch:
        """Append a plan, and write its identity. `partitions`: how many each topic had; by default, as many as are
        planned. `given_up`: keys of batches."""
        self.ranges, self.skips = ranges, skips
        known = {topic: sum(t == topic for t, _ in ranges) for topic, _ in ranges} | dict(partitions or {})
        body = {"version": 1, "ranges": columns(sorted(ranges.items())), "skips": columns(skips)}
        name, data = f"{self.entries + 1}-{secrets.token_hex(4)}.ranges.json", encode(body)
        self.write(name, data)
        own: dict[str, Any] = {
            "pipeline": self.pipeline,
            "number": self.number,
            "key": self.key,
            "plan_id": secrets.token_hex(8),
            "ranges": {"name": name, "sha256": hashlib.sha256(data).hexdigest()},
            "topics": {topic: {"id": None, "partitions": count} for topic, count in known.items()},
        }
        header = {**HEADER, **own, **header}
        identity = self.root / self.pipeline.partition("/")[0] / f"pipeline/{header['identity']}.json"
        identity.parent.mkdir(parents=True, exist_ok=True)
        identity.write_bytes(encode({"version": 1, "rows": [*given_up]}))
        return self.append("plan", **header)

    def commit(self, rows: int = 1, **members: Any) -> PlannedBatch:
        own: dict[str, Any] = {"by": {"run_id": f"run-{self.number}"}, "bad": 0, "filtered": 0, "output": None}
        own |= {"attempt": 1, "snapshot": None}
        return self.append("commit", rows=rows, **{**own, **members})

    def continued(self) -> PlannedBatch:
        """Another run appends the same plan."""
        header = self.read(f"{self.entries}.json")
        return self.append(
            "plan", **{name: value for name, value in header.items() if name not in ("version", "entry")}
        )

    def append(self, kind: str, **members: Any) -> PlannedBatch:
        """Append an entry: `plan` or `commit`."""
        self.entries += 1
        self.write(f"{self.entries}.json", encode({"version": 1, "entry": kind, **members}))
        return self

    def write(self, name: str, data: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_bytes(data)

    def begun(self, number: int, output: str | None = None) -> str:
        """Another driver begins an attempt. Returns its random part."""
        random = secrets.token_hex(4)
        plan_id = self.read("1.json")["plan_id"]
        value = {"version": 1, "plan_id": plan_id, "job": None, "output": output}
        self.write(f"{number}-{random}.begun.json", encode(value))
        return random

    def job(self, job: Mapping[str, Any]) -> str:
        """Write a job object. Returns its URI."""
        data = encode({"version": 1, **job})
        path = self.root / self.pipeline / "jobs" / f"{hashlib.sha256(data).hexdigest()}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return f"file://{path}"

    def arguments(self, job: str | None = None, entry: int | None = None) -> list[str]:
        """What the resolve task gives to a job."""
        plan = f"file://{self.folder}/{self.entries if entry is None else entry}.json"
        more = [] if job is None else ["--job", job]
        return ["--plan", plan, "--bootstrap-servers", self.servers, *more]

    def read(self, name: str) -> dict[str, Any]:
        """An object, whose digest must be right."""
        data = (self.folder / name).read_bytes()
        value: dict[str, Any] = json.loads(data)
        sha256 = value.pop("sha256")
        assert data.endswith(b',"sha256":"%s"}' % sha256.encode())
        assert hashlib.sha256(data[: data.rindex(b',"sha256":')]).hexdigest() == sha256
        return value

    def names(self, kind: str) -> list[str]:
        """Names of `begun` or `report` objects, by the number of the attempt."""
        found = [
            m for m in (re.fullmatch(rf"(\d+)-[0-9a-z]+\.{kind}\.json", f.name) for f in self.folder.iterdir()) if m
        ]
        return [match[0] for match in sorted(found, key=lambda match: int(match[1]))]

    @property
    def attempts(self) -> list[int]:
        return [int(name.partition("-")[0]) for name in self.names("begun")]

    def report(self) -> dict[str, Any]:
        """The report of the last attempt that has one."""
        return self.read(self.names("report")[-1])

    def counts(self, partition: Partition) -> dict[str, Any]:
        """What the last report says of one partition."""
        table = self.report()["counts"].get(partition[0], {"partition": []})
        if partition[1] not in table["partition"]:
            return dict.fromkeys(("rows", "bad", "filtered", "offsets", "gaps"), 0) | {"first": None, "last": None}
        row = table["partition"].index(partition[1])
        return {name: values[row] for name, values in table.items() if name != "partition"}

    def problems(self) -> list[str]:
        """Why the batch is not verified, by the rule of the contract; `[]`: it is."""
        highest = max(self.attempts, default=0)
        reports = [name for name in self.names("report") if name.startswith(f"{highest}-")]
        if self.attempts.count(highest) != 1 or not reports:
            return [f"attempt {highest} has no report, or there are several"]
        if self.report()["plan_id"] != self.read(f"{self.entries}.json")["plan_id"]:
            return ["another plan"]
        problems = []
        for tp, (start, end) in self.ranges.items():
            found, size = self.counts(tp), end - start - sum(e - s for of, (s, e) in self.skips if of == tp)
            if found["rows"] + found["bad"] + found["filtered"] != found["offsets"]:
                problems.append(f"{tp}: {found['rows']} rows for {found['offsets']} offsets")
            if found["offsets"] + found["gaps"] != size:
                problems.append(f"{tp}: {found['offsets']} offsets and {found['gaps']} gaps of {size}")
            if found["offsets"] and not (start <= found["first"] and found["last"] < end):
                problems.append(f"{tp}: offsets outside of the range")
        return problems


@dataclass
class Plans:
    """A checkpoint location of the test's own."""

    root: Path
    servers: str

    def store(self, spark: SparkSession) -> Any:
        """What a driver over Spark Connect is handed; ``None``: it has a JVM."""
        if jvm_of(spark) is not None:
            return None
        store = LocalStore(self.root)
        return SimpleNamespace(get=store.get, put=store.create, list=store.list)

    def batch(
        self, ranges: Mapping[Partition, Ends], number: int = 1, pipeline: str = "orders", **more: Any
    ) -> PlannedBatch:
        """A batch that no driver has begun; `more` as for `PlannedBatch.plan`."""
        return PlannedBatch(self.root, self.servers, pipeline, number).plan(ranges, **more)
