# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""A Kafka connection's settings → those of an admin client and of a consumer that never joins a group."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from airflow_kafka_offsets.errors import InvalidRequest

# A connection is often written for a consumer or a producer. AdminClient refuses `on_commit`, and warns of the others.
# `allow.auto.create.topics` would let a consumer create the topic that it asks for (G11).
_NOT_FOR_CLIENTS = {
    "on_commit",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "auto.offset.reset",
    "isolation.level",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "auto.commit.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "enable.partition.eof",
    "check.crcs",
    "allow.auto.create.topics",
    "stats_cb",
    "statistics.interval.ms",
}
_GROUP_ID_BYTES = 32_700  # measured on 4.1: a request's string may have 32,767, and DescribeGroups fails from 32,736 on
_SPACE = " \t\n\v\f\r"  # C's isspace()

_SECRET = re.compile(r"password|secret|\.key\.pem|ssl\.key$|oauthbearer\.config|assertion\.private", re.IGNORECASE)
_WORD = r"[\w.-]*(?:password|passwd|secret|token|signature|assertion|credential|api[-_]?key)[\w.-]*"
_SECRETS = (
    re.compile(rf"({_WORD}=)[^&\s\"',;)}}]+", re.IGNORECASE),  # in a query or in settings
    re.compile(rf"([\"']{_WORD}[\"']\s*:\s*[\"'])[^\"']+", re.IGNORECASE),  # in JSON
    re.compile(r"((?:bearer|basic)\s+)[\w.~+/-]{8,}=*", re.IGNORECASE),  # in a header
    re.compile(r"(://)[^/\s@]+(?=@)"),  # in an address
    re.compile(r"()eyJ[\w-]{8,}(?:\.[\w-]*)*"),  # a token by itself (RFC 7519)
)


def address(config: Mapping[str, Any]) -> str:
    """``bootstrap.servers``.

    :raises InvalidRequest: there are none.
    """
    servers = config.get("bootstrap.servers") or config.get("metadata.broker.list")
    if not servers:
        raise InvalidRequest(('The Kafka connection has no "bootstrap.servers": set it to host:port.',))
    return str(servers)


def client_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that every client gets: without those of a member of a group."""
    return {name: value for name, value in config.items() if name not in _NOT_FOR_CLIENTS}


def consumer_settings(attempt_s: float) -> dict[str, Any]:
    """Settings of a consumer that looks up, reads and commits offsets, and never joins its group."""
    return {
        "enable.auto.commit": False,
        # A client that is destroyed waits for its commit: on the wire for the first, without a coordinator for the
        # second of these, which are 60 s and 45 s by default.
        "socket.timeout.ms": max(1000, int(attempt_s * 1000)),
        "session.timeout.ms": 1000,
        "fetch.wait.max.ms": 10,  # librdkafka refuses more than socket.timeout.ms - 1000
    }


def check_group_id(group_id: str) -> None:
    """Refuse a name that librdkafka does not refuse: its assertions end the process, or it asks for another group.

    :raises InvalidRequest: empty, not UTF-8, too long, or cut off by librdkafka (leading white space, NUL).
    """
    size = len(group_id.encode(errors="replace"))
    problem = None
    if not group_id.strip(_SPACE):
        problem = "is empty"
    elif group_id[0] in _SPACE or "\0" in group_id:
        problem = "begins with white space or contains NUL, where librdkafka cuts it: it would use another group"
    elif group_id != group_id.encode(errors="ignore").decode():
        problem = "cannot be written as UTF-8"
    elif size > _GROUP_ID_BYTES:
        problem = f"has {size} bytes, and Kafka takes {_GROUP_ID_BYTES}"
    if problem:
        raise InvalidRequest((f"group_id {group_id[:80]!a} {problem}.",))


def mask(text: str, config: Mapping[str, Any]) -> str:
    """``***`` in place of each secret value of the settings, and of what looks like one."""
    known = [value for name, value in config.items() if isinstance(value, str) and _SECRET.search(name)]
    for value in sorted(known, key=len, reverse=True):
        if len(value) > 3:
            text = text.replace(value, "***")
    for pattern in _SECRETS:
        text = pattern.sub(r"\1***", text)
    return text


def mechanism(config: Mapping[str, Any]) -> str | None:
    """The SASL mechanism; ``None`` where the client does not log in by SASL."""
    if not str(config.get("security.protocol", "")).lower().startswith("sasl"):
        return None
    return str(config.get("sasl.mechanism") or config.get("sasl.mechanisms") or "GSSAPI").upper()


def principal(config: Mapping[str, Any], token: tuple[Any, ...] | None) -> str:
    """Who the client is for the brokers' ACLs, as far as its settings say it; worded as an object of a sentence.

    :param token: what ``oauth_cb`` returned last.
    """
    name = None
    if mechanism(config) == "OAUTHBEARER":
        name = _subject(token) if token else None
    elif mechanism(config):
        name = config.get("sasl.username")
    elif str(config.get("security.protocol", "plaintext")).lower() == "plaintext":
        name = "ANONYMOUS"
    return f"User:{name}" if name else "the principal of this client's certificate or token"


def _subject(token: tuple[Any, ...]) -> str | None:
    """The claim ``sub``, which is what brokers take by default (KIP-768)."""
    try:
        payload = str(token[0]).split(".")[1]
        return str(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["sub"])
    except (IndexError, KeyError, TypeError, ValueError):  # opaque
        return token[2] if len(token) > 2 else None
