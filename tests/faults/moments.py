"""The moments of a run that faults are made at, as the socket sees them: the one place with a commit's order.

Each task of a row's DAG has a connection of its own, and so a `client.id` of its own.
"""

from testbed.kafka_proxy import LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, Moment

RESOLVE, COMMIT = "resolve", "commit"

# resolve: metadata, the group, log starts, ends; then the plan is stored, and the group signed
RESOLVE_FIRST = Moment(RESOLVE, METADATA)
RESOLVE_READS_GROUP = Moment(RESOLVE, OFFSET_FETCH)
RESOLVE_LOOKS_UP = Moment(RESOLVE, LIST_OFFSETS)

# commit: reports are verified, and the group is looked at; the log gets the commit; the mirror looks at the group
# again, then at the log; the write, before which its client asks for one offset; the log a last time
COMMIT_FIRST = Moment(COMMIT, METADATA)
COMMIT_LOOKS = Moment(COMMIT, OFFSET_FETCH)
MIRROR_LOOKS = Moment(COMMIT, OFFSET_FETCH, 2)
MIRROR_WRITES = Moment(COMMIT, OFFSET_COMMIT)
