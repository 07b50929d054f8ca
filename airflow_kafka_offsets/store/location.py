# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The URI of a checkpoint location, taken apart: which kind it is, where it lies, which connection leads to it.

- ``/folder`` or ``file:///folder``;
- with the credentials of the environment: ``s3://bucket/folder``, ``gs://bucket/folder`` and, as Spark writes it,
  ``abfss://container@account.dfs.core.windows.net/folder``;
- with those of an Airflow connection: ``s3://connection@bucket/folder``, ``gs://connection@bucket/folder``,
  ``abfs://connection@container/folder``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from airflow_kafka_offsets.errors import InvalidRequest, clean_text

_URI = re.compile(r"(s3|gs|abfs|abfss)://(?:([\w.+-]+)@)?([A-Za-z0-9][\w.-]*)(?:/(.*))?")
_AZURE_HOST = re.compile(r"([a-z0-9]+)\.dfs\.core\.windows\.net")
_FORMS = (
    "an absolute path, file:///folder, s3://bucket/folder, s3://connection@bucket/folder, gs://bucket/folder, "
    "abfs://connection@container/folder or abfss://container@account.dfs.core.windows.net/folder"
)


@dataclass(frozen=True, slots=True)
class Location:
    """Where a checkpoint location is.

    :ivar uri: as it was given.
    :ivar kind: ``file``, ``s3``, ``gs`` or ``abfs``.
    :ivar bucket: or container; empty for a local folder.
    :ivar folder: below the bucket; of a local folder its absolute path.
    :ivar connection: the Airflow connection that leads there; ``None``: the environment's credentials do.
    :ivar account: Azure's storage account, where the URI names it.
    """

    uri: str
    kind: str
    bucket: str
    folder: str
    connection: str | None = None
    account: str | None = None

    def driver_uri(self, account: str | None = None) -> str:
        """The URI for a Spark driver, which knows no connection. Azure's has the account."""
        where = f"{self.bucket}/{self.folder}".rstrip("/")
        if self.kind != "abfs":
            return f"{self.kind}://{where}"
        return f"abfss://{self.bucket}@{account}.dfs.core.windows.net/{self.folder}".rstrip("/")


def location_of(uri: str) -> Location:
    """:raises InvalidRequest: it is none of the forms above."""
    scheme, separator, rest = uri.partition("://")
    if "?" in uri or re.match(r"[^@]*:[^@]*@", rest):
        raise _invalid(
            f"{clean_text(scheme)}://… has a query or a password in it, and URIs are logged. Put credentials into an "
            f"Airflow connection, and name that: s3://connection@bucket/folder"
        )
    if not uri.isprintable():
        raise _invalid(f"{clean_text(uri)} has control characters")
    if not separator or scheme == "file":
        return _local(uri, rest if separator else uri)
    found = _URI.fullmatch(uri)
    parts = [part for part in (found[4] or "").split("/") if part] if found else []
    if found is None or {".", ".."} & set(parts):
        raise _invalid(f"{uri} cannot be used: give {_FORMS}")
    kind, user, host, folder = found[1].replace("abfss", "abfs"), found[2], found[3], "/".join(parts)
    if kind != "abfs":
        return Location(uri, kind, host, folder, user)
    account = _AZURE_HOST.fullmatch(host)
    if user is None or ("." in host and not account):  # no container has a dot in its name
        raise _invalid(f"{uri} names neither an account nor a connection: give {_FORMS}")
    if account:
        return Location(uri, kind, user, folder, account=account[1])
    return Location(uri, kind, host, folder, user)


def _local(uri: str, path: str) -> Location:
    if path.startswith("~"):
        path = str(Path(path).expanduser())
    if not path.startswith("/") or ".." in path.split("/"):
        raise _invalid(f"{uri} cannot be used: a relative path is another folder for each process. Give {_FORMS}")
    return Location(uri, "file", "", str(Path(path)))


def _invalid(what: str) -> InvalidRequest:
    return InvalidRequest((f"checkpoint_location {what}.",))
