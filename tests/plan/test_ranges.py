"""docs/conformance.md's rules A-F, J and K as tables: request and facts in, one start and one end out, or a refusal.

Each row names the rule that it holds. The log of most rows is ``LOG``: offsets 0 to 3 are deleted, 4 to 9 are there.
"""

import pytest

from airflow_kafka_offsets.errors import DataLoss, EndBeforeStart, NoCommittedOffset, RefusedError
from airflow_kafka_offsets.kafka_values import CommittedOffset
from airflow_kafka_offsets.plan.ranges import Facts, Known, resolve
from airflow_kafka_offsets.request.modes import (
    AtTimestamp,
    SpecificOffsets,
    mode_name,
)
from tests.builders import NOW, facts, request, snap, tp

LOG = snap(4, 10)
NEVER_WRITTEN = snap(0, 0)
OPEN_TRANSACTION = snap(4, 8, high_watermark=10)  # under read_committed: offsets 8 and 9 are undecided
EARLIEST, LATEST, GROUP, SINCE = "earliest-offset", "latest-offset", "group-offsets", AtTimestamp(NOW)
LATEST_RESET_SKIPS_ALL = 6


def specific(**partitions):
    return SpecificOffsets({tp(int(name[1:])): offset for name, offset in partitions.items()})


def until(**partitions):
    return SpecificOffsets({tp(int(name[1:])): offset for name, offset in partitions.items()})


def at(offset, epoch):
    return CommittedOffset(offset, epoch)


# ── where a partition starts ──────────────────────────────────────────────────────────────────────────────────────────

STARTS = [
    # A and J: the five modes.
    pytest.param(
        request(EARLIEST), facts(LOG, committed={0: 7}), (4, "earliest → log start", 0, 0),
        id="A2 earliest is the log start, not 0, and ignores commits",
    ),
    pytest.param(
        request(LATEST), facts(LOG, committed={0: 7}), (10, "latest → end", 0, 6),
        id="A3 latest is the end, and what it jumps over is counted",
    ),
    pytest.param(
        request(LATEST, isolation_level="read_committed"), facts(OPEN_TRANSACTION), (8, "latest → end", 0, 4),
        id="A3 0.5 latest under read_committed is the last stable offset: an open transaction is not skipped",
    ),
    pytest.param(
        request(specific(p0=5)), facts(LOG, committed={0: 7}), (5, "specific offset", 0, 0),
        id="A6 a specific offset is the next record to read",
    ),
    pytest.param(
        request(EARLIEST), facts(NEVER_WRITTEN), (0, "earliest → log start", 0, 0), id="A10 never written: 0"
    ),
    pytest.param(
        request(EARLIEST), facts(snap(10, 10)), (10, "earliest → log start", 0, 0), id="A11 emptied by deletion"
    ),
    # B: timestamps.
    pytest.param(
        request(SINCE), facts(LOG, committed={0: 9}, start_times={0: 6}), (6, "timestamp 2026-11-20T10:00Z", 0, 0),
        id="B4 B5 the look-up's offset, whatever is committed",
    ),
    pytest.param(
        request(SINCE), facts(LOG), (10, "no record at or after 2026-11-20T10:00Z → end", 0, 0),
        id="B6 no record that late: the end",
    ),
    pytest.param(
        request(SINCE), facts(NEVER_WRITTEN), (0, "no record at or after 2026-11-20T10:00Z → end", 0, 0),
        id="B6 an empty partition: 0",
    ),
    pytest.param(
        request(SINCE), facts(LOG, start_times={0: 12}), (10, "timestamp 2026-11-20T10:00Z", 0, 0),
        id="B6 a record produced after the end was asked for lies in the next run: not past the end",
    ),
    pytest.param(
        request(SINCE), facts(LOG, start_times={0: 4}), (4, "timestamp 2026-11-20T10:00Z", 0, 0),
        id="B8 a time in deleted records is the log start, and no data loss",
    ),
    pytest.param(
        request(SINCE, isolation_level="read_committed"), facts(OPEN_TRANSACTION),
        (8, "no record at or after 2026-11-20T10:00Z → end", 0, 0),
        id="B12 a match in an open transaction is none: the last stable offset",
    ),
    pytest.param(
        request(SINCE), facts(LOG, start_times={0: 9}), (9, "timestamp 2026-11-20T10:00Z", 0, 0),
        id="B13 a match that is a control record is a start like any other",
    ),
    # C: specific offsets.
    pytest.param(
        request(specific(p0=5, p7=1)), facts(LOG), (5, "specific offset", 0, 0), id="C1 an offset of no partition here"
    ),
    pytest.param(
        request(specific(p1=5)), facts(LOG, committed={0: 7}), (7, "committed", 0, 0), id="C2 not named: its commit"
    ),
    pytest.param(
        request(specific(p1=5), auto_offset_reset="latest"), facts(LOG, committed={}), (10, "no commit → latest", 0, 6),
        id="C2 not named, no commit: the reset",
    ),
    pytest.param(
        request(specific(p0=5), auto_offset_reset="none"), facts(LOG, committed={}), (5, "specific offset", 0, 0),
        id="C4 0.3 reset none does not fail a partition whose offset is given",
    ),
    pytest.param(
        request(specific(p1=5), auto_offset_reset="none"), facts(LOG, committed={0: 7}), (7, "committed", 0, 0),
        id="C4 0.4 reset none does not fail a partition that has a commit",
    ),
    pytest.param(
        request(specific(p0=5), group_id=None), facts(LOG), (5, "specific offset", 0, 0),
        id="C5 no group is needed where every offset is given",
    ),
    pytest.param(
        request(specific(p0=10)), facts(LOG), (10, "specific offset", 0, 0), id="C8 the end is a legal start"
    ),
    pytest.param(
        request(specific(p0=0)), facts(NEVER_WRITTEN), (0, "specific offset", 0, 0), id="C9 0 of an empty partition"
    ),
    pytest.param(request(specific()), facts(LOG, committed={0: 7}), (7, "committed", 0, 0), id="C14 an empty map"),
    # D: group offsets.
    pytest.param(request(), facts(LOG, committed={0: 7}), (7, "committed", 0, 0), id="D1 a commit is the next to read"),
    pytest.param(request(), facts(LOG, committed={0: 4}), (4, "committed", 0, 0), id="D1 a commit at the log start"),
    pytest.param(request(), facts(LOG, committed={0: 10}), (10, "committed", 0, 0), id="D2 a commit at the end"),
    pytest.param(
        request(auto_offset_reset="latest"), facts(NEVER_WRITTEN, committed={0: 0}), (0, "committed", 0, 0),
        id="D3 a commit of 0 is a commit",
    ),
    pytest.param(
        request(auto_offset_reset=None), facts(LOG, committed={0: 7}), (7, "committed", 0, 0),
        id="D4 A1 where there is a commit nobody needs to have chosen a reset",
    ),
    pytest.param(
        request(auto_offset_reset="earliest"), facts(LOG, committed={}), (4, "no commit → earliest", 0, 0),
        id="D5 no commit, reset earliest",
    ),
    pytest.param(
        request(auto_offset_reset="latest"), facts(LOG, committed={}), (10, "no commit → latest", 0, 6),
        id="D5 D12 no commit, reset latest: what is jumped over is skipped, not lost",
    ),
    # F: a position wins.
    *[
        pytest.param(
            request(mode), facts(LOG, committed={0: 9}, positions={0: 6}, start_times={0: 8}), (6, "position", 0, 0),
            id=f"F1 a position beats startup mode {mode_name(mode)} and the commit",
        )
        for mode in (EARLIEST, LATEST, GROUP, SINCE, specific(p0=5))
    ],
    pytest.param(
        request(auto_offset_reset="latest"), facts(LOG, committed={}, positions={0: 6}), (6, "position", 0, 0),
        id="D12 with a position, a commit that expired resets nothing",
    ),
    pytest.param(
        request(auto_offset_reset="none"), facts(LOG, committed={}, positions={0: 6}), (6, "position", 0, 0),
        id="D12 with a position, a commit that expired fails nothing",
    ),
    pytest.param(
        request(LATEST), facts(snap(0, 10), positions={1: 6}), (0, "new partition → log start", 0, 0),
        id="F3 a new partition is read from its beginning, even in mode latest",
    ),
    pytest.param(
        request(), facts(LOG, committed={0: 9}, positions={1: 6}), (4, "new partition → log start, 4 lost", 4, 0),
        id="F3 what of a new partition is deleted already was never read: lost",
    ),
    pytest.param(
        request(LATEST), facts(LOG, positions={}), (4, "new topic → log start", 0, 0),
        id="F4 F9 an empty checkpoint is one: the log start, and of a topic new to it nothing is lost",
    ),
    pytest.param(
        request(LATEST), facts(LOG, positions=None), (10, "latest → end", 0, 6),
        id="F9 no checkpoint is none: the mode decides",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "cluster", "expected"), STARTS)
def test_a_partition_starts_where_the_rule_says(asked, cluster, expected):
    [partition] = resolve(asked, cluster)
    assert (partition.start_offset, partition.start_reason, partition.lost, partition.skipped) == expected


# ── an offset outside of the log ──────────────────────────────────────────────────────────────────────────────────────

OUT_OF_RANGE = [
    # The columns: the request's policies, the known offset, and start, reason, lost, skipped.
    pytest.param(
        {"data_loss": "advance"}, 1, (4, "out of range → log start, 3 lost", 3, 0),
        id="C7 E7 F7 below the log start, advance",
    ),
    pytest.param(
        {"data_loss": "reset", "auto_offset_reset": "earliest"}, 1,
        (4, "out of range → earliest, 3 lost", 3, 0), id="C7 below the log start, reset, earliest",
    ),
    pytest.param(
        {"data_loss": "reset", "auto_offset_reset": "latest"}, 1,
        (10, "out of range → latest, 3 lost", 3, LATEST_RESET_SKIPS_ALL),
        id="C7 below the log start, reset, latest: skips all that is left, and says how much",
    ),
    pytest.param(
        {"data_loss": "advance"}, 15, (4, "beyond the end (15 > 10) → log start", 0, 0),
        id="C6 E3 beyond the end, advance",
    ),
    pytest.param(
        {"data_loss": "reset", "auto_offset_reset": "earliest"}, 15,
        (4, "beyond the end (15 > 10) → earliest", 0, 0), id="C6 E3 beyond the end, reset, earliest",
    ),
    pytest.param(
        {"data_loss": "reset", "auto_offset_reset": "latest"}, 15,
        (10, "beyond the end (15 > 10) → latest", 0, LATEST_RESET_SKIPS_ALL),
        id="C6 E3 beyond the end, reset, latest",
    ),
]  # fmt: skip
KNOWN_AS = {
    "a specific offset": lambda offset: (specific(p0=offset), {"committed": {}}),
    "a commit": lambda offset: (GROUP, {"committed": {0: offset}}),
    "a position": lambda offset: (LATEST, {"committed": {0: 6}, "positions": {0: offset}}),
}


@pytest.mark.parametrize("known_as", KNOWN_AS)
@pytest.mark.parametrize(("policies", "offset", "expected"), OUT_OF_RANGE)
def test_an_offset_outside_of_the_log_goes_where_the_user_said(known_as, policies, offset, expected):
    mode, known = KNOWN_AS[known_as](offset)
    [p] = resolve(request(mode, **policies), facts(LOG, **known))
    assert (p.start_offset, p.start_reason, p.lost, p.skipped) == expected
    assert p.position == offset, "what it went on from stays known"


@pytest.mark.parametrize("known_as", KNOWN_AS)
@pytest.mark.parametrize(
    ("offset", "words"),
    [
        pytest.param(1, ("start offset 1", "log start offset 4", "3 offsets are gone"), id="C7 E1 E7 F7 below"),
        pytest.param(11, ("start offset 11", "beyond the end of the log, 10"), id="C6 E3 one past the end"),
    ],
)
def test_an_offset_outside_of_the_log_fails_by_default(known_as, offset, words):
    mode, known = KNOWN_AS[known_as](offset)
    with pytest.raises(DataLoss) as refused:
        resolve(request(mode), facts(LOG, **known))
    [line] = refused.value.partitions
    assert line.startswith("orders[0]: ")
    assert all(word in line for word in words), line
    assert "data_loss" in refused.value.remedy


# What a commit's epoch shows (KIP-320); a position has the epoch of the commit that it was read from.
WITH_EPOCH = {
    "a commit": lambda offset, epoch: {"committed": {0: at(offset, epoch)}},
    "a position": lambda offset, epoch: {"positions": {0: Known(offset, "position", epoch)}},
}


@pytest.mark.parametrize("known_as", WITH_EPOCH)
@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_E4_E5_an_offset_past_the_end_that_carries_an_epoch_goes_to_the_end_and_not_to_the_reset(known_as, reset):
    cluster = facts(snap(4, 10, epoch=3), **WITH_EPOCH[known_as](15, 2))
    [p] = resolve(request(data_loss="reset", auto_offset_reset=reset), cluster)
    assert (p.start_offset, p.start_reason) == (10, "beyond the end (15 > 10), leader epoch known → end")
    assert (p.lost, p.skipped) == (0, 0)
    assert (p.position, p.position_epoch) == (15, 2)


@pytest.mark.parametrize("known_as", WITH_EPOCH)
def test_E4_with_reset_none_a_truncated_log_is_an_error_even_with_an_epoch(known_as):
    """Kafka's LogTruncationException: without a reset policy the consumer does not move by itself."""
    cluster = facts(snap(4, 10, epoch=3), **WITH_EPOCH[known_as](15, 2))
    with pytest.raises(DataLoss) as refused:
        resolve(request(data_loss="reset", auto_offset_reset="none"), cluster)
    [line] = refused.value.partitions
    assert line.startswith("orders[0]: start offset 15 ")
    assert "beyond the end of the log, 10" in line
    assert line.endswith("and auto_offset_reset is none")
    assert "Set auto_offset_reset to earliest or latest" in refused.value.remedy


@pytest.mark.parametrize("known_as", WITH_EPOCH)
def test_E7_an_epoch_does_not_save_an_offset_below_the_log_start_from_the_reset(known_as):
    cluster = facts(snap(4, 10, epoch=3), **WITH_EPOCH[known_as](1, 2))
    [p] = resolve(request(data_loss="reset", auto_offset_reset="latest"), cluster)
    assert (p.start_offset, p.lost, p.skipped) == (10, 3, 6)


@pytest.mark.parametrize("known_as", WITH_EPOCH)
@pytest.mark.parametrize("data_loss", ["fail", "reset", "advance"])
@pytest.mark.parametrize("offset", [7, 15])
def test_E6_an_epoch_later_than_the_leaders_is_an_error_of_its_own_under_every_policy(known_as, data_loss, offset):
    """A consumer would wait for ever for such a leader; nothing says that the offset is this log's."""
    cluster = facts(snap(4, 10, epoch=3), **WITH_EPOCH[known_as](offset, 4))
    with pytest.raises(DataLoss, match=r"orders\[0\].*leader epoch 4, later than the leader's 3"):
        resolve(request(data_loss=data_loss, auto_offset_reset="latest"), cluster)


@pytest.mark.parametrize(
    ("leader", "commit"),
    [pytest.param(3, 3, id="equal"), pytest.param(3, 0, id="older"), pytest.param(None, 9, id="the leader's unknown"),
     pytest.param(3, None, id="E8 none in the commit")],
)  # fmt: skip
def test_E6_any_other_epoch_is_no_error(leader, commit):
    [p] = resolve(request(), facts(snap(4, 10, epoch=leader), committed={0: at(7, commit)}))
    assert (p.start_offset, p.leader_epoch) == (7, leader)


# ── where a partition ends ────────────────────────────────────────────────────────────────────────────────────────────

UNTIL = AtTimestamp(NOW)
COMMITTED = {"isolation_level": "read_committed"}
ENDS = [
    pytest.param(request(), facts(LOG, committed={0: 5}), (5, 10, "latest"), id="K2 the end of the log, now"),
    pytest.param(
        request(EARLIEST, **COMMITTED), facts(OPEN_TRANSACTION), (4, 8, "latest"),
        id="J2 J5 under read_committed the end is the last stable offset",
    ),
    pytest.param(
        request(**COMMITTED), facts(OPEN_TRANSACTION, committed={0: 9}),
        (9, 9, "start is past the last stable offset 8 → nothing to read"),
        id="J6 K7 a position between last stable offset and high watermark is empty and no data loss",
    ),
    pytest.param(
        request(**COMMITTED), facts(OPEN_TRANSACTION, positions={0: 10}),
        (10, 10, "start is past the last stable offset 8 → nothing to read"), id="J6 K7 one at the high watermark"
    ),
    pytest.param(request(), facts(LOG, committed={0: 10}), (10, 10, "latest"), id="K7 start = end is an empty range"),
    pytest.param(
        request(bounded=UNTIL), facts(LOG, committed={0: 5}, end_times={0: 8}), (5, 8, "timestamp 2026-11-20T10:00Z"),
        id="K3 the first offset at or after the time is not read",
    ),
    pytest.param(
        request(bounded=UNTIL), facts(LOG, committed={0: 5}), (5, 10, "no record at or after 2026-11-20T10:00Z → end"),
        id="K3 no record that late: what is there",
    ),
    pytest.param(
        request(bounded=UNTIL), facts(LOG, committed={0: 5}, end_times={0: 12}), (5, 10, "timestamp 2026-11-20T10:00Z"),
        id="K3 B6 never past the end that was asked first",
    ),
    pytest.param(
        request(AtTimestamp(0), UNTIL), facts(LOG, start_times={0: 11}, end_times={0: 12}),
        (11, 12, "timestamp 2026-11-20T10:00Z"), id="K3 B6 but a window is where its times were found",
    ),
    pytest.param(
        request(bounded=UNTIL, **COMMITTED), facts(OPEN_TRANSACTION, committed={0: 5}, end_times={0: 9}),
        (5, 8, "timestamp 2026-11-20T10:00Z"), id="J2 K3 nor past the last stable offset",
    ),
    pytest.param(
        request(bounded=UNTIL), facts(LOG, committed={0: 9}, end_times={0: 6}),
        (9, 9, "timestamp 2026-11-20T10:00Z is 6: already read"), id="K7 an end by time below the position",
    ),
    pytest.param(
        request(EARLIEST, "group-offsets"), facts(LOG, committed={0: 7}), (4, 7, "committed"),
        id="K4 the group's commit is not read",
    ),
    pytest.param(request(EARLIEST, until(p0=5)), facts(LOG), (4, 5, "specific offset"), id="K1 an end is exclusive"),
    pytest.param(request(EARLIEST, until(p0=10)), facts(LOG), (4, 10, "specific offset"), id="K8 up to the end"),
    pytest.param(
        request(EARLIEST, until(p0=0)), facts(NEVER_WRITTEN), (0, 0, "specific offset"), id="K10 0 is an end"
    ),
    pytest.param(request(EARLIEST, until(p0=4)), facts(LOG), (4, 4, "specific offset"), id="K7 a specific empty range"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "cluster", "expected"), ENDS)
def test_a_partition_ends_where_the_rule_says(asked, cluster, expected):
    [partition] = resolve(asked, cluster)
    assert (partition.start_offset, partition.end_offset, partition.end_reason) == expected


# ── refusals name every bad partition, and no good one ────────────────────────────────────────────────────────────────

FOUR = (LOG, LOG, LOG, LOG)
REFUSALS = [
    # The columns: request, facts, error, and for each bad partition the words of its line.
    pytest.param(
        request(), facts(*FOUR, committed={0: 3, 1: 7, 2: 0, 3: 99}), DataLoss,
        {0: ("3", "4", "1 offsets are gone"), 2: ("0", "4", "4 offsets are gone"), 3: ("99", "10")},
        id="C6 C7 E1 every commit outside of the log",
    ),
    pytest.param(
        request(LATEST), facts(*FOUR, positions={0: 3, 1: 7, 2: 10, 3: 99}), DataLoss,
        {0: ("3", "4"), 3: ("99", "10")}, id="F7 every position outside of the log",
    ),
    pytest.param(
        request(auto_offset_reset="none"), facts(*FOUR, committed={1: 7}), NoCommittedOffset,
        {0: ("no commit", "'none'"), 2: ("no commit", "'none'"), 3: ("no commit", "'none'")},
        id="D5 no commit and reset none",
    ),
    pytest.param(
        request(auto_offset_reset=None), facts(*FOUR, committed={1: 7}), NoCommittedOffset,
        dict.fromkeys(
            (0, 2, 3), ("'g' has no commit here", "From earliest, up to 6 records are read", "latest, they are skipped")
        ),
        id="A1 D4 no commit and nobody has said what that means: both answers, and what each does here",
    ),
    pytest.param(
        request(specific(p1=5), auto_offset_reset=None), facts(*FOUR, committed={2: 7}), NoCommittedOffset,
        {0: ("no commit",), 3: ("no commit",)}, id="A1 C3 not named, no commit and nobody has said",
    ),
    pytest.param(
        request(data_loss="reset", auto_offset_reset=None), facts(*FOUR, committed={0: 1, 1: 7, 2: 15, 3: 10}),
        DataLoss, {0: ("start offset 1", "is not set"), 2: ("start offset 15", "is not set")},
        id="A1 C7 out of range, reset, and nobody has said to where",
    ),
    pytest.param(
        request(specific(p1=5), auto_offset_reset="none"), facts(*FOUR, committed={2: 7}), NoCommittedOffset,
        {0: ("no commit",), 3: ("no commit",)}, id="C3 not named, no commit and reset none",
    ),
    pytest.param(
        request(specific(p1=5), group_id=None), facts(*FOUR), NoCommittedOffset,
        {0: ("no group_id",), 2: ("no group_id",), 3: ("no group_id",)}, id="C5 not named and no group",
    ),
    pytest.param(
        request(data_loss="reset", auto_offset_reset="none"), facts(*FOUR, committed={0: 1, 1: 7, 2: 15, 3: 10}),
        DataLoss, {0: ("start offset 1", "4"), 2: ("start offset 15", "10")},
        id="E2 C6 C7 out of range and reset none: partition, offset and range",
    ),
    pytest.param(
        request(EARLIEST, "group-offsets"), facts(*FOUR, committed={1: 7}), NoCommittedOffset,
        {0: ("bounded_mode='group-offsets'", "'g'"), 2: ("'g'",), 3: ("'g'",)}, id="K4 no commit to end at",
    ),
    pytest.param(
        request(EARLIEST, "group-offsets"), facts(*FOUR, committed={0: 11, 1: 7, 2: 3, 3: 10}), EndBeforeStart,
        {0: ("11", "10"), 2: ("3", "4")}, id="K4 K8 K9 a commit that cannot be an end",
    ),
    pytest.param(
        request(EARLIEST, until(p1=7, p3=10)), facts(*FOUR), EndBeforeStart,
        {0: ("bounded_offsets does not name it",), 2: ("bounded_offsets does not name it",)}, id="K5 ends not named",
    ),
    pytest.param(
        request(EARLIEST, until(p0=11, p1=10, p2=99, p3=4)), facts(*FOUR), EndBeforeStart,
        {0: ("11", "10"), 2: ("99", "10")}, id="K8 ends beyond the log",
    ),
    pytest.param(
        request(EARLIEST, until(p0=9, p1=8, p2=8, p3=8), **COMMITTED), facts(*[OPEN_TRANSACTION] * 4), EndBeforeStart,
        {0: ("end offset 9", "end of the log, 8")}, id="J2 K8 beyond the last stable offset",
    ),
    pytest.param(
        request(EARLIEST, until(p0=3, p1=4, p2=0, p3=5)), facts(*FOUR), EndBeforeStart,
        {0: ("end offset 3", "start offset 4"), 2: ("end offset 0", "start offset 4")}, id="K9 ends below log start",
    ),
    pytest.param(
        request(specific(p0=8, p1=5, p2=10, p3=6), until(p0=7, p1=5, p2=9, p3=6)), facts(*FOUR), EndBeforeStart,
        {0: ("end offset 7", "start offset 8"), 2: ("end offset 9", "start offset 10")}, id="K12 starts past ends",
    ),
    pytest.param(
        request(specific(p0=3), auto_offset_reset="none"), facts(*FOUR, committed={1: 7, 3: 7}), RefusedError,
        {0: ("3", "4"), 2: ("no commit",)}, id="two causes are one error with both",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "cluster", "error", "bad"), REFUSALS)
def test_a_refusal_names_every_bad_partition(asked, cluster, error, bad):
    with pytest.raises(error) as refused:
        resolve(asked, cluster)
    lines = list(refused.value.partitions)
    assert [line.split(":")[0] for line in lines] == [str(tp(number)) for number in bad], (
        "all of them, sorted, no other"
    )
    for line, words in zip(lines, bad.values(), strict=True):
        assert all(word in line for word in words), line
    assert refused.value.remedy in str(refused.value)
    assert refused.value.remedy.endswith(".")


def test_A1_latest_is_never_taken_in_silence_and_the_remedy_names_both_answers():
    """Kafka's own default for a group without a commit skips all that is there."""
    with pytest.raises(NoCommittedOffset) as refused:
        resolve(request(auto_offset_reset=None), facts(snap(0, 0), snap(5, 1005), committed={}))
    assert "up to 1000 records are read" in refused.value.partitions[1]
    for answer in ('startup_mode="earliest-offset"', '"latest-offset"', "auto_offset_reset"):
        assert answer in refused.value.remedy


def test_two_causes_give_each_remedy_once():
    with pytest.raises(RefusedError) as refused:
        resolve(request(auto_offset_reset="none"), facts(*FOUR, committed={1: 1, 2: 1}))
    remedies = refused.value.remedy.splitlines()
    assert len(remedies) == len(set(remedies)) == 2


def test_H6_partitions_are_planned_sorted_by_topic_then_partition():
    cluster = facts(*[LOG] * 11)
    shuffled = {where: cluster.snapshots[where] for where in sorted(cluster.snapshots, key=str)}
    assert [str(w) for w in shuffled][:3] == ["orders[0]", "orders[10]", "orders[1]"]
    rows = resolve(request(EARLIEST), Facts(shuffled))
    assert [p.topic_partition.partition for p in rows] == list(range(11))


# ── windows, and what the plan remembers ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(request(SINCE, UNTIL), (5, 8), id="two times"),
        pytest.param(request(specific(p0=5), until(p0=8)), (5, 8), id="two offsets by hand"),
    ],
)
def test_a_window_is_a_function_of_the_window_alone(asked, expected):
    """It neither reads position nor group, nor remembers what the group holds."""
    cluster = facts(LOG, committed={0: 7}, positions={0: 9}, start_times={0: 5}, end_times={0: 8})
    [p] = resolve(asked, cluster)
    assert (p.start_offset, p.end_offset) == expected
    assert p.position == p.start_offset


def test_on_a_schedule_two_offsets_are_no_window_and_the_position_counts():
    """Else the same offsets would be read again by each run."""
    asked = request(specific(p0=5), until(p0=8), run_type="scheduled")
    [p] = resolve(asked, facts(LOG, committed={0: 8}, positions={0: 8}))
    assert (p.start_offset, p.end_offset, p.start_reason) == (8, 8, "position")


@pytest.mark.parametrize("mode", [EARLIEST, LATEST, GROUP, SINCE, specific(p0=5)], ids=mode_name)
def test_the_plan_remembers_what_the_group_held_whatever_the_mode(mode):
    asked = request(mode, auto_offset_reset="earliest")
    [with_commit], [without] = (resolve(asked, facts(LOG, committed=held)) for held in ({0: 7}, {}))
    assert (with_commit.committed_offset, without.committed_offset) == (7, None)
    assert with_commit.log_start_offset == 4


@pytest.mark.parametrize(
    ("known", "epoch"), [({"committed": {0: at(7, 2)}}, 2), ({"positions": {0: Known(7, "position", 1)}}, 1)]
)
def test_the_plan_remembers_what_it_went_on_from_and_its_epoch(known, epoch):
    [p] = resolve(request(), facts(snap(4, 10, epoch=3), **known))
    assert (p.position, p.position_epoch, p.leader_epoch) == (7, epoch, 3)


def test_a_start_that_came_of_no_known_offset_is_the_position_itself():
    [p] = resolve(request(EARLIEST), facts(LOG))
    assert (p.position, p.position_epoch) == (4, None)


# ── how a range joins the position ────────────────────────────────────────────────────────────────────────────────────

JOINED = [
    # The columns: the request's policies, the position's offset, then start, lost, skipped and continuity.
    pytest.param({}, 6, (6, 0, 0, "contiguous"), id="F1 where the run before ended"),
    pytest.param({}, 10, (10, 0, 0, "contiguous"), id="at the end of the log"),
    pytest.param({"data_loss": "advance"}, 1, (4, 3, 0, "gap"), id="E1 F7 records are gone"),
    pytest.param(
        {"data_loss": "reset", "auto_offset_reset": "latest"}, 1, (10, 3, 6, "gap"),
        id="C7 records are gone, and a reset jumps over the rest",
    ),
    pytest.param({"data_loss": "advance"}, 15, (4, 0, 0, "truncated"), id="E3 the log was cut, and is read again"),
    pytest.param(
        {"data_loss": "reset", "auto_offset_reset": "latest"}, 15, (10, 0, 6, "truncated"),
        id="E3 the log was cut, and the reset is latest",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("policies", "kept", "expected"), JOINED)
def test_how_a_range_joins_the_position_and_what_lies_between(policies, kept, expected):
    [p] = resolve(request(**policies), facts(LOG, positions={0: kept}))
    assert (p.start_offset, p.lost, p.skipped, p.continuity) == expected


@pytest.mark.parametrize(
    ("adopted", "expected"),
    [
        pytest.param(9, (9, 0, 3, "gap"), id="forward: what it jumps over is skipped"),
        pytest.param(5, (5, 0, 0, "overlap"), id="back: read again"),
        pytest.param(6, (6, 0, 0, "contiguous"), id="to the same place"),
    ],
)
def test_an_adopted_group_is_counted_from_the_position_that_it_replaces(adopted, expected):
    cluster = facts(LOG, positions={0: Known(adopted, "group moved → adopted")}, saved={0: 6})
    [p] = resolve(request(), cluster)
    assert (p.start_offset, p.lost, p.skipped, p.continuity) == expected


@pytest.mark.parametrize(
    ("startup", "kept", "expected"),
    [
        pytest.param(EARLIEST, 7, (4, 0, 0, "overlap"), id="restart earliest: read again"),
        pytest.param(LATEST, 7, (10, 0, 3, "gap"), id="restart latest: only what the position had not read is skipped"),
        pytest.param(LATEST, 1, (10, 3, 6, "gap"), id="restart latest: some of that was gone already"),
        pytest.param(LATEST, 12, (10, 0, 6, "truncated"), id="restart latest on a log that was cut"),
        pytest.param(GROUP, 5, (7, 0, 2, "gap"), id="restart from the group's commit"),
    ],
)
def test_a_restart_is_counted_from_the_position_that_it_leaves(startup, kept, expected):
    """``positions`` is None, so the startup mode decides; ``saved`` is what the pipeline had."""
    [p] = resolve(request(startup), facts(LOG, committed={0: 7}, saved={0: kept}))
    assert (p.start_offset, p.lost, p.skipped, p.continuity) == expected


def test_a_position_above_the_last_stable_offset_is_no_cut_log():
    """A commit of read_uncommitted, or a transaction that began since: nothing is lost, and nothing read twice."""
    [p] = resolve(request(**COMMITTED), facts(OPEN_TRANSACTION, positions={0: 9}))
    assert (p.start_offset, p.continuity, p.lost, p.skipped) == (9, "contiguous", 0, 0)


def test_a_partition_joins_nothing_where_there_is_no_position_and_is_new_where_there_is_one():
    first_run, later_run = facts(LOG), facts(LOG, positions={1: 3})
    assert [p.continuity for p in resolve(request(EARLIEST), first_run)] == [None]
    assert [p.continuity for p in resolve(request(EARLIEST), later_run)] == ["new"]


def test_E6_a_topic_that_was_made_anew_starts_at_its_log_start_and_says_so():
    cluster = facts(LOG, snap(0, 3), positions={}, recreated=["orders"])
    rows = resolve(request(LATEST), cluster)
    assert [(p.start_offset, p.start_reason, p.continuity, p.lost) for p in rows] == [
        (4, "topic re-created → log start", "re-created", 0),
        (0, "topic re-created → log start", "re-created", 0),
    ]
