"""``audit``: decisions and totals of a pipeline, and the offsets of any table. The query runs on DuckDB here.

On Spark, and over tables that jobs of other kinds wrote: ``tests/spark/test_audit_query.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_offsets.cli import audit as audit_module
from airflow_kafka_offsets.cli.table_audit import doubled, gaps, query, read_answer
from airflow_kafka_offsets.kafka_values import OffsetRange
from airflow_kafka_offsets.log.reports import Counts
from tests.cli.conftest import Audit, Row, Run, answer_of
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import HOUR, TOPIC, Pipeline, produce, tp, whole_counts

HEADER = "topic,kafka_partition,start_offset,end_offset,times"
KAFKA = ("--bootstrap-servers", "memory")


def rows(*offsets: int, partition: int = 0, batch: str | None = None, day: str | None = "2026-11-20") -> list[Row]:
    return [(TOPIC, partition, offset, batch, day) for offset in offsets]


# ── a pipeline ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_decisions_and_totals_of_a_pipeline(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 10)
    cluster.delete_records(tp(0), 12)
    pipeline.whole_run("two", on_data_loss="advance")
    produce(cluster, 0, 1)
    pipeline.work()
    ended = run("audit orders --output json")
    assert [(d["batch"], d["kind"], d["start"], d["end"]) for d in ended.json["given_up"]] == [(2, "lost", 10, 12)]
    (day,) = ended.json["days"]
    assert (day["batches"], day["rows"], day["lost"], ended.json["unfinished"]) == (2, 18, 2, [3])
    assert "Batch 3 is not committed." in run("audit orders").out
    assert run("audit orders --from-batch 2 --output json").json["days"][0]["rows"] == 8


def test_windows_that_nobody_planned_are_named(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    first = cluster.now_ms - 6 * HOUR
    for hour in (3, 0, 1):
        start = first + hour * HOUR
        pipeline.whole_run(want=pipeline.window(start, start + HOUR))
    assert len(run("audit orders --output json").json["not_planned"]) == 1
    assert "No window was planned from" in run("audit orders").out


# ── a table and the log of its pipeline ───────────────────────────────────────────────────────────────────────────────


def test_a_table_is_compared_with_the_log_of_its_pipeline(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run, answer: Audit
) -> None:
    """Offsets missing, doubled, of no batch, of another log, and rows without a key."""
    produce(cluster, 0, 10)
    work = pipeline.work()
    counts = whole_counts(work) | {tp(0): Counts(8, 1, 1, 10, 0, 0, 9)}  # one bad, one filtered
    pipeline.report(work, pipeline.begin(work), counts)
    pipeline.commit(work)
    first = work.key
    produce(cluster, 0, 5)
    produce(cluster, 1, 5)
    second = pipeline.whole_run("two").key
    produce(cluster, 0, 5)
    unfinished = pipeline.work().key

    whole = rows(*range(8), batch=first) + rows(*range(10, 15), batch=second)
    whole += rows(*range(5), partition=1, batch=second) + rows(15, 16, batch=unfinished)
    asked = answer(whole, "--batch t.kafka_batch")
    assert "the table has what the log says" in run("audit orders", asked).out

    wrong = [*rows(3, batch=first), *rows(7, partition=2, batch=second), *rows(9, batch=None)]
    older = rows(*range(10), batch="0000000000-aaaaaaaaaaaa")
    asked = answer([*whole[1:], *wrong, *older, ("orders", None, 4, first, None)], "--batch t.kafka_batch")
    ended = run("audit orders --output json", asked, status=1)
    assert [tuple(row.values()) for row in ended.json["findings"]] == [
        ("no key", 1),
        ("no offset", 1),
        (first, "missing", "orders-0", 1),
        (first, "doubled", "orders-0", 1),
        (second, "of no batch", "orders-2", 1),
        ("of another log", "0000000000-aaaaaaaaaaaa", "orders-0", 10),
    ]
    assert "6 findings" in run("audit orders", asked, status=1).out


def test_rows_of_a_log_that_this_one_continues_are_no_finding(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run, answer: Audit
) -> None:
    produce(cluster, 0, 5)
    pipeline.resolve("one", exclude=["orders-0"])
    pipeline.act("two", after=1, acknowledge={"log": {"abcd": "0000000007-aaaaaaaaaaaa"}})
    work = pipeline.work("two")
    assert work.key.startswith("0000000009-")  # behind the keys of that log
    pipeline.drive(work)
    pipeline.commit(work)
    older = rows(0, 1, batch="0000000007-aaaaaaaaaaaa") + rows(*range(5), batch=work.key)
    run("audit orders", answer(older, "--batch t.kafka_batch"))
    newer = [*older, *rows(7, batch="0000000008-bbbbbbbbbbbb")]
    assert "1 finding." in run("audit orders", answer(newer, "--batch t.kafka_batch"), status=1).out


def test_what_is_cleaned_or_left_out_is_not_compared(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run, answer: Audit
) -> None:
    keys = []
    for _ in range(4):
        produce(cluster, 0, 5)
        keys.append(pipeline.whole_run().key)
    asked = answer(rows(*range(15, 20), batch=keys[3]), "--batch t.kafka_batch")
    ended = run("audit orders --output json", asked, status=1)
    assert [row["batch"] for row in ended.json["findings"]] == keys[:3]
    assert run("audit orders --from-batch 4 --output json", asked).json["batches"] == 1
    cluster.now_ms += 100 * HOUR
    run("clean orders --older-than 1h --execute")
    ended = run("audit orders --output json", asked, status=1)
    assert [row["batch"] for row in ended.json["findings"]] == keys[2:3]


# ── any table ─────────────────────────────────────────────────────────────────────────────────────────────────────────

OFFSETS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 12), st.sampled_from([None, "a", "b"])), max_size=30)


@settings(max_examples=40)
@given(OFFSETS, st.booleans(), st.booleans())
def test_gaps_and_doubled_rows_are_those_of_the_table(
    tmp_path_factory: pytest.TempPathFactory, found: list[tuple[int, int, str | None]], has_batch: bool, has_day: bool
) -> None:
    """A law: the query and what is made of its answer agree with counting by hand."""
    columns = {"topic": "t.topic", "part": "t.partition", "off": "t.offset",
               "batch": "t.kafka_batch" if has_batch else None, "day": "t.day" if has_day else None}  # fmt: skip
    table: list[Row] = [
        ("orders", number, offset, batch, f"2026-11-{offset % 3 + 1:02}") for number, offset, batch in found
    ]
    file = tmp_path_factory.mktemp("law") / "answer.json"
    runs = read_answer(Path(answer_of(query("lake", columns), table, file)[1:]).read_text()).runs
    times = Counter((tp(number), offset) for number, offset, _ in found)
    ends = {partition: [o for p, o in times if p == partition] for partition, _ in times}
    missing = {
        (partition, offset)
        for partition, offsets in ends.items()
        for offset in range(min(offsets), max(offsets))
        if (partition, offset) not in times
    }
    assert {(gap.tp, o) for gap in gaps(runs) for o in range(gap.start_offset, gap.end_offset)} == missing
    assert sum(stretch.size for stretch in doubled(runs)) == times.total() - len(times)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_gaps_are_named_by_what_kafka_has(cluster: InMemoryCluster, run: Run, answer: Audit, form: str) -> None:
    """Lost, compacted away, aborted, a transaction's marker, below the log start, in an open transaction."""
    deleted, mixed, open_one = tp(0), tp(1), tp(2)
    produce(cluster, 0, 10)
    cluster.delete_records(deleted, 4)
    cluster.compact(mixed, [cluster.now_ms] * 4, {1: 3})
    aborted = cluster.begin_transaction()
    aborted.produce(mixed, [cluster.now_ms] * 2)
    aborted.abort()
    produce(cluster, 1, 3)
    produce(cluster, 2, 1)
    cluster.begin_transaction().produce(open_one, [cluster.now_ms] * 3)
    produce(cluster, 2, 1)

    table = [*rows(0, 1, 7, 9), *rows(0, 2, 3, 7, 9, partition=1), *rows(0, 4, partition=2, day="2026-11-21")]
    asked = answer([*table, *rows(9)], "--day t.day", form)
    ended = run("audit", asked, *KAFKA, "--output", "json", status=1)
    stretches = {
        (s["partition"], s["start"], s["end"]): (s["lost"], s["never_there"], s["cannot_be_told"], s["doubled"])
        for s in ended.json["stretches"]
    }
    assert stretches == {
        ("orders-0", 2, 7): (3, 0, 2, 0),
        ("orders-0", 8, 9): (1, 0, 0, 0),
        ("orders-0", 9, 10): (0, 0, 0, 1),
        ("orders-1", 1, 2): (0, 1, 0, 0),
        ("orders-1", 4, 7): (0, 3, 0, 0),
        ("orders-1", 8, 9): (1, 0, 0, 0),
        ("orders-2", 1, 4): (0, 0, 3, 0),
    }
    assert {word: ended.json[word] for word in ("lost", "never_there", "cannot_be_told", "doubled")} == {
        "lost": 5, "never_there": 4, "cannot_be_told": 5, "doubled": 1}  # fmt: skip
    assert [(d["partition"], str(d["day"])[:10], d["lost"]) for d in ended.json["days"]] == [
        ("orders-0", "2026-11-20", 4), ("orders-1", "2026-11-20", 1), ("orders-2", "2026-11-21", 0)]  # fmt: skip
    assert "5 lost, 4 never there, 5 cannot be told, 1 doubled" in run("audit", asked, *KAFKA, status=1).out


def test_a_topic_that_is_another_one_or_gone_tells_nothing(cluster: InMemoryCluster, run: Run, answer: Audit) -> None:
    produce(cluster, 0, 3)
    asked = answer([*rows(0, 2, 8), ("gone", 0, 1, None, None), ("gone", 0, 3, None, None)])
    ended = run("audit", asked, *KAFKA, "--output", "json")
    assert (ended.json["cannot_be_told"], ended.json["lost"]) == (1 + 5 + 1, 0)


def test_what_retention_takes_while_kafka_is_read_is_not_guessed(
    cluster: InMemoryCluster, run: Run, answer: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(cluster, 0, 10)
    counted = cluster.record_counts

    def deleted_before(ranges: Iterable[tuple[object, OffsetRange]]) -> object:
        cluster.delete_records(tp(0), 5)
        return counted(ranges)  # type: ignore[arg-type]

    monkeypatch.setattr(cluster, "record_counts", deleted_before)
    ended = run("audit", answer(rows(0, 7, 9)), *KAFKA, "--output", "json", status=1)
    assert (ended.json["lost"], ended.json["never_there"], ended.json["cannot_be_told"]) == (3, 0, 4)


def test_a_table_without_gaps_needs_no_cluster(run: Run, answer: Audit) -> None:
    ended = run("audit", answer([*rows(4, 5, 6), (None, 0, 1, "b", None)]))
    assert "3 offsets in 1 partition: 0 lost" in ended.out
    assert "1 row without topic, partition or offset." in ended.err


def test_very_many_gaps_are_read_in_one_go_and_it_says_so_before(
    cluster: InMemoryCluster, run: Run, answer: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(cluster, 0, 9)
    monkeypatch.setattr(audit_module, "SEEKS", 2)
    ended = run("audit", answer(rows(0, 2, 4, 8)), *KAFKA, status=1)
    assert "3 gaps: each partition" in ended.err
    assert "up to 7 records" in ended.err


def test_the_ends_are_where_a_pipeline_continues(cluster: InMemoryCluster, run: Run, answer: Audit) -> None:
    produce(cluster, 0, 8)
    produce(cluster, 1, 4)
    asked = answer(
        [*rows(0, 5, batch="a"), *rows(3, batch="b"), *rows(2, partition=1, batch="b")], "--batch kafka_batch"
    )
    ended = run("audit", asked, "--ends", "--output", "json")
    assert ended.json == {"offsets": {"orders": {"0": 6, "1": 3}}, "start": {"orders-0": 6, "orders-1": 3}}
    assert (
        'start=SpecificOffsets({"orders": {"0": 6, "1": 3}}, otherwise="earliest")' in run("audit", asked, "--ends").out
    )
    batches = run("audit", asked, *KAFKA, "--output", "json", status=1).json["batches"]
    assert [(b["batch"], b["partition"], b["start"], b["end"], b["rows"]) for b in batches] == [
        ("a", "orders-0", 0, 6, 2), ("b", "orders-0", 3, 4, 1), ("b", "orders-1", 2, 3, 1)]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("audit", "What to audit?"),
        ("audit orders --table lake", "What to audit?"),
        ("audit --table lake --since 2026-11-20", "--since needs --day"),
        ("audit --table lake --day t.ts --since yesterday", "'yesterday' does not match the format '%Y-%m-%d'"),
        ("audit @/no/such/file", "@FILE names the file '/no/such/file'"),
    ],
)
def test_a_call_that_cannot_be_answered_says_why(run: Run, words: str, message: str) -> None:
    assert message in run(words, status=2).err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topic,start_offset\norders,1\n", "has no column end_offset, kafka_partition, times"),
        (
            "topic,kafka_partition,start_offset,end_offset,times\norders,0,5,x,1\n",
            "has 'x', which is not a whole number",
        ),
        ("topic,kafka_partition,start_offset,end_offset,times\norders,0,5,4,1\n", "no run of offsets: 5 to 4, 1 times"),
        ("[{", "Expecting"),
    ],
)
def test_an_answer_that_is_none_is_refused(run: Run, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "answer").write_text(text)
    assert message in run("audit", f"@{tmp_path / 'answer'}", status=2).err


def test_other_programs_write_the_answer_with_tabs_or_capitals(run: Run, tmp_path: Path) -> None:
    """As ``spark-sql`` and Snowflake do."""
    lines = "TOPIC\tKAFKA_PARTITION\tSTART_OFFSET\tEND_OFFSET\tTIMES\norders\t0\t5\t9\t1\nNULL\t0\tNULL\tNULL\t2\n"
    (tmp_path / "answer").write_text(lines)
    assert "4 offsets in 1 partition" in run("audit", f"@{tmp_path / 'answer'}").out
