"""The URIs of a checkpoint location: a table of what they mean, and of what is refused without repeating a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.store.location import Location, location_of
from airflow_kafka_offsets.store.open import open_store

AZURE = "lake@acc1.dfs.core.windows.net"
MEANING = {
    "/data/offsets/": ("file", "", "/data/offsets", None, None),
    "file:///data/offsets": ("file", "", "/data/offsets", None, None),
    "s3://lake": ("s3", "lake", "", None, None),
    "s3://lake/a//b@c/": ("s3", "lake", "a/b@c", None, None),
    "s3://aws_default@lake.x/a": ("s3", "lake.x", "a", "aws_default", None),
    "gs://gcp@lake/a": ("gs", "lake", "a", "gcp", None),
    f"abfss://{AZURE}/a": ("abfs", "lake", "a", None, "acc1"),
    f"abfs://{AZURE}": ("abfs", "lake", "", None, "acc1"),
    "abfs://wasb@lake/a": ("abfs", "lake", "a", "wasb", None),
}


@pytest.mark.parametrize(("uri", "meaning"), MEANING.items())
def test_a_uri_says_kind_bucket_folder_connection_and_account(uri: str, meaning: tuple[str, ...]) -> None:
    assert location_of(uri) == Location(uri, *meaning)


def test_a_path_may_begin_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert location_of("~/offsets").folder == f"{tmp_path}/offsets"


@pytest.mark.parametrize(
    ("uri", "options", "driver_uri"),
    [
        ("/data/offsets", {}, "file:///data/offsets"),
        ("s3://aws_default@lake/a", {"access_key_id": "a", "secret_access_key": "b"}, "s3://lake/a"),
        ("gs://lake", {"skip_signature": True}, "gs://lake"),
        ("abfs://wasb@lake/a", {"account_name": "acc1", "account_key": "AAAA"}, f"abfss://{AZURE}/a"),
        (f"abfs://{AZURE}", {"account_key": "AAAA"}, f"abfss://{AZURE}"),
    ],
)
def test_a_driver_is_given_a_uri_without_connection(uri: str, options: dict[str, str], driver_uri: str) -> None:
    store = open_store(uri, lambda _: options)
    assert (store.uri, store.driver_uri) == (uri, driver_uri)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("offsets", "a relative path is another folder for each process"),
        ("", "a relative path"),
        ("/data/../offsets", "a relative path"),
        ("file://host/offsets", "a relative path"),
        ("dbfs:/mnt/x", "a relative path"),
        ("s3a://lake/a", "cannot be used: give an absolute path, file:///folder, s3://bucket/folder"),
        ("hdfs://nn/a", "cannot be used"),
        ("s3://", "cannot be used"),
        ("s3://a@b@lake/x", "cannot be used"),
        ("s3://lake/a/../b", "cannot be used"),
        ("abfs://lake/a", "names neither an account nor a connection"),
        ("abfss://lake@acc1.dfs.core.example/a", "names neither an account nor a connection"),
        ("s3://lake/\x1b[31m", r"s3://lake/\\x1b\[31m has control characters"),
    ],
)
def test_what_no_store_has_is_refused_with_the_forms(uri: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=f"checkpoint_location .*{said}"):
        open_store(uri)


@pytest.mark.parametrize(
    "uri", ["s3://key:hidden@bucket/x", "s3://key:hid/hidden@bucket/x", "ftp://u:hidden@h/x", "https://h/c?sig=hidden"]
)
def test_a_secret_in_a_uri_is_refused_and_not_repeated(uri: str) -> None:
    with pytest.raises(InvalidRequest, match="has a query or a password in it") as refused:
        open_store(uri)
    assert "hidden" not in str(refused.value)


def test_a_connection_needs_airflow() -> None:
    with pytest.raises(InvalidRequest, match="names the connection 'aws', and there is no Airflow here"):
        open_store("s3://aws@lake/x")
