"""The URI of a work store, taken apart: which kind it is, where it lies, and which connection leads to it.

``s3://bucket/folder``, or with an Airflow connection ``s3://conn_id@bucket/folder``. The connection is in the authority
alone: an ``@`` further on belongs to a name. Azure's may name its account, as Spark does:
``abfss://container@account.dfs.core.windows.net/folder``. HDFS has two URIs for one folder: ``webhdfs://namenode:9870/folder``
leads there by itself; for ``hdfs://nameservice/folder``, which Spark reads, the connection says where WebHDFS is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from airflow_kafka_offsets.errors import InvalidRequest, named
from airflow_kafka_offsets.request.problems import plain_text

_KINDS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "abfs": "abfs", "abfss": "abfs", "az": "abfs"}
HDFS = ("hdfs", "webhdfs")
_KINDS |= {kind: kind for kind in HDFS}
_SECRET = re.compile(r"[^/@]*:(?!\d+/)[^@]*@")  # not a port; a secret may have slashes
_KNOWN = "a folder's path, file:///…, s3://bucket/…, gs://bucket/…, abfs://container/… or webhdfs://namenode:9870/…"


@dataclass(frozen=True, slots=True)
class Location:
    """Where a work store is.

    :ivar uri: as it was given.
    :ivar kind: ``file``, ``s3``, ``gs``, ``abfs``, or one of ``HDFS``.
    :ivar root: the folder, or bucket (Azure: container; HDFS: host and port) and folder.
    :ivar connection: the Airflow connection that leads there; ``None``: what the machine's surroundings give.
    :ivar account: Azure's storage account, where the URI names it.
    """

    uri: str
    kind: str
    root: str
    connection: str | None = None
    account: str | None = None

    def for_spark(self, account: str | None = None) -> str:
        """The URI without its connection; with Azure's account, which Spark needs."""
        account = self.account or account
        if self.kind != "abfs" or account is None:
            return f"{self.kind}://{self.root}"
        return f"abfss://{self.bucket}@{account}.dfs.core.windows.net{self.root.removeprefix(self.bucket)}"

    @property
    def bucket(self) -> str:
        return self.root.partition("/")[0]


def location_of(uri: str) -> Location:
    """:raises InvalidRequest: no store is known for it, or it names no bucket."""
    try:
        plain_text(uri)
    except ValueError as error:
        raise InvalidRequest((f"{named('work_store')} {error}.",)) from None
    scheme, separator, rest = uri.partition("://")
    if _SECRET.match(rest):
        raise InvalidRequest(
            (
                f"{named('work_store')} has a key and a secret in it, and URIs are logged. Put them into an Airflow "
                f"connection, and name that: {scheme}://CONNECTION@bucket/folder.",
            )
        )
    if not separator and ":" not in uri.partition("/")[0]:
        try:
            return Location(uri, "file", str(Path(uri).expanduser()))
        except RuntimeError:
            raise InvalidRequest((f"{named('work_store')} {uri} begins with a user that there is not here.",)) from None
    if separator and scheme == "file" and rest.startswith("/"):
        return Location(uri, "file", rest)
    if not separator or scheme not in _KINDS:
        raise InvalidRequest(
            (
                f"{named('work_store')} {uri} cannot be used: give {_KNOWN}. Other stores are refused until it is "
                "shown that of two writers of one name exactly one wins there.",
            )
        )
    kind = _KINDS[scheme]
    authority, _, folder = rest.partition("/")
    connection, _, bucket = authority.rpartition("@")
    account = None
    if kind == "abfs" and "." in bucket:
        connection, bucket, account = "", connection, bucket.partition(".")[0]
    parts = [part for part in folder.split("/") if part]
    if not bucket or {".", ".."} & set(parts):
        raise InvalidRequest((f"{named('work_store')} {uri} names no bucket or no proper folder: give {_KNOWN}.",))
    return Location(uri, kind, "/".join([bucket, *parts]), connection or None, account)
