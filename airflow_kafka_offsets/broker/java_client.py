"""librdkafka's settings → those of Kafka's Java client, which Spark reads with; a table without I/O.

Three rules decide about a setting:

- what says where the cluster is, who this client is and whom it trusts is translated, or refused by its name: a client
  that trusts more than its settings say, or is somebody else, is worse than none;
- what the chosen ``security.protocol`` does not use is left out, as librdkafka leaves it out;
- everything else is left out: time-outs, buffers, callbacks, and what belongs to a consumer or producer. It was chosen
  for another client, or the plan decides it.

Names of classes and ``sasl.jaas.config`` are not taken from a connection: they would be code of whoever may edit one.

Source of the Java names: Kafka's documentation of 3.9 (``AdminClientConfig``, ``OAuthBearerLoginCallbackHandler``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from airflow_kafka_offsets.errors import refuse

BOOTSTRAP_SERVERS = "bootstrap.servers"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"

_LOGIN = "org.apache.kafka.common.security"
_OWN_FILE = 'Give Spark a client.properties of its own: kafka={"file": "/path/on/the/driver"}.'
_SAME_NAME = {  # in both clients, or in the Java client alone: a connection that only Spark uses may name its stores
    "client.dns.lookup",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "ssl.key.password",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
}
_TRANSLATED = {  # by the functions below
    "enable.ssl.certificate.verification",
    "https.ca.location",
    "https.ca.pem",
    "oauth_cb",
    "sasl.kerberos.keytab",
    "sasl.kerberos.principal",
    "sasl.kerberos.service.name",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.grant.type",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.pem",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.pem",
}
_IDLE = {  # without a meaning for Java's client, or beside the mechanisms that are translated
    "enable.sasl.oauthbearer.unsecure.jwt",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.oauthbearer.config",
}
_OF_SECURITY = re.compile(r"(ssl|sasl|https|security|enable\.ssl|enable\.sasl)\.|ssl_|oauth")
_MSK = re.compile(r"\.kafka(-serverless)?\.[a-z0-9-]+\.amazonaws\.com(\.cn)?(:\d+)?\s*(,|$)", re.IGNORECASE)


def java_client(settings: Mapping[str, Any]) -> dict[str, str]:
    """The Java client's settings (``client.properties``) of a librdkafka configuration; with secrets, as that has them.

    :param settings: of an Airflow Kafka connection. Certificates and keys are text (``ssl.certificate.pem``): Java
        wants both in one file, librdkafka in two, so a location has no counterpart.
    :raises InvalidRequest: naming each setting that has no counterpart; never its value.
    """
    given = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings.items()
        if value is not None
    }
    protocol = given.get("security.protocol", "plaintext").upper()
    problems: list[str] = []
    java = {}
    servers = given.get(BOOTSTRAP_SERVERS) or given.get("metadata.broker.list")
    if servers:
        java[BOOTSTRAP_SERVERS] = servers
    if "client.dns.lookup" in given:
        java["client.dns.lookup"] = given["client.dns.lookup"]
    if protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        problems.append("security.protocol is none of plaintext, ssl, sasl_plaintext, sasl_ssl.")
    if protocol != "PLAINTEXT":
        java["security.protocol"] = protocol
    if protocol.endswith("SSL"):
        java |= _tls(given, problems)
    if protocol.startswith("SASL"):
        java |= _sasl(given, servers or "", problems)
    problems += _without_counterpart(given, protocol)
    refuse([f"{problem} {_OWN_FILE}" for problem in problems])
    return java


def is_secured(java: Mapping[str, str]) -> bool:
    """Whether a client needs more than an address."""
    return "security.protocol" in java


def system_properties(java: Mapping[str, str]) -> dict[str, str]:
    """What the JVM of each of these clients needs: Kafka 4, and 3.9 from 3.9.1 on, ask no unknown URL."""
    url = java.get("sasl.oauthbearer.token.endpoint.url")
    return {ALLOWED_URLS: url} if url else {}


def jaas(module: str, options: Mapping[str, str]) -> str:
    """A JAAS line. Kafka reads it with ``java.io.StreamTokenizer``, which ends a string at a line's end."""
    return " ".join([module, "required", *(f"{name}={_quoted(value)}" for name, value in options.items())]) + ";"


def as_properties(values: Mapping[str, str]) -> str:
    """The text of a file that ``java.util.Properties`` loads; all of it ASCII, whatever the values are."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in values.items())


def _tls(given: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    java = {name: value for name, value in given.items() if name in _SAME_NAME and name.startswith("ssl.")}
    if given.get("enable.ssl.certificate.verification", "true").lower() == "false":
        problems.append("enable.ssl.certificate.verification is false, and the Java client always verifies.")
    algorithm = given.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        java["ssl.endpoint.identification.algorithm"] = "" if algorithm.lower() == "none" else algorithm
    java |= _authorities(given)
    if "ssl.certificate.pem" in given or "ssl.key.pem" in given:
        missing = [name for name in ("ssl.certificate.pem", "ssl.key.pem") if name not in given]
        problems += [f"{name} is missing: a certificate and its key go together." for name in missing]
        java["ssl.keystore.type"] = "PEM"
        java["ssl.keystore.certificate.chain"] = given.get("ssl.certificate.pem", "")
        java["ssl.keystore.key"] = given.get("ssl.key.pem", "")
    elif "ssl.keystore.location" in java:
        java.setdefault("ssl.keystore.type", "PKCS12")  # librdkafka knows no other
    else:
        java.pop("ssl.key.password", None)
    return java


def _authorities(given: Mapping[str, str], of: str = "ssl") -> dict[str, str]:
    """Whom to trust. Without it each client has its own list: librdkafka the machine's, Java mostly that too."""
    if f"{of}.ca.pem" in given:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": given[f"{of}.ca.pem"]}
    location = given.get(f"{of}.ca.location", "probe")
    return {} if location == "probe" else {"ssl.truststore.type": "PEM", "ssl.truststore.location": location}


def _sasl(given: Mapping[str, str], servers: str, problems: list[str]) -> dict[str, str]:
    mechanism = given.get("sasl.mechanism") or given.get("sasl.mechanisms") or "GSSAPI"
    if mechanism == "OAUTHBEARER":
        if given.get("sasl.oauthbearer.method", "default").lower() == "oidc":
            return _oidc(given, problems)
        if "oauth_cb" in given and _MSK.search(servers):
            mechanism = "AWS_MSK_IAM"
        elif "oauth_cb" in given:
            problems.append("oauth_cb is a function of Python, which Spark cannot call.")
        else:
            problems.append("sasl.mechanism is OAUTHBEARER and nothing gives a token: no sasl.oauthbearer.method=oidc.")
    if mechanism == "AWS_MSK_IAM":
        return {
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas("software.amazon.msk.auth.iam.IAMLoginModule", {}),
            "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        }
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    if mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        user, password = _wanted(given, mechanism, problems, "sasl.username", "sasl.password")
        line = jaas(f"{_LOGIN}.{module}", {"username": user, "password": password})
        return {"sasl.mechanism": mechanism, "sasl.jaas.config": line}
    if mechanism == "GSSAPI":
        return _kerberos(given, problems)
    if mechanism != "OAUTHBEARER":
        problems.append(f"sasl.mechanism {mechanism} is not translated.")
    return {}


def _wanted(given: Mapping[str, str], mechanism: str, problems: list[str], *names: str) -> list[str]:
    """Their values; each that is missing is a problem."""
    problems += [f"{name} is missing, which {mechanism} needs." for name in names if not given.get(name)]
    return [given.get(name, "") for name in names]


def _kerberos(given: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    """A login by keytab, which Java makes itself (``kinit.cmd`` is librdkafka's way); it finds the KDC in krb5.conf."""
    keytab, principal = _wanted(given, "GSSAPI", problems, "sasl.kerberos.keytab", "sasl.kerberos.principal")
    login = {"useKeyTab": "true", "storeKey": "true", "doNotPrompt": "true", "keyTab": keytab, "principal": principal}
    return {
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": given.get("sasl.kerberos.service.name", "kafka"),  # librdkafka's default
        "sasl.jaas.config": jaas("com.sun.security.auth.module.Krb5LoginModule", login),
    }


def _oidc(given: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    """KIP-768. The token server's own authorities are options of the login, not the client's (``JaasOptionsUtils``)."""
    if given.get("sasl.oauthbearer.grant.type", "client_credentials") != "client_credentials":
        problems.append("sasl.oauthbearer.grant.type has client_credentials alone as a counterpart.")
    found = {}
    for option, names in (
        ("clientId", ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id")),
        ("clientSecret", ("sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret")),
    ):
        found[option] = next((given[name] for name in names if given.get(name)), "")
        if not found[option]:
            problems.append(f"{names[0]} is missing, which sasl.oauthbearer.method=oidc needs.")
    url = "sasl.oauthbearer.token.endpoint.url"
    if not given.get(url):
        problems.append(f"{url} is missing, which sasl.oauthbearer.method=oidc needs.")
    if given.get("sasl.oauthbearer.scope"):
        found["scope"] = given["sasl.oauthbearer.scope"]
    for pair in filter(None, given.get("sasl.oauthbearer.extensions", "").split(",")):
        name, _, value = pair.partition("=")
        if not re.fullmatch("[A-Za-z]+", name):  # RFC 7628, which both clients keep to
            problems.append("sasl.oauthbearer.extensions is not name=value,…")
            continue
        found[f"extension_{name}"] = value
    java = {name: given[name] for name in (url, "sasl.oauthbearer.sub.claim.name") if name in given}
    return java | {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{_LOGIN}.oauthbearer.OAuthBearerLoginCallbackHandler",
        "sasl.jaas.config": jaas(
            f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule", found | _authorities(given, of="https")
        ),
    }


def _without_counterpart(given: Mapping[str, str], protocol: str) -> list[str]:
    """One sentence for each setting that matters to this protocol and was not translated."""
    known = _SAME_NAME | _TRANSLATED | _IDLE
    unknown = sorted(name for name in given if _OF_SECURITY.match(name) and name not in known)
    return [
        f"{name} has no counterpart in Kafka's Java client, which Spark reads with."
        for name in unknown
        if (protocol.startswith("SASL") if re.match(r"(enable\.)?(sasl|oauth)", name) else protocol.endswith("SSL"))
    ]


def _quoted(value: str) -> str:
    for character, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        value = value.replace(character, escape)
    return f'"{value}"'


def _escaped(value: str) -> str:
    """Each of what is no printable ASCII, and a blank at the beginning, as ``\\uXXXX`` (UTF-16, two for the rest)."""
    units = value.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[i : i + 2]) for i in range(0, len(units), 2)]
    is_plain = [(0x20 < code < 0x7F and code != 0x5C) or (code == 0x20 and at > 0) for at, code in enumerate(codes)]
    return "".join(chr(c) if plain else f"\\u{c:04x}" for c, plain in zip(codes, is_plain, strict=True))
