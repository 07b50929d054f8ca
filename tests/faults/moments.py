"""The moments of a run that faults are made at, as the socket sees them: the one place with a commit's order.

Each task of a row's DAG has a connection of its own, and so a `client.id` of its own.
"""

from testbed.kafka_proxy import (
    DESCRIBE_GROUPS,
    END_TXN,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FETCH,
    TXN_OFFSET_COMMIT,
    Moment,
)

RESOLVE, COMMIT = "resolve", "commit"

# resolve: metadata, log starts, ends, the group; then the plan is stored
RESOLVE_FIRST = Moment(RESOLVE, METADATA)
RESOLVE_LOOKS_UP = Moment(RESOLVE, LIST_OFFSETS)
RESOLVE_READS_GROUP = Moment(RESOLVE, OFFSET_FETCH)

# commit: metadata, the fence, the group; offsets sent, pending; who is in the group, the group again; the write, which
# ends the transaction; then checkpoint and receipt on the disk; the group a last time
COMMIT_FIRST = Moment(COMMIT, METADATA)
COMMIT_OPENS_FENCE = Moment(COMMIT, INIT_PRODUCER_ID)
COMMIT_READS_GROUP = Moment(COMMIT, OFFSET_FETCH)
COMMIT_SENDS = Moment(COMMIT, TXN_OFFSET_COMMIT)
COMMIT_DESCRIBES = Moment(COMMIT, DESCRIBE_GROUPS)
COMMIT_SECOND_LOOK = Moment(COMMIT, OFFSET_FETCH, 2)
COMMIT_WRITE = Moment(COMMIT, END_TXN)
