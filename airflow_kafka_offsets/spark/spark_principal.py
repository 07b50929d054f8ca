"""Whom the brokers take Spark for, as far as the driver's own settings of Kafka's Java client say.

No secret of these settings is returned: a user name, a client id, or a certificate's subject. The brokers may map names
(``ssl.principal.mapping.rules``, ``principal.builder.class``), which no client can see.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def principal_of_spark(jvm: Any, options: Mapping[str, Any]) -> str:
    """``Spark's principal, User:spark``; ``Spark's principal`` where the settings do not say.

    :param jvm: Py4J's view of the driver's JVM, which reads a certificate: Python may have nothing there that can.
    :param options: of Spark's Kafka source: ``kafka.sasl.jaas.config`` and the like.
    """
    protocol = str(options.get("kafka.security.protocol", "PLAINTEXT")).upper()
    if protocol.startswith("SASL"):
        line = str(options.get("kafka.sasl.jaas.config", ""))
        if options.get("kafka.sasl.mechanism") == "OAUTHBEARER":  # brokers take the token's `sub`, which we do not see
            client = _of_jaas("clientId", line)
            return f"Spark's principal (OAUTHBEARER, client id {client})" if client else "Spark's principal"
        name = _of_jaas("username", line)
    else:
        name = _of_certificate(jvm, options) if protocol == "SSL" else "ANONYMOUS"
    return f"Spark's principal, User:{name}" if name else "Spark's principal"


def _of_jaas(option: str, line: str) -> str | None:
    """An option's value, which may be written with quotes: ``java.io.StreamTokenizer``."""
    found = re.search(rf"""(?:^|\s){option}\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))""", line)
    return (found and re.sub(r"\\(.)", r"\1", next(filter(None, found.groups()), ""))) or None


def _of_certificate(jvm: Any, options: Mapping[str, Any]) -> str | None:
    """The subject of the first certificate (RFC 2253). A PKCS12 or JKS file is not opened for it."""
    from py4j.protocol import Py4JJavaError

    text = str(options.get("kafka.ssl.keystore.certificate.chain", ""))
    location = options.get("kafka.ssl.keystore.location")
    if not text and not location:
        return "ANONYMOUS"
    try:
        if not text and str(options.get("kafka.ssl.keystore.type", "")).upper() == "PEM":
            text = Path(str(location)).read_text()
        found = _CERTIFICATE.search(text)
        if found is None:
            return None
        stream = jvm.java.io.ByteArrayInputStream(found[0].encode())
        certificate = jvm.java.security.cert.CertificateFactory.getInstance("X.509").generateCertificate(stream)
        return str(certificate.getSubjectX500Principal().getName())
    except (OSError, ValueError, Py4JJavaError):
        return None
