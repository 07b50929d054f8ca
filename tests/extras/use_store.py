"""Run where the wheel and one extra are installed: uses the work store that is configured, and prints what came.

It asks Airflow for the connection in the URI; nothing else leads to the server.
"""

import json

import airflow_kafka_offsets
from airflow_kafka_offsets.errors import StoreUnavailable
from airflow_kafka_offsets.hooks.work_store import configured_work_store


def whats_missing(uri: str) -> str:
    try:
        configured_work_store(uri)
    except StoreUnavailable as missing:
        return str(missing)
    return ""


store = configured_work_store(None)
came = {
    "package": airflow_kafka_offsets.__file__,
    "driver_uri": store.driver_uri,
    "created": store.create("a/1.json", b"one"),
    "created again": store.create("a/1.json", b"two"),
    "read": (store.get("a/1.json") or b"").decode(),
    "listed": store.list("a"),
    "read by another": (configured_work_store(None).get("a/1.json") or b"").decode(),
    "deleted": store.delete("a/1.json"),
    "left": store.list(""),
    "missing": {uri: whats_missing(uri) for uri in ("s3://bucket/x", "gs://bucket/x", "abfs://bucket/x")},
}
print(json.dumps(came))
