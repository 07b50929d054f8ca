"""A client's principal, the name that ACLs use, as far as the client's own settings say it.

The brokers may map names (``ssl.principal.mapping.rules``, ``principal.builder.class``), which no client can see.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.broker.tokens import Token
from airflow_kafka_offsets.refusal_reasons import claims_of, mechanism_of, uses_sasl, uses_tls


def principal_of(config: Mapping[str, Any], token: Token | None) -> str | None:
    """``User:alice``; ``None`` where the settings do not say.

    :param token: of OAUTHBEARER, as ``oauth_cb`` gives it.
    """
    if uses_sasl(config):
        name = _of_token(token) if mechanism_of(config) == "OAUTHBEARER" else config.get("sasl.username")
    elif uses_tls(config):
        name = _of_certificate(config)
    else:
        name = "ANONYMOUS"
    return f"User:{name}" if name else None


def _of_token(token: Token | None) -> str | None:
    """The claim ``sub``, which is what brokers take by default (KIP-768)."""
    if token is None:
        return None
    name = claims_of(str(token[0])).get("sub") or (token[2] if len(token) > 2 else None)
    return str(name) if name else None


def _of_certificate(config: Mapping[str, Any]) -> str | None:
    """The certificate's subject as Java writes it (RFC 2253); ``ANONYMOUS`` where there is no certificate."""
    if not any(config.get(f"ssl.{name}") for name in ("certificate.location", "certificate.pem", "keystore.location")):
        return "ANONYMOUS"
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

        if config.get("ssl.keystore.location"):
            password = str(config.get("ssl.keystore.password", "")).encode() or None
            found = load_pkcs12(Path(config["ssl.keystore.location"]).read_bytes(), password).cert
            certificate = found.certificate if found else None
        else:
            pem = config.get("ssl.certificate.pem") or Path(config["ssl.certificate.location"]).read_text()
            certificate = x509.load_pem_x509_certificate(pem.encode())
        return certificate.subject.rfc4514_string() if certificate else None
    except (ImportError, OSError, ValueError):
        return None
