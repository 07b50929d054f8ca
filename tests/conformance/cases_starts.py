"""Rules A to D: where a partition starts that no earlier run of the pipeline has read."""

from __future__ import annotations

from airflow_kafka_offsets.errors import DataLoss, InvalidRequest, NoCommittedOffset
from airflow_kafka_offsets.offsets.model import TopicPartition
from tests.conformance.situations import (
    AT,
    COMMITTED,
    EARLIEST,
    LATEST,
    NOW,
    Case,
    Refused,
    Start,
    T,
    aborted_transaction,
    appended_by_the_broker,
    at,
    committed_transaction,
    compacted,
    emptied,
    four_logs,
    log_4_to_10,
    never_written,
    open_transaction,
    out_of_order,
    since,
    specific,
    without_timestamps,
)

CLEANER = "a broker compacts when its cleaner gets to it; waiting for it would cost the suite half a minute"
KEPT = "committed"
NO_MATCH = f"no record at or after {AT}:20Z → end"
RESET = {"on_data_loss": "reset"}


def reset(strategy: str) -> dict[str, str]:
    return {"auto_offset_reset": strategy}


MODES = (
    Case("A1 A5 D1", "no mode is group-offsets", log_4_to_10, {0: Start(7, 10, KEPT)}, commits={0: 7}),
    Case(
        "A1 D4", "no mode, no reset, no commit: latest, and the plan warns", log_4_to_10,
        {0: Start(10, 10, "no commit → latest (default)", skipped=6)},
        says=("1 of 1 partitions", "6 offsets are skipped", "auto_offset_reset"),
    ),
    Case(
        "A1 D9", "the connection's reset is a choice and no default", log_4_to_10,
        {0: Start(4, 10, "no commit → earliest")}, connection={"auto.offset.reset": "smallest"},
    ),
    Case(
        "A2", "earliest is the log start, whatever is committed", log_4_to_10,
        {0: Start(4, 10, "earliest → log start")},
        EARLIEST, commits={0: 7},
    ),
    Case(
        "A3", "latest is the end, whatever is committed", log_4_to_10, {0: Start(10, 10, "latest → end", skipped=6)},
        LATEST, commits={0: 7},
    ),
    Case(
        "A3 J2", "latest under read_committed is the last stable offset", open_transaction,
        {0: Start(3, 3, "latest → end", skipped=3)}, {**LATEST, **COMMITTED},
    ),
    Case(
        "A4 B4", "timestamp, for all partitions by one look-up", four_logs,
        {n: Start(6, 10, f"timestamp {AT}:06Z") for n in range(4)}, since(at(6)), commits={0: 9},
    ),
    Case("A6", "a specific offset is the next to read", log_4_to_10,
         {0: Start(5, 10, "specific offset")}, specific(p0=5), commits={0: 7}),
    Case("A7", "offsets with another mode", never_written, Refused(InvalidRequest, words=("specific_offsets",)),
         {**EARLIEST, "specific_offsets": {"orders": {"0": 1}}}),
    Case("A8 M2", "a timestamp is missing", never_written,
         Refused(InvalidRequest, words=("startup_timestamp is missing",)),
         {"startup_mode": "timestamp"}),
    Case("A8 M2", "offsets are missing", never_written, Refused(InvalidRequest, words=("needs specific_offsets",)),
         {"startup_mode": "specific-offsets"}),
    Case("A9 C10 C11", "-3 among the offsets", never_written,
         Refused(InvalidRequest, words=("orders[0]", "'committed'")),
         specific(p0=-3)),
    Case("A10", "earliest of a partition that was never written", never_written,
         {0: Start(0, 0, "earliest → log start")}, EARLIEST),
    Case("A11", "earliest of a partition emptied by deletion", emptied, {0: Start(10, 10, "earliest → log start")},
         EARLIEST),
)  # fmt: skip

TIMESTAMPS = (
    Case("B1", "a negative timestamp", never_written, Refused(InvalidRequest, words=("negative",)), since(-1)),
    Case("B2", "a start in the future", never_written, Refused(InvalidRequest, words=("future",)), since(NOW + 1)),
    Case("B2", "a start now", log_4_to_10, {0: Start(10, 10, "no record at or after 2024-01-02T10:00Z → end")},
         since(NOW)),
    Case("B3", "timestamp 0 is everything", log_4_to_10, {0: Start(4, 10, "timestamp 1970-01-01T00:00Z")}, since(0)),
    Case("B4", "a record of that very time", out_of_order, {0: Start(1, 5, f"timestamp {AT}:50Z")}, since(at(50))),
    Case("B5", "between two records", log_4_to_10, {0: Start(7, 10, f"timestamp {AT}:06.001Z")}, since(at(6) + 1)),
    Case("B6", "no record that late: the end", log_4_to_10, {0: Start(10, 10, NO_MATCH)}, since(at(20))),
    Case("B6", "no record at all: 0", never_written, {0: Start(0, 0, NO_MATCH)}, since(at(20))),
    Case("B7", "out of order: the lowest offset that is late enough", out_of_order,
         {0: Start(1, 5, f"timestamp {AT}:25Z")}, since(at(25))),
    Case("B7", "out of order: past earlier, later ones", out_of_order, {0: Start(3, 5, f"timestamp {AT}:55Z")},
         since(at(55))),
    Case("B8", "a time of deleted records is no data loss", log_4_to_10, {0: Start(4, 10, f"timestamp {AT}:02Z")},
         since(at(2))),
    Case("B9", "with the broker's time all records are late enough", appended_by_the_broker,
         {0: Start(0, 5, f"timestamp {AT}:20Z")}, since(at(20))),
    Case("B10", "seconds are taken, and said", log_4_to_10, {0: Start(4, 10, "timestamp 1970-01-20T17:21:43.200Z")},
         since(T // 1000), says=("in seconds?", "1970-01-20")),
    Case("B12 J2", "a match in an open transaction is none", open_transaction,
         {0: Start(3, 3, f"no record at or after {AT}:03Z → end")}, {**since(at(3)), **COMMITTED}),
    Case("B12", "read_uncommitted finds it", open_transaction, {0: Start(3, 5, f"timestamp {AT}:03Z")}, since(at(3))),
    Case("B14", "records without timestamps never match", without_timestamps,
         {0: Start(5, 5, "no record at or after 1970-01-01T00:00Z → end")}, since(0),
         because="brokers since 4.0 write no such format"),
    Case("B13", "later than all records, a marker matches", committed_transaction,
         {0: Start(5, 6, f"timestamp {AT}:20Z")}, since(at(20))),
    Case("B13 J4", "an aborted transaction's marker, too", aborted_transaction,
         {0: Start(5, 6, f"timestamp {AT}:20Z")}, {**since(at(20)), **COMMITTED}),
)  # fmt: skip

SPECIFIC = (
    Case("C1", "an offset of no partition here is ignored and listed", log_4_to_10,
         {0: Start(5, 10, "specific offset")}, specific(p0=5, p7=1), also={"ignored": (TopicPartition("orders", 7),)}),
    Case(
        "C2", "no offset of its own: the commit, else the reset, each by itself", four_logs,
        {0: Start(5, 10, "specific offset"), 1: Start(7, 10, KEPT), 2: Start(10, 10, "no commit → latest", skipped=6),
         3: Start(9, 10, "specific offset")},
        {**specific(p0=5, p3=9), **reset("latest")}, commits={1: 7, 3: 6},
    ),
    Case("C3", "reset none names those without a commit", four_logs,
         Refused(NoCommittedOffset, {0: ("no commit", "'none'"), 3: ("no commit", "'none'")}),
         {**specific(p1=5), **reset("none")}, commits={2: 7}),
    Case("C4", "reset none where every offset is known", four_logs,
         {0: Start(5, 10, "specific offset"), 1: Start(7, 10, KEPT), 2: Start(8, 10, KEPT), 3: Start(9, 10, KEPT)},
         {**specific(p0=5), **reset("none")}, commits={1: 7, 2: 8, 3: 9}),
    Case("C5", "no group: those without an offset are named", four_logs,
         Refused(NoCommittedOffset, {0: ("no group_id",), 2: ("no group_id",), 3: ("no group_id",)}),
         {**specific(p1=5), "group_id": None}),
    Case("C5", "no group is needed where all offsets are given", log_4_to_10, {0: Start(5, 10, "specific offset")},
         {**specific(p0=5), "group_id": None}, also={"group_id": None}),
    Case("C6 E1", "beyond the end", log_4_to_10,
         Refused(DataLoss, {0: ("start offset 11", "beyond the end of the log, 10")}), specific(p0=11)),
    Case("C6", "beyond the end, reset, earliest", log_4_to_10,
         {0: Start(4, 10, "beyond the end (15 > 10) → earliest")}, {**specific(p0=15), **RESET, **reset("earliest")}),
    Case("C6", "beyond the end, reset, latest", log_4_to_10,
         {0: Start(10, 10, "beyond the end (15 > 10) → latest", skipped=6)},
         {**specific(p0=15), **RESET, **reset("latest")}),
    Case("C7 E1", "deleted", log_4_to_10,
         Refused(DataLoss, {0: ("start offset 1", "log start offset 4", "3 offsets are gone")}), specific(p0=1)),
    Case("C7", "deleted, advance", log_4_to_10, {0: Start(4, 10, "out of range → log start, 3 lost", lost=3)},
         {**specific(p0=1), "on_data_loss": "advance"}),
    Case("C7", "deleted, reset, earliest", log_4_to_10, {0: Start(4, 10, "out of range → earliest, 3 lost", lost=3)},
         {**specific(p0=1), **RESET, **reset("earliest")}),
    Case("C7 K11", "deleted, reset, latest: nothing is read, and all is counted", log_4_to_10,
         {0: Start(10, 10, "out of range → latest, 3 lost", lost=3, skipped=6)},
         {**specific(p0=1), **RESET, **reset("latest")}),
    Case("C8", "the end", log_4_to_10, {0: Start(10, 10, "specific offset")}, specific(p0=10)),
    Case("C9", "0 of an empty partition", never_written, {0: Start(0, 0, "specific offset")}, specific(p0=0)),
    Case("C10", "a negative offset", never_written, Refused(InvalidRequest, words=("orders[0]", "-7")),
         specific(p0=-7)),
    Case("C11", "-3 without a group", never_written, Refused(InvalidRequest, words=("'committed'",)),
         {**specific(p0=-3), "group_id": None}),
    Case("C12 J3", "on a marker", committed_transaction, {0: Start(5, 6, "specific offset")}, specific(p0=5)),
    Case("C12", "in a gap of compaction", compacted, {0: Start(4, 10, "specific offset")}, specific(p0=4),
         because=CLEANER),
    Case("C13 M8", "the text form, for each topic that is listed", four_logs,
         {n: Start(5 + n, 10, "specific offset") for n in range(4)},
         {"startup_mode": "specific-offsets",
          "specific_offsets": "partition:0,offset:5;partition:1,offset:6;partition:2,offset:7;partition:3,offset:8;"}),
    Case("C14", "an empty map is group-offsets", log_4_to_10, {0: Start(7, 10, KEPT)}, specific(), commits={0: 7}),
)  # fmt: skip

GROUP = (
    Case("D1", "a commit at the log start", log_4_to_10, {0: Start(4, 10, KEPT)}, commits={0: 4}),
    Case("D2", "a commit at the end", log_4_to_10, {0: Start(10, 10, KEPT)}, commits={0: 10}),
    Case("D3", "a commit of 0 on an empty partition", never_written, {0: Start(0, 0, KEPT)}, reset("none"),
         commits={0: 0}),
    Case(
        "D5", "each partition by its own commit, reset earliest", four_logs,
        {0: Start(4, 10, "no commit → earliest"), 1: Start(7, 10, KEPT), 2: Start(4, 10, "no commit → earliest"),
         3: Start(10, 10, KEPT)},
        reset("earliest"), commits={1: 7, 3: 10},
    ),
    Case(
        "D5", "reset latest counts what it skips", four_logs,
        {0: Start(8, 10, KEPT), **{n: Start(10, 10, "no commit → latest", skipped=6) for n in (1, 2, 3)}},
        reset("latest"), commits={0: 8},
    ),
    Case("D5", "reset none names all that are missing", four_logs,
         Refused(NoCommittedOffset, dict.fromkeys((0, 2, 3), ("no commit", "'none'"))), reset("none"), commits={1: 7}),
    Case("D6", "no group", never_written, Refused(InvalidRequest, words=("no consumer group",)), {"group_id": None}),
    Case("D7", "an empty group", never_written, Refused(InvalidRequest, words=("group_id is empty",)),
         {"group_id": ""}),
    Case("D8", "an unknown reset", never_written, Refused(InvalidRequest, words=("'newest'",)), reset("newest")),
    Case("D8", "librdkafka's word, in any case", log_4_to_10, {0: Start(4, 10, "no commit → earliest")},
         reset("Beginning")),
    Case("D9", "the parameter wins over the connection", log_4_to_10,
         {0: Start(10, 10, "no commit → latest", skipped=6)}, reset("latest"),
         connection={"auto.offset.reset": "earliest"}),
    Case("D10", "by_duration", never_written, Refused(InvalidRequest, words=("by_duration:PT1H",)),
         reset("by_duration:PT1H")),
    Case("M4", "the reset counts for a specific offset out of range", log_4_to_10,
         {0: Start(4, 10, "beyond the end (15 > 10) → earliest")},
         {**specific(p0=15), **RESET}, connection={"auto.offset.reset": "earliest"}),
)  # fmt: skip

CASES = (*MODES, *TIMESTAMPS, *SPECIFIC, *GROUP)
