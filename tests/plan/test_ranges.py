"""An offset against its log: Kafka's and Flink's rules, one row each."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.errors import DataLoss, EndBeforeStart, NoCommittedOffset
from airflow_kafka_offsets.kafka_values import CommittedOffset, PartitionSnapshot, TopicPartition
from airflow_kafka_offsets.offsets import GroupOffsets, SpecificOffsets, Timestamp
from airflow_kafka_offsets.plan.body import Offset
from airflow_kafka_offsets.plan.ranges import Facts, end_offset, for_each, startup_offset, validate_start
from airflow_kafka_offsets.request import Request, RunContext, parse_request

TP = TopicPartition("t", 0)
LOG = PartitionSnapshot(10, 20, 22, leader_epoch=5)  # two offsets are above the last stable offset
NOW = 1_800_000_000_000


def want(**parameters: Any) -> Request:
    defaults = {"topics": ["t"], "pipeline_id": "p", "group_id": "g"}
    return parse_request({**defaults, **parameters}, RunContext(NOW), {})


def facts(**more: Any) -> Facts:
    return Facts({TP: LOG}, {"t": "id"}, **more)


@pytest.mark.parametrize(
    ("start", "more", "offset", "leader_epoch"),
    [
        ("earliest", {}, 10, 5),
        ("latest", {}, 20, 5),
        (Timestamp(5), {"at_start": {TP: 14}}, 14, 5),
        (Timestamp(5), {}, 20, 5),  # B6: no record is as late
        (Timestamp(5), {"at_start": {TP: 21}}, 20, 5),  # produced after the end was asked for
        (SpecificOffsets({"t": {"0": 12}}), {}, 12, None),
        (SpecificOffsets({"t": {"1": 12}}), {"committed": {TP: CommittedOffset(15, 3)}}, 15, 3),  # C2
        (SpecificOffsets({"t": {"1": 12}}, "latest"), {"committed": {}}, 20, 5),
        (GroupOffsets(), {"committed": {TP: CommittedOffset(17, 4)}}, 17, 4),  # D1
        (GroupOffsets(otherwise="earliest"), {"committed": {}}, 10, 5),  # D5
    ],
)
def test_a_startup_mode_gives_the_first_offset(
    start: Any, more: dict[str, Any], offset: int, leader_epoch: int | None
) -> None:
    assert startup_offset(want(start=start), facts(**more), TP) == Offset(offset, leader_epoch, "id")


def test_no_default_skips_records_in_silence() -> None:
    with pytest.raises(NoCommittedOffset, match="'earliest' reads up to 10 records, 'latest' skips them"):
        startup_offset(want(start=GroupOffsets()), facts(committed={}), TP)


@pytest.mark.parametrize(
    ("at", "policy", "more", "start", "decisions"),
    [
        (Offset(10), "fail", {}, 10, []),
        (Offset(22), "fail", {}, 22, []),  # above the last stable offset, not above the high watermark (K7)
        (Offset(7), "advance", {}, 10, [("lost", 7, 10)]),  # C7
        (Offset(7), "reset", {}, 20, [("lost", 7, 10), ("skipped", 10, 20)]),
        (Offset(30), "advance", {}, 10, [("again", 10, 30)]),  # C6: it may be another log
        (Offset(30), "reset", {}, 20, [("again", 20, 30)]),
        (Offset(30, 4), "advance", {}, 22, [("again", 22, 30)]),
        (Offset(30, 4), "reset", {}, 22, [("again", 22, 30)]),  # E4: with an epoch it is never reset
        (Offset(18, 4), "advance", {"truncated": {TP: 13}}, 13, [("again", 13, 18)]),  # E5
        (Offset(18, 4), "reset", {"truncated": {TP: 13}}, 13, [("again", 13, 18)]),
    ],
)
def test_an_offset_outside_of_the_log_moves_as_the_policy_says(
    at: Offset, policy: str, more: dict[str, Any], start: int, decisions: list[Any]
) -> None:
    request = want(on_data_loss=policy, start=GroupOffsets(otherwise="latest"))
    found = validate_start(request, facts(**more), TP, at)
    assert (found.start, [(d.kind, d.start, d.end) for d in found.decisions]) == (start, decisions)
    assert (found.loss is not None, found.is_refused) == (bool(decisions), False)


def test_an_epoch_above_the_leaders_is_refused_whatever_the_policy() -> None:
    found = validate_start(want(on_data_loss="advance"), facts(), TP, Offset(15, 6))
    assert found.is_refused
    assert "leader epoch 6, above the leader's 5" in str(found.loss)  # E6


@pytest.mark.parametrize(
    ("end", "more", "start", "expected"),
    [
        ("latest", {}, 12, 20),
        ("latest", {}, 21, 21),  # K7
        (Timestamp(9), {"at_end": {TP: 15}}, 12, 15),
        (Timestamp(9), {}, 12, 20),  # K3
        (Timestamp(9), {"at_end": {TP: 11}}, 12, 12),  # read already
        (SpecificOffsets({"t": {"0": 15}}), {}, 12, 15),
        (SpecificOffsets({"t": {"0": 12}}), {}, 12, 12),
        (GroupOffsets(), {"end_committed": {TP: CommittedOffset(16)}}, 12, 16),
    ],
)
def test_an_end_is_exclusive(end: Any, more: dict[str, Any], start: int, expected: int) -> None:
    assert end_offset(want(end=end, start="earliest"), facts(**more), TP, start) == expected


@pytest.mark.parametrize(
    ("end", "error", "message"),
    [
        (SpecificOffsets({"t": {"0": 25}}), EndBeforeStart, "25 is beyond the end of the log, 20"),  # K8
        (SpecificOffsets({"t": {"0": 11}}), EndBeforeStart, "11 is below start offset 12"),  # K9
        (SpecificOffsets({"t": {"1": 11}}), EndBeforeStart, "does not name it"),  # K5
        (GroupOffsets(), NoCommittedOffset, "group 'g', which has none"),  # K4
    ],
)
def test_an_end_that_a_batch_cannot_have_is_refused(end: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        end_offset(want(end=end, start="earliest"), facts(end_committed={}), TP, 12)


def test_a_refusal_names_every_bad_partition_and_each_remedy_once() -> None:
    partitions = [TopicPartition("t", n) for n in range(3)]

    def refuse(tp: TopicPartition) -> int:
        if tp.partition == 1:
            return 5
        raise DataLoss([f"{tp}: gone"], "Restore it.")

    with pytest.raises(DataLoss) as raised:
        for_each(partitions, refuse)
    assert raised.value.partitions == ["t-0: gone", "t-2: gone"]
    assert raised.value.remedy == "Restore it."
