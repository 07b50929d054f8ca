"""Removes secrets from what client libraries and brokers say about a connection."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_OF_A_SECRET = re.compile(r"password|secret|\.key\.pem|ssl\.key$|oauthbearer\.config|assertion\.private", re.IGNORECASE)
_WORD = r"[\w.-]*(?:password|passwd|secret|token|signature|assertion|credential|api[-_]?key)[\w.-]*"
_PATTERNS = (
    re.compile(rf"({_WORD}=)[^&\s\"',;)}}]+", re.IGNORECASE),  # of a query or of settings
    re.compile(rf"([\"']{_WORD}[\"']\s*:\s*[\"'])[^\"']+", re.IGNORECASE),  # of JSON
    re.compile(r"((?:bearer|basic)\s+)[\w.~+/-]{8,}=*", re.IGNORECASE),  # of a header
    re.compile(r"(://)[^/\s@]+(?=@)"),  # of an address
    re.compile(r"()eyJ[\w-]{8,}(?:\.[\w-]*)*"),  # a token by itself (RFC 7519)
)


def mask(text: str, config: Mapping[str, Any], *more: str) -> str:
    """``***`` in place of each secret value of the settings, of ``more``, and of what looks like one."""
    known = [value for name, value in config.items() if isinstance(value, str) and _OF_A_SECRET.search(name)]
    for value in sorted([*known, *more], key=len, reverse=True):
        if len(value) > 3:
            text = text.replace(value, "***")
    for pattern in _PATTERNS:
        text = pattern.sub(r"\1***", text)
    return text
