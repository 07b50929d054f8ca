"""What a token says of itself (RFC 7519): brokers refuse one without saying why, and only their log knows."""

from __future__ import annotations

import base64
import json
import re
import time
from typing import Any

from airflow_kafka_offsets.errors import ClusterUnavailable

_REFUSED = re.compile(r'"status":\s*"\w+"')  # RFC 7628, 3.2.2
_CLAIMS = {"iss": "issuer", "aud": "audience", "sub": "subject", "scope": "scope"}
_SHOWN = 200  # characters of a claim


def claims_of(token: str) -> dict[str, Any]:
    """Its claims; none where it is opaque: only the token's server can read it."""
    try:
        payload = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def refusal_of_token(where: str, reason: str, token: str | None) -> ClusterUnavailable | None:
    """The error, if ``reason`` is a broker's answer to a token, or the token has expired.

    :param where: the beginning of the error's sentence.
    :param token: ``None`` where this client does not see it.
    """
    claims = claims_of(token or "")
    times = {name: claims[name] for name in ("nbf", "exp") if isinstance(claims.get(name), int | float)}
    now = time.time()
    has_expired = times.get("exp", now + 1) <= now
    if not has_expired and not _REFUSED.search(reason):
        return None
    words = [f"{word} {claims[name]!r:.{_SHOWN}}" for name, word in _CLAIMS.items() if name in claims]
    if has_expired:
        words.append(f"it has expired {now - times['exp']:.0f} s ago by this machine's clock")
    if times.get("nbf", now) > now:
        words.append(f"it is valid from {times['nbf'] - now:.0f} s from now on by this machine's clock")
    return ClusterUnavailable(
        where,
        f"the token is not accepted ({reason})" + (f"; it has {', '.join(words)}" if words else ""),
        "The broker's log says why. Check the token against the broker's settings: sasl.oauthbearer.expected.issuer, "
        "sasl.oauthbearer.expected.audience, the keys at sasl.oauthbearer.jwks.endpoint.url, and its clock.",
    )
