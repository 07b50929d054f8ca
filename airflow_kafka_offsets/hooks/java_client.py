# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""librdkafka's settings → those of Kafka's Java client, which Spark reads with; a table without I/O.

Settings for address, identity and trust are translated, or refused by name: a client with a wrong identity or wider
trust is worse than none. Settings that the ``security.protocol`` does not use, time-outs, buffers and callbacks are
ignored. Names of classes and ``sasl.jaas.config`` are not taken from a connection: they would let its editor run code.

Source of the Java names: Kafka's documentation of 3.9 (``AdminClientConfig``, ``OAuthBearerLoginCallbackHandler``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from airflow_kafka_offsets.errors import InvalidRequest

_LOGIN = "org.apache.kafka.common.security"
_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
_MSK = re.compile(r"\.kafka(-serverless)?\.[a-z0-9-]+\.amazonaws\.com(\.cn)?(:\d+)?\s*(,|$)", re.IGNORECASE)
_TLS = {
    "enable.ssl.certificate.verification",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.pem",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.pem",
    "ssl.keystore.location",
    "ssl.keystore.password",
}
_SASL = {
    "enable.sasl.oauthbearer.unsecure.jwt",
    "https.ca.location",
    "https.ca.pem",
    "oauth_cb",
    "sasl.kerberos.keytab",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.principal",
    "sasl.kerberos.service.name",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope",
    _TOKEN_URL,
    "sasl.password",
    "sasl.username",
}


def java_client(settings: Mapping[str, Any]) -> dict[str, str]:
    """The Java client's settings (``client.properties``), with secrets; no more than the address without security.

    :param settings: of a Kafka connection. Certificates and keys are text (``ssl.certificate.pem``): Java wants both in
        one file, librdkafka in two, so a location has no counterpart.
    :raises InvalidRequest: naming each setting that has no counterpart; never its value.
    """
    given = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in settings.items() if v is not None}
    protocol = given.get("security.protocol", "plaintext").upper()
    java = {"bootstrap.servers": given["bootstrap.servers"]}
    problems: list[str] = []
    if protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        problems.append("security.protocol is none of plaintext, ssl, sasl_plaintext, sasl_ssl")
    if protocol != "PLAINTEXT":
        java["security.protocol"] = protocol
    if protocol.endswith("SSL"):
        java |= _tls(given, problems)
        problems += _unknown(given, r"(enable\.)?ssl[._]", _TLS)
    if protocol.startswith("SASL"):
        java |= _sasl(given, problems)
        problems += _unknown(given, r"(enable\.)?sasl\.|oauth|https\.", _SASL)
    if problems:
        own = 'Name a client.properties of the driver: {"spark.kafka_offsets.client_properties": "/path"} in conf.'
        raise InvalidRequest(tuple(f"Spark cannot use the Kafka connection: {problem}. {own}" for problem in problems))
    return java


def is_secured(java: Mapping[str, str]) -> bool:
    """Whether a client needs more than an address."""
    return "security.protocol" in java


def system_properties(java: Mapping[str, str]) -> dict[str, str]:
    """What the JVM of each of these clients needs: from 3.9.1 on, Kafka asks no token of an unknown URL."""
    return {_ALLOWED_URLS: java[_TOKEN_URL]} if _TOKEN_URL in java else {}


def as_properties(values: Mapping[str, str]) -> str:
    """The text of a file that ``java.util.Properties`` loads; all of it ASCII, whatever the values are."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in values.items())


def _unknown(given: Mapping[str, str], of: str, known: set[str]) -> list[str]:
    names = sorted(name for name in given if re.match(of, name) and name not in known)
    return [f"{name} has no counterpart in Kafka's Java client" for name in names]


def _tls(given: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    java = {name: given[name] for name in ("ssl.keystore.location", "ssl.keystore.password") if name in given}
    if "ssl.keystore.location" in java:
        java["ssl.keystore.type"] = "PKCS12"  # librdkafka knows no other
    if given.get("enable.ssl.certificate.verification", "true").lower() == "false":
        problems.append("enable.ssl.certificate.verification is false, and the Java client always verifies")
    algorithm = given.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        java["ssl.endpoint.identification.algorithm"] = "" if algorithm.lower() == "none" else algorithm
    if pair := {"ssl.certificate.pem", "ssl.key.pem"} & given.keys():
        problems += [f"{name} is missing" for name in ("ssl.certificate.pem", "ssl.key.pem") if name not in pair]
        java |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": given.get("ssl.certificate.pem", ""),
            "ssl.keystore.key": given.get("ssl.key.pem", ""),
        }
    return java | _authorities(given, "ssl")


def _authorities(given: Mapping[str, str], of: str) -> dict[str, str]:
    """Whom to trust. Without it each client has its own list: librdkafka the machine's, Java mostly that too."""
    if f"{of}.ca.pem" in given:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": given[f"{of}.ca.pem"]}
    location = given.get(f"{of}.ca.location", "probe")
    return {} if location == "probe" else {"ssl.truststore.type": "PEM", "ssl.truststore.location": location}


def _sasl(given: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    mechanism = given.get("sasl.mechanism") or given.get("sasl.mechanisms") or "GSSAPI"

    def needed(*names: str) -> list[str]:
        problems.extend(f"{name} is missing, which {mechanism} needs" for name in names if not given.get(name))
        return [given.get(name, "") for name in names]

    def java(module: str, options: Mapping[str, str], **more: str) -> dict[str, str]:
        login = " ".join([module, "required", *(f"{name}={_quoted(value)}" for name, value in options.items())])
        return {"sasl.mechanism": mechanism, "sasl.jaas.config": f"{login};", **more}

    if mechanism == "OAUTHBEARER" and given.get("sasl.oauthbearer.method", "default").lower() == "oidc":
        client, secret, url = needed("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret", _TOKEN_URL)
        options = {"clientId": client, "clientSecret": secret}
        if given.get("sasl.oauthbearer.scope"):
            options["scope"] = given["sasl.oauthbearer.scope"]
        for pair in filter(None, given.get("sasl.oauthbearer.extensions", "").split(",")):
            options[f"extension_{pair.partition('=')[0]}"] = pair.partition("=")[2]
        handler = f"{_LOGIN}.oauthbearer.OAuthBearerLoginCallbackHandler"
        more = {_TOKEN_URL: url, "sasl.login.callback.handler.class": handler}
        return java(f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule", options | _authorities(given, "https"), **more)
    if mechanism == "AWS_MSK_IAM" or ("oauth_cb" in given and _MSK.search(given["bootstrap.servers"])):
        mechanism, of_msk = "AWS_MSK_IAM", "software.amazon.msk.auth.iam.IAM"
        more = {"sasl.client.callback.handler.class": f"{of_msk}ClientCallbackHandler"}
        return java(f"{of_msk}LoginModule", {}, **more)
    if mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        user, password = needed("sasl.username", "sasl.password")
        return java(f"{_LOGIN}.{module}", {"username": user, "password": password})
    if mechanism == "GSSAPI":  # a login by keytab; Java finds the KDC in krb5.conf
        keytab, principal = needed("sasl.kerberos.keytab", "sasl.kerberos.principal")
        login = {"useKeyTab": "true", "storeKey": "true", "doNotPrompt": "true"}
        service = given.get("sasl.kerberos.service.name", "kafka")  # librdkafka's default
        return java(
            "com.sun.security.auth.module.Krb5LoginModule",
            {**login, "keyTab": keytab, "principal": principal},
            **{"sasl.kerberos.service.name": service},
        )
    problems.append(f"sasl.mechanism {mechanism} gets its tokens from Python (oauth_cb) or is not known")
    return {}


def _quoted(value: str) -> str:
    """Kafka reads a JAAS line with ``java.io.StreamTokenizer``, which ends a string at a line's end."""
    for character, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        value = value.replace(character, escape)
    return f'"{value}"'


def _escaped(value: str) -> str:
    """Each of what is no printable ASCII, and each blank, as ``\\uXXXX`` (UTF-16: two of them past the first plane)."""
    units = value.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[i : i + 2]) for i in range(0, len(units), 2)]
    return "".join(chr(code) if 0x20 < code < 0x7F and code != 0x5C else f"\\u{code:04x}" for code in codes)
