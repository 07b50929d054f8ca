"""The rule table: where a partition starts that no earlier run has read, and where a batch ends (A to E, G, J, K).

The answers are those that real Flink gave (``FlinkKafkaConsumer`` 1.13.6, on a 4.1 broker), except where this project
has decided otherwise.
"""

from __future__ import annotations

from airflow_kafka_offsets.errors import (
    ClusterUnavailable,
    DataLoss,
    EndBeforeStart,
    InvalidRequest,
    NoCommittedOffset,
    NothingToDiscover,
)
from airflow_kafka_offsets.kafka_values import CommittedOffset
from airflow_kafka_offsets.offsets import GroupOffsets, SpecificOffsets, Timestamp
from tests.conformance.situations import (
    COMMITTED,
    NOW,
    Case,
    Range,
    Refused,
    T,
    aborted_transaction,
    appended_by_the_broker,
    at,
    committed_transaction,
    compacted,
    cut_and_grown,
    emptied,
    four_logs,
    leaderless,
    log_4_to_10,
    never_written,
    open_transaction,
    out_of_order,
    specific,
    truncated,
    without_timestamps,
)

ONE_BROKER = "one broker never loses the end of its log, nor its leadership of a partition"
EARLIEST, LATEST = {"start": "earliest"}, {"start": "latest"}
OR_EARLIEST, OR_LATEST = {"start": GroupOffsets(otherwise="earliest")}, {"start": GroupOffsets(otherwise="latest")}
RESET, ADVANCE = {"on_data_loss": "reset"}, {"on_data_loss": "advance"}


def since(timestamp: object) -> dict[str, object]:
    return {"start": Timestamp(timestamp)}  # type: ignore[arg-type]


def until(timestamp: object) -> dict[str, object]:
    return {"end": Timestamp(timestamp)}  # type: ignore[arg-type]


def all_of(planned: Range) -> dict[int, Range]:
    return dict.fromkeys(range(4), planned)


MODES = (
    Case("A1 A5 D1", "the default is group-offsets", log_4_to_10, {0: Range(7, 10)}, commits={0: 7}),
    Case("A1 D4", "no commit, and no otherwise", four_logs,
         Refused(NoCommittedOffset, dict.fromkeys((0, 2, 3), ("no committed offset", "'earliest' reads up to 6 records",
                 "'latest' skips")), ('otherwise="earliest"', 'otherwise="latest"')), commits={1: 7}),
    Case("A1 D9", "auto.offset.reset of the connection", log_4_to_10, {0: Range(4, 10)},
         connection={"auto.offset.reset": "smallest"}),
    Case("A2", "earliest is the log start, whatever is committed", log_4_to_10, {0: Range(4, 10)}, EARLIEST,
         commits={0: 7}),
    Case("A3", "latest is the end, whatever is committed", log_4_to_10, {0: Range(10, 10)}, LATEST, commits={0: 7}),
    Case("A3 J2", "latest under read_committed is the last stable offset", open_transaction, {0: Range(3, 3)}, LATEST,
         connection=COMMITTED),
    Case("A3 I4", "latest of an empty partition", never_written, {0: Range(0, 0)}, LATEST),
    Case("A4 B4", "timestamp, for all partitions by one look-up", four_logs, all_of(Range(6, 10)), since(at(6)),
         commits={0: 9}),
    Case("A6", "a specific offset is the next to read", log_4_to_10, {0: Range(5, 10)}, {"start": specific(p0=5)},
         commits={0: 7}),
    Case("A8 M2", "a timestamp is missing", never_written,
         Refused(InvalidRequest, words=("start is Timestamp(), and this run has no data interval",)), since(None)),
    Case("A9 C10 C11", "-3 among the offsets", never_written,
         Refused(InvalidRequest, words=("orders-0", "'committed'")), {"start": specific(p0=-3)}),
    Case("A10", "earliest of a partition that was never written", never_written, {0: Range(0, 0)}, EARLIEST),
    Case("A11", "earliest of a partition emptied by deletion", emptied, {0: Range(10, 10)}, EARLIEST),
)  # fmt: skip

TIMESTAMPS = (
    Case("B1", "a negative timestamp", never_written, Refused(InvalidRequest, words=("negative",)), since(-1)),
    Case("B2", "a start in the future", never_written, Refused(InvalidRequest, words=("future",)), since(NOW + 1)),
    Case("B2", "a start now", log_4_to_10, {0: Range(10, 10)}, since(NOW)),
    Case("B3", "timestamp 0 is everything", log_4_to_10, {0: Range(4, 10)}, since(0)),
    Case("B4", "a record of that very time", out_of_order, {0: Range(1, 5)}, since(at(50))),
    Case("B5", "between two records", log_4_to_10, {0: Range(7, 10)}, since(at(6) + 1)),
    Case("B6", "no record that late: the end", log_4_to_10, {0: Range(10, 10)}, since(at(20))),
    Case("B6", "no record at all: 0", never_written, {0: Range(0, 0)}, since(at(20))),
    Case("B7", "out of order: the lowest offset that is late enough", out_of_order, {0: Range(1, 5)}, since(at(25))),
    Case("B7", "out of order: past earlier, later ones", out_of_order, {0: Range(3, 5)}, since(at(55))),
    Case("B8", "a time of deleted records is no data loss", log_4_to_10, {0: Range(4, 10)}, since(at(2))),
    Case("B9", "with the broker's time all records are late enough", appended_by_the_broker, {0: Range(0, 5)},
         since(at(20))),
    Case("B10", "seconds: a warning", log_4_to_10, {0: Range(4, 10)}, since(T // 1000), says="in seconds?"),
    Case("B12 J2", "a match in an open transaction is none", open_transaction, {0: Range(3, 3)}, since(at(3)),
         connection=COMMITTED),
    Case("B12", "read_uncommitted finds it", open_transaction, {0: Range(3, 5)}, since(at(3))),
    Case("B13", "later than all records, a marker matches", committed_transaction, {0: Range(5, 6)}, since(at(20))),
    Case("B13 J4", "an aborted transaction's marker, too", aborted_transaction, {0: Range(5, 6)}, since(at(20)),
         connection=COMMITTED),
    Case("B14", "records without timestamps never match", without_timestamps, {0: Range(5, 5)}, since(0),
         because="brokers since 4.0 write no such format"),
)  # fmt: skip

SPECIFIC = (
    Case("C1", "an offset of a partition that is not there is ignored", log_4_to_10, {0: Range(5, 10)},
         {"start": specific(p0=5, p7=1)}),
    Case("C2 D5", "no offset of its own: its commit, else otherwise", four_logs,
         {0: Range(5, 10), 1: Range(7, 10), 2: Range(10, 10), 3: Range(9, 10)},
         {"start": specific("latest", p0=5, p3=9)}, commits={1: 7, 3: 6}),
    Case("A1 C2 C3", "no offset, no commit, and no otherwise", four_logs,
         Refused(NoCommittedOffset, {0: ("no committed offset",), 3: ("no committed offset",)}),
         {"start": specific(p1=5)}, commits={2: 7}),
    Case("C4", "no otherwise is needed if every offset is known", four_logs,
         {0: Range(5, 10), 1: Range(7, 10), 2: Range(8, 10), 3: Range(9, 10)}, {"start": specific(p0=5)},
         commits={1: 7, 2: 8, 3: 9}),
    Case("C5", "no group: those without an offset are named", four_logs,
         Refused(NoCommittedOffset, dict.fromkeys((0, 2, 3), ("there is no group_id",))),
         {"start": specific(p1=5), "group_id": None}),
    Case("C5", "no group is needed where all offsets are given", log_4_to_10, {0: Range(5, 10)},
         {"start": specific(p0=5), "group_id": None}),
    Case("C5", "no group, and otherwise for those without an offset", four_logs,
         {**all_of(Range(4, 10)), 1: Range(5, 10)}, {"start": specific("earliest", p1=5), "group_id": None}),
    Case("C6 E1", "beyond the end", log_4_to_10,
         Refused(DataLoss, {0: ("start offset 11", "beyond the end of the log, 10")}), {"start": specific(p0=11)}),
    Case("C6 M4", "beyond the end, reset, earliest", log_4_to_10, {0: Range(4, 10, again=11)},
         {"start": specific(p0=15), **RESET}, connection={"auto.offset.reset": "earliest"}),
    Case("C6", "beyond the end, reset, latest", log_4_to_10, {0: Range(10, 10, again=5)},
         {"start": specific("latest", p0=15), **RESET}),
    Case("A1 C6", "reset, without otherwise", never_written,
         Refused(InvalidRequest, words=("on_data_loss='reset' needs to know where to resume",)),
         {"start": specific(p0=15), **RESET}),
    Case("C7 E1 E2", "deleted", log_4_to_10,
         Refused(DataLoss, {0: ("start offset 1", "log start offset 4", "3 offsets lost")}),
         {"start": specific(p0=1)}),
    Case("C7", "deleted, advance", log_4_to_10, {0: Range(4, 10, lost=3)}, {"start": specific(p0=1), **ADVANCE}),
    Case("C7", "deleted, reset, earliest", log_4_to_10, {0: Range(4, 10, lost=3)},
         {"start": specific("earliest", p0=1), **RESET}),
    Case("C7 K11", "deleted, reset, latest: nothing is read, and all is counted", log_4_to_10,
         {0: Range(10, 10, lost=3, skipped=6)}, {"start": specific("latest", p0=1), **RESET}),
    Case("C8", "the end", log_4_to_10, {0: Range(10, 10)}, {"start": specific(p0=10)}),
    Case("C9", "0 of an empty partition", never_written, {0: Range(0, 0)}, {"start": specific(p0=0)}),
    Case("C10", "a negative offset", never_written, Refused(InvalidRequest, words=("orders-0", "-7")),
         {"start": specific(p0=-7)}),
    Case("C12 J3", "on a marker", committed_transaction, {0: Range(5, 6)}, {"start": specific(p0=5)}),
    Case("C12", "in a gap of compaction", compacted, {0: Range(4, 10)}, {"start": specific(p0=4)}),
    Case("C13", "Flink's text", four_logs, {n: Range(5 + n, 10) for n in range(4)},
         {"start": SpecificOffsets(";".join(f"partition:{n},offset:{5 + n}" for n in range(4)))}),
    Case("M8", "Flink's text names the topic where there may be several", four_logs,
         {n: Range(5 + n, 10) for n in range(4)},
         {"start": SpecificOffsets(";".join(f"topic:orders,partition:{n},offset:{5 + n}" for n in range(4)))}),
    Case("C14", "an empty map is group-offsets", log_4_to_10, {0: Range(7, 10)}, {"start": SpecificOffsets({})},
         commits={0: 7}),
)  # fmt: skip

GROUP = (
    Case("D1", "a commit at the log start", log_4_to_10, {0: Range(4, 10)}, commits={0: 4}),
    Case("D2", "a commit at the end", log_4_to_10, {0: Range(10, 10)}, commits={0: 10}),
    Case("D3", "a commit of 0 on an empty partition", never_written, {0: Range(0, 0)}, commits={0: 0}),
    Case("D5", "each partition by its own commit, otherwise earliest", four_logs,
         {0: Range(4, 10), 1: Range(7, 10), 2: Range(4, 10), 3: Range(10, 10)}, OR_EARLIEST, commits={1: 7, 3: 10}),
    Case("D5", "otherwise latest", four_logs, {**all_of(Range(10, 10)), 0: Range(8, 10)}, OR_LATEST, commits={0: 8}),
    Case("D6", "no group", never_written, Refused(InvalidRequest, words=("there is no group to read",)),
         {"group_id": None}),
    Case("D7", "an empty group", never_written, Refused(InvalidRequest, words=("group_id is '', which is empty",)),
         {"group_id": ""}),
    Case("D8", "librdkafka's spelling, in upper or lower case", log_4_to_10, {0: Range(4, 10)},
         connection={"auto.offset.reset": "Beginning"}),
    Case("D9", "otherwise precedes the connection's setting", log_4_to_10, {0: Range(10, 10)}, OR_LATEST,
         connection={"auto.offset.reset": "earliest"}),
)  # fmt: skip

EPOCH_0, EPOCH_5 = CommittedOffset(15, 0), CommittedOffset(7, 5)
OUT_OF_RANGE = (
    Case("E1", "every commit outside of the log is named, and no other", four_logs,
         Refused(DataLoss, {0: ("3", "4", "1 offset lost"), 2: ("0", "4", "4 offsets lost"), 3: ("99", "10")}),
         commits={0: 3, 1: 7, 2: 0, 3: 99}),
    Case("E3", "no epoch, beyond the end: the reset", log_4_to_10, {0: Range(4, 10, again=11)},
         {**OR_EARLIEST, **RESET}, commits={0: 15}),
    Case("E4 E5", "an epoch, beyond the end: the end and not the reset", log_4_to_10, {0: Range(10, 10, again=5)},
         {**OR_EARLIEST, **RESET}, commits={0: EPOCH_0}),
    Case("E4", "an epoch from before a truncation", truncated, {0: Range(10, 10, again=5)},
         {**OR_EARLIEST, **RESET}, commits={0: EPOCH_0}, because=ONE_BROKER),
    *(Case("E4", f"an epoch from before a truncation, grown again, {what}", cut_and_grown,
           {0: Range(10, 18, again=5)}, how, commits={0: EPOCH_0}, because=ONE_BROKER)
      for what, how in (("reset", {**OR_LATEST, **RESET}), ("advance", ADVANCE))),
    Case("E4", "an epoch from before a truncation, grown again, by default", cut_and_grown,
         Refused(DataLoss, {0: ("the log was truncated", "10 to 15")}), commits={0: EPOCH_0}, because=ONE_BROKER),
    Case("E4", "an epoch of an earlier leader, nothing truncated", cut_and_grown, {0: Range(10, 18)},
         commits={0: CommittedOffset(10, 0)}, because=ONE_BROKER),
    Case("E4", "an epoch, beyond the end, by default", log_4_to_10, Refused(DataLoss, {0: ("15", "10")}),
         commits={0: EPOCH_0}),
    *(Case("E6", f"an epoch later than the leader's, {how['on_data_loss']}", log_4_to_10,
           Refused(DataLoss, {0: ("leader epoch 5", "the leader's 0")}), {**OR_EARLIEST, **how},
           commits={0: EPOCH_5})
      for how in ({"on_data_loss": "fail"}, RESET, ADVANCE)),
    Case("E7", "an epoch, below the log start: the reset", log_4_to_10, {0: Range(10, 10, lost=3, skipped=6)},
         {**OR_LATEST, **RESET}, commits={0: CommittedOffset(1, 0)}),
    Case("E8 D1", "a commit like Flink's, without an epoch", truncated, {0: Range(7, 10)}, commits={0: 7},
         because=ONE_BROKER),
    Case("E8", "no epoch, from before a truncation, grown again", cut_and_grown, {0: Range(15, 18)},
         commits={0: 15}, because=ONE_BROKER),
    Case("E9", "a specific offset is not validated by epochs, whatever is committed", log_4_to_10, {0: Range(7, 10)},
         {"start": specific(p0=7)}, commits={0: EPOCH_5}),
)  # fmt: skip

SUBSCRIPTIONS = (
    Case("G1", "a listed topic does not exist", never_written,
         Refused(NothingToDiscover, words=("orders-missing-1", "orders-missing-2")),
         {**EARLIEST, "topics": ["orders", "orders-missing-1", "orders-missing-2"]}),
    Case("G2", "a pattern matches the whole name", log_4_to_10, {0: Range(4, 10)},
         {**EARLIEST, "topics": "^o?orders"}),
    Case("G2 G3", "a pattern that a part of the name would match", never_written,
         Refused(NothingToDiscover, words=("rders",)), {**EARLIEST, "topics": "^orders."}),
    Case("G6 M5", "no topic", never_written, Refused(InvalidRequest, words=("topics is []",)), {"topics": []}),
    Case("H4", "no shard", never_written, Refused(InvalidRequest, words=("shard is (0, 0)",)),
         {**EARLIEST, "shard": (0, 0)}),
    Case("G7", "listed partitions that do not exist", four_logs, Refused(NothingToDiscover, {4: (), 9: ()}),
         {**EARLIEST, "topics": {"orders": [0, 4, 9]}}),
    Case("G9", "partitions that are not contiguous", four_logs, {n: Range(4, 10) for n in (1, 3)},
         {**EARLIEST, "topics": {"orders": [3, 1]}}),
    Case("L7", "one partition without a leader: no plan for the others", leaderless,
         Refused(ClusterUnavailable, words=("orders-1", "no leader")), EARLIEST, because=ONE_BROKER),
)  # fmt: skip

ISOLATION = (
    Case("J1", "read_uncommitted by default", open_transaction, {0: Range(0, 5)}, EARLIEST),
    Case("J1 J2 J5", "read_committed ends at the last stable offset", open_transaction, {0: Range(0, 3)}, EARLIEST,
         connection=COMMITTED),
    Case("J3", "a committed transaction's marker has an offset", committed_transaction, {0: Range(0, 6)}, EARLIEST,
         connection=COMMITTED),
    Case("J4", "so has an aborted one's", aborted_transaction, {0: Range(0, 6)}, EARLIEST, connection=COMMITTED),
    Case("J6 K7", "a start above the last stable offset", open_transaction, {0: Range(4, 4)}, commits={0: 4},
         connection=COMMITTED),
    Case("J6 J7 K7", "a start at the high watermark, beyond an open transaction", open_transaction,
         {0: Range(5, 5)}, commits={0: 5}, connection=COMMITTED),
    Case("J7", "a start at the last stable offset, before an open transaction", open_transaction,
         {0: Range(3, 3)}, commits={0: 3}, connection=COMMITTED),
)  # fmt: skip

ENDS = (
    Case("K1", "an end is exclusive", log_4_to_10, {0: Range(4, 5)}, {**EARLIEST, "end": specific(p0=5)}),
    Case("K2", "the end of the log", log_4_to_10, {0: Range(5, 10)}, commits={0: 5}),
    Case("K3", "the first offset at or after the time is not read", log_4_to_10, {0: Range(5, 8)}, until(at(8)),
         commits={0: 5}),
    Case("K3", "no record that late: what is there", log_4_to_10, {0: Range(5, 10)}, until(at(20)), commits={0: 5}),
    Case("K3", "a time in the future: what is there", log_4_to_10, {0: Range(5, 10)}, until(4_102_444_800_000),
         commits={0: 5}),
    Case("K3 J2", "never past the last stable offset", open_transaction, {0: Range(0, 3)},
         {**EARLIEST, **until(at(4))}, connection=COMMITTED),
    Case("K3", "a window", log_4_to_10, {0: Range(5, 8)}, {**since(at(5)), **until(at(8)), "group_id": None}),
    Case("K4", "the group's commit", log_4_to_10, {0: Range(4, 7)}, {**EARLIEST, "end": GroupOffsets()},
         commits={0: 7}),
    Case("K4", "no commit to end at", four_logs,
         Refused(NoCommittedOffset, dict.fromkeys((0, 2, 3), ("end=GroupOffsets()",))),
         {**EARLIEST, "end": GroupOffsets()}, commits={1: 7}),
    Case("K5", "ends that are not named", four_logs,
         Refused(EndBeforeStart, dict.fromkeys((0, 2), ("does not name it",))),
         {**EARLIEST, "end": specific(p1=7, p3=10)}),
    Case("K6", "earliest as the end", never_written, Refused(InvalidRequest, words=("end is 'earliest'",)),
         {**EARLIEST, "end": "earliest"}),
    Case("K7", "start and end are equal", log_4_to_10, {0: Range(7, 7)},
         {"start": specific(p0=7), "end": specific(p0=7)}),
    Case("K7", "an end by time below the commit", log_4_to_10, {0: Range(9, 9)}, until(at(6)), commits={0: 9}),
    Case("K7 I11", "a first batch may end below the group's offset", log_4_to_10, {0: Range(4, 6)},
         {**EARLIEST, **until(at(6))}, commits={0: 9}),
    Case("K8", "beyond the log", four_logs, Refused(EndBeforeStart, {0: ("11", "10"), 2: ("99", "10")}),
         {**EARLIEST, "end": specific(p0=11, p1=10, p2=99, p3=4)}),
    Case("K8 J2", "beyond the last stable offset", open_transaction,
         Refused(EndBeforeStart, {0: ("end offset 4", "end of the log, 3")}), {**EARLIEST, "end": specific(p0=4)},
         connection=COMMITTED),
    Case("K9", "below the log start", log_4_to_10, Refused(EndBeforeStart, {0: ("end offset 3", "start offset 4")}),
         {**EARLIEST, "end": specific(p0=3)}),
    Case("K10", "0 is an end", never_written, {0: Range(0, 0)}, {**EARLIEST, "end": specific(p0=0)}),
    Case("K12", "a start past its end", four_logs,
         Refused(EndBeforeStart, {0: ("end offset 7", "start offset 8"), 2: ("end offset 9", "start offset 10")}),
         {"start": specific(p0=8, p1=5, p2=10, p3=6), "end": specific(p0=7, p1=5, p2=9, p3=6)}),
    Case("K13 K14 M3", "no end at all", never_written, Refused(InvalidRequest, words=("end is 'unbounded'",)),
         {**EARLIEST, "end": "unbounded"}),
    Case("K16", "the record before the end is compacted away", compacted, {0: Range(0, 6)},
         {**EARLIEST, "end": specific(p0=6)}),
)  # fmt: skip

CASES = (*MODES, *TIMESTAMPS, *SPECIFIC, *GROUP, *OUT_OF_RANGE, *SUBSCRIPTIONS, *ISOLATION, *ENDS)
