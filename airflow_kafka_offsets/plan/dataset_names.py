"""What a cluster and an output are called in lineage: OpenLineage's namespace, and the name in it.

These are OpenLineage's rules, and the names that its listener inside of Spark gives to the same topics and paths: so
whoever tells of a dataset, it is one. No name has a password or a query in it, whatever somebody calls an output.
"""

from __future__ import annotations

import re

_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "wasb": "wasbs", "postgresql": "postgres"}
_BUCKETS = {"s3", "gs", "abfss", "wasbs"}  # whose keys do not begin with a slash
_SECRET = re.compile(r"^[^/@]*:(?!\d+/)[^@]*@")  # not a port; a secret may have slashes


def kafka_namespace(bootstrap_servers: str) -> str:
    """``kafka://host:port``, of the first server."""
    first = bootstrap_servers.split(",")[0].strip().rpartition("://")[2]
    return f"kafka://{first}" if re.search(r":\d+$", first) else f"kafka://{first}:9092"


def dataset_of_output(output: str) -> tuple[str, str]:
    """Namespace and name of an output.

    ``/lake/orders`` is ``file``, ``/lake/orders``; ``s3a://lake/orders`` is ``s3://lake``, ``orders``. A table is known
    by its catalog's name alone: ``delta:lake.orders`` is ``delta``, ``lake.orders``.
    """
    scheme, is_uri, rest = output.removeprefix("jdbc:").partition("://")
    if not is_uri:
        kind, colon, table = output.partition(":")
        if output.startswith("/"):
            return "file", output
        return (kind, table.rpartition("@")[2]) if colon else ("spark", output)
    scheme = _SCHEMES.get(scheme.lower(), scheme.lower())
    authority, _, path = re.split(r"[?;#]", _SECRET.sub("", rest), maxsplit=1)[0].partition("/")
    if output.startswith("jdbc:"):  # database:schema.table, on the first of several hosts
        return f"{scheme}://{authority.split(',')[0]}", path.replace(":", ".", 1) or "/"
    namespace = f"{scheme}://{authority}" if authority else scheme
    return namespace, path or "/" if scheme in _BUCKETS else f"/{path}"
