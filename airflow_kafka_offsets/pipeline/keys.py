"""The key of a batch that is planned now, with its four random characters."""

from __future__ import annotations

import secrets
import string

from airflow_kafka_offsets.offsets.batch.key import new_key

_CHARACTERS = string.ascii_lowercase + string.digits


def draw_key(number: int, now_ms: int) -> str:
    return new_key(number, now_ms, "".join(secrets.choice(_CHARACTERS) for _ in range(4)))
