"""What people write: parameters, offsets, times, names, a job's arguments, a connection's extra, a run's conf."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from airflow_kafka_offsets.broker.config import admin_settings, refuse_name
from airflow_kafka_offsets.errors import InvalidRequest, KafkaOffsetsError, StoreUnavailable
from airflow_kafka_offsets.plan.job_arguments import parse_job_arguments
from airflow_kafka_offsets.plan.window_claims import time_claim_of_name, window_of_key
from airflow_kafka_offsets.request.offset_maps import parse_partition_offsets, to_csv, to_flink
from airflow_kafka_offsets.request.parameters import RequestParameters
from airflow_kafka_offsets.request.parse_request import RunContext, parse_request, request_for
from airflow_kafka_offsets.request.run_conf import CONF_WORDS, refuse_misplaced, with_conf
from airflow_kafka_offsets.request.subscription import group_id_problem
from airflow_kafka_offsets.request.times import (
    iso,
    looks_like_seconds,
    parse_duration_ms,
    parse_timestamp_ms,
    parse_wait_ms,
    parse_width,
    parse_zone,
)
from airflow_kafka_offsets.spark.job_batch import planned_batch
from airflow_kafka_offsets.stores.location import location_of
from airflow_kafka_offsets.stores.objects import safe_name
from tests.builders import NOW
from tests.fuzz.strange import changed, changed_text, fuzzed, scalars, texts, values

OFFSETS = (
    '{"orders": {"0": 42, "1": 300}}',
    "partition:0,offset:42;partition:1,offset:300",
    "topic:orders,partition:0,offset:42;topic:bills,partition:1,offset:300",
    "orders,0,42\norders,1,300\n",
    "g,orders,0,42\ng,orders,1,300\nh,orders,0,1",
)
TIMES = ("2026-11-20T10:00:00Z", "1795168800000", "now-2h", "-PT2H", "now-P1DT2H", "20261120T10", "2026-W47-5")
DURATIONS = ("90d", "P90D", "PT10M", "600", "1.5", "P1W2DT3H4M5S", "hourly")
JOB = [
    "--plan",
    "pipelines/p/batches/00000000/0000000007/1.json",
    "--plan-id",
    "a",
    "--split",
    "0",
    "--work-store",
    "/nowhere",
]
PARAMETERS: list[dict[str, Any]] = [
    {"topics": ["orders"], "group_id": "g", "pipeline_id": "p", "output_name": "s3://lake/orders", "splits": 2},
    {"topics": "orders", "startup_mode": "specific-offsets", "specific_offsets": {"orders": {"0": 5}}, "group_id": "g"},
    {
        "topics": ["orders", "bills"],
        "startup_mode": "timestamp",
        "bounded_mode": "timestamp",
        "startup_timestamp": {"orders": "now-2h", "bills": 5},
        "bounded_timestamp": "2026-11-20T09:00Z",
        "idle_timeout": "PT10M",
        "require_complete_window": True,
    },
    {"partitions": {"orders": [0, 2]}, "startup_mode": "earliest-offset", "restart": "again", "max_records": 5},
    {"topic_pattern": "ord.*", "group_id": "g", "skip": {"batch": "k", "past": "orders-3:4711", "reason": "bad"}},
]


@fuzzed()
@given(changed_text(OFFSETS) | changed([json.loads(OFFSETS[0])]), st.none() | texts)
@example("orders,0,4\n" + "x" * 200_000 + ",1,2", None)
@example({"orders": {"0": 2**63}}, None)
@example({"\ud800": {"0": 1}}, None)
@example("{" + ",".join(f'"t{n}":{{}}' for n in range(30_000)) + ',"t29999":{}}', None)
def test_offsets_are_offsets_or_refused(value: Any, group_id: str | None) -> None:
    with suppress(ValueError):
        found = parse_partition_offsets(value, ("orders",), group_id)
        assert all(0 <= offset < 2**63 and 0 <= tp.partition < 2**31 for tp, offset in found.items())
        assert parse_partition_offsets(to_csv(found), ()) == found or not found
        assert parse_partition_offsets(to_flink(found), tuple({tp.topic for tp in found})) == found or not found


@fuzzed()
@given(changed_text(TIMES) | scalars | st.datetimes() | st.datetimes(timezones=st.timezones()), texts)
@example(10**400, "UTC")
def test_a_time_is_a_time_or_refused(value: Any, zone: str) -> None:
    named = UTC
    with suppress(ValueError):
        named = parse_zone(zone)
    with suppress(ValueError):
        found = parse_timestamp_ms(value, now_ms=NOW, zone=named)
        assert 0 <= found < 2**63
        iso(found), looks_like_seconds(found)


@fuzzed()
@given(changed_text(DURATIONS) | scalars | st.timedeltas())
@example(1e306)
@example(10**400)
@example("9" * 5000 + "d")
def test_a_duration_is_a_duration_or_refused(value: Any) -> None:
    with suppress(ValueError):
        assert -(2**63) <= parse_wait_ms(value) < 2**63 or isinstance(value, str | timedelta)
    if isinstance(value, str):
        with suppress(ValueError):
            parse_duration_ms(value)
    with suppress(ValueError):
        parse_width(value).after(NOW, UTC)


NAMES = {field.name for field in fields(RequestParameters)}


@fuzzed(2)
@given(changed(PARAMETERS), changed([{"redo": True, "policies": {"data_loss": "advance"}}]) | st.none())
@example({"topics": "orders", "group_id": "g", "skip": {"batch": "k", "reason": "\ud800"}}, None)
@example({"topics": "orders", "pipeline_id": "\ud800"}, None)
@example({"topics": "orders", "splits": 10**9}, None)
@example({"startup_mode": "timestamp", "startup_timestamp": {}}, None)
@example({"topics": "orders", "idle_timeout": 1e306}, None)
@example({"topics": "orders", "policies": {"data_loss": ["advance"], 5: "fail"}}, {"policies": [5]})
@example({"topics": "orders", "policies": ["data_loss=a=b", "="]}, {"policies": "{"})
def test_parameters_are_a_request_or_refused(given_: Any, conf: Any) -> None:
    known = {name: value for name, value in given_.items() if name in NAMES} if isinstance(given_, dict) else {}
    with suppress(InvalidRequest):
        asked = with_conf(RequestParameters(**known), conf)
        request = parse_request(asked, RunContext(NOW, (NOW - 3_600_000, NOW)))
        words = [str(request.startup), str(request.scope.subscription), request.output or "", *request.warnings]
        for word in [*words, request.scope.pipeline_id or "", request.scope.group_id or ""]:
            word.encode()
    if isinstance(conf, dict):
        with suppress(InvalidRequest):
            refuse_misplaced({**conf, **{str(name): 1 for name in list(conf) if name in CONF_WORDS}})


EXTRAS: list[dict[str, Any]] = [
    {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "auto.offset.reset": "earliest"},
    {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"},
]


@fuzzed()
@given(changed(EXTRAS))
def test_a_connections_extra_is_a_configuration_or_refused(extra: Any) -> None:
    config = extra if isinstance(extra, dict) else {}
    with suppress(InvalidRequest):
        admin_settings(config)
        request_for(config, RequestParameters(topics="orders"), RunContext(NOW))


@fuzzed()
@given(texts)
def test_a_name_is_one_part_of_a_path_whatever_it_is(name: str) -> None:
    safe = safe_name(name)
    assert safe.isascii()
    assert not {"/", "\\", "\0"} & set(safe)
    assert safe not in ("", ".", "..")
    with suppress(InvalidRequest):
        refuse_name(name)
        assert group_id_problem(name) is None
    time_claim_of_name(name)
    window_of_key(name)


@fuzzed()
@given(changed_text(("20261120T000000Z--20261120T010000Z-cafecafe-cafecafe", "20261120T090000Z--20261120T100000Z")))
@example("20261320T000000Z--20261120T010000Z-148de9c5")
def test_a_windows_name_or_key_is_one_or_none(name: str) -> None:
    time_claim_of_name(name)
    window_of_key(name)


@fuzzed()
@given(
    changed_text(("s3://conn@bucket/folder", "abfss://c@account.dfs.core.windows.net/f", "file:///f", "/f", "gs://b"))
)
@example("~nobody-of-that-name")
def test_a_work_stores_uri_is_a_place_or_refused(uri: str) -> None:
    with suppress(InvalidRequest):
        found = location_of(uri)
        assert found.kind in ("file", "s3", "gs", "abfs")
        assert found.kind == "file" or not {".", ".."} & set(found.root.split("/"))


@fuzzed()
@given(st.lists(st.sampled_from(JOB) | texts, max_size=10) | st.permutations(JOB) | changed([JOB]))
def test_a_jobs_arguments_are_a_batch_or_refused(argv: Any) -> None:
    words = [str(word) for word in argv] if isinstance(argv, list) else [str(argv)]
    with suppress(InvalidRequest):
        parse_job_arguments(words)
    with suppress(InvalidRequest, StoreUnavailable):
        planned_batch([*words[:20]])


@fuzzed()
@given(values)
def test_any_error_is_shown_and_sent_between_processes(value: Any) -> None:
    error: KafkaOffsetsError = InvalidRequest((f"is {value!r}",))
    kind, facts = error.__reduce__()
    assert str(kind(*facts)) == str(error)
