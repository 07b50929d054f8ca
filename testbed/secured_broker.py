"""A real broker as in production: a private CA, listeners of TLS, and nobody may do what no ACL allows.

`scram` is SASL_SSL with SCRAM-SHA-512, `mtls` is TLS with clients' certificates (the principal is their CN), `oauth` is
SASL_SSL with OAUTHBEARER and a token server. The listener without authentication is the test's own: its principal,
ANONYMOUS, is a super user.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from testbed.broker import BrokerFailed, KafkaBroker
from testbed.cache import Say, silent
from testbed.certificates import Authority
from testbed.jars import KAFKA
from testbed.java import Java
from testbed.ports import free_ports
from testbed.token_server import AUDIENCE, TokenServer

LISTENERS = ("scram", "mtls", "oauth")
ATTEMPTS = 3
Right = tuple[str, str, str]
"""What, its name, the operation: `("topic", "orders", "read")`."""


class SecuredBroker:
    """A broker, its authority and its token server, in a `with` block.

    :param passwords: of the users of `scram`, and the secrets of the clients of `oauth`, by name.
    :param version: Kafka's.
    """

    def __init__(
        self,
        folder: Path,
        passwords: Mapping[str, str],
        java: Java,
        say: Say = silent,
        version: str = KAFKA,
    ) -> None:
        self.folder = folder
        self.passwords = dict(passwords)
        self.authority = Authority(folder / "pki")
        self._own = self.authority.sign("broker")
        self.tokens = TokenServer(passwords, self._own.certificate, self._own.key)
        self._keys = folder / "jwks.json"
        self._java, self._say, self._version = java, say, version
        self.plain: KafkaBroker
        self._ports: dict[str, int] = {}

    def address(self, listener: str) -> str:
        return f"localhost:{self._ports[listener]}"

    def connection(self, listener: str, name: str) -> dict[str, Any]:
        """librdkafka's settings of that principal."""
        trust = {"bootstrap.servers": self.address(listener), "ssl.ca.location": str(self.authority.ca)}
        if listener == "mtls":
            signed = self.authority.sign(name, password=self.passwords[name])
            own = {"ssl.certificate.location": str(signed.certificate), "ssl.key.location": str(signed.key)}
            return {**trust, **own, "security.protocol": "ssl", "ssl.key.password": self.passwords[name]}
        if listener == "scram":
            user = {"sasl.username": name, "sasl.password": self.passwords[name]}
            return {**trust, **user, "security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-512"}
        return {
            **trust,
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": self.tokens.token_url,
            "sasl.oauthbearer.client.id": name,
            "sasl.oauthbearer.client.secret": self.passwords[name],
            "sasl.oauthbearer.scope": "kafka",
            "https.ca.location": str(self.authority.ca),
        }

    def allow(self, name: str, *rights: Right) -> None:
        if rights:
            self._ask(lambda admin: admin.create_acls(_bindings(name, rights)))

    def deny(self, name: str, *rights: Right) -> None:
        """Take rights back."""
        filters = [_filter(binding) for binding in _bindings(name, rights)]
        self._ask(lambda admin: admin.delete_acls(filters))

    def __enter__(self) -> Self:
        self.tokens.__enter__()
        for attempt in range(1, ATTEMPTS + 1):
            broker, controller, *ports = free_ports(2 + len(LISTENERS))
            self._ports = dict(zip(LISTENERS, ports, strict=True))
            settings = self._settings(broker, controller)
            self.plain = KafkaBroker(
                self.folder / f"kafka-{attempt}",
                config=settings,
                ports=(broker, controller),
                jvm=[f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._keys.as_uri()}"],
                version=self._version,
                java=self._java,
                say=self._say,
            )
            try:
                self.plain.start()
                break
            except BrokerFailed as error:
                self.plain.close()
                if "taken" not in error.what or attempt == ATTEMPTS:
                    self.tokens.__exit__()
                    raise
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        users = [UserScramCredentialUpsertion(n, info, p.encode()) for n, p in self.passwords.items()]
        self._ask(lambda admin: admin.alter_user_scram_credentials(users))
        return self

    def __exit__(self, *_: object) -> None:
        self.plain.close()
        self.tokens.__exit__()

    def _settings(self, broker: int, controller: int) -> dict[str, str]:
        self._keys.write_text(self.tokens.keys())
        protocols = {name: "SSL" if name == "mtls" else "SASL_SSL" for name in LISTENERS}
        own = [f"{name.upper()}://localhost:{self._ports[name]}" for name in LISTENERS]
        listeners = [f"PLAINTEXT://127.0.0.1:{broker}", *own]
        security = "org.apache.kafka.common.security"
        oauth = "listener.name.oauth.oauthbearer.sasl"
        return {
            "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{controller}"]),
            "advertised.listeners": ",".join(listeners),
            "listener.security.protocol.map": ",".join(
                ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", *(f"{n.upper()}:{p}" for n, p in protocols.items())]
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "delegation.token.secret.key": "of-the-tests",  # with one, brokers make tokens
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._own.both),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.ca),
            "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.scram.scram-sha-512.sasl.jaas.config": f"{security}.scram.ScramLoginModule required;",
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.mtls.ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
            "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{oauth}.jaas.config": f"{security}.oauthbearer.OAuthBearerLoginModule required;",
            f"{oauth}.server.callback.handler.class": f"{security}.oauthbearer.OAuthBearerValidatorCallbackHandler",
            # By default nothing of a token is verified, key, audience and issuer included.
            "listener.name.oauth.sasl.oauthbearer.jwt.validator.class": f"{security}.oauthbearer.BrokerJwtValidator",
            "listener.name.oauth.sasl.oauthbearer.jwks.endpoint.url": self._keys.as_uri(),
            "listener.name.oauth.sasl.oauthbearer.expected.audience": AUDIENCE,
            "listener.name.oauth.sasl.oauthbearer.expected.issuer": self.tokens.url,
        }

    def _ask(self, what: Callable[[AdminClient], Mapping[Any, Any]]) -> None:
        admin = self.plain.admin()  # kept until the futures have resolved
        for future in what(admin).values():
            future.result(30)


def _bindings(name: str, rights: Sequence[Right]) -> list[AclBinding]:
    return [
        AclBinding(
            ResourceType[kind.upper()],
            resource,
            ResourcePatternType.LITERAL,
            f"User:{name}",
            "*",
            AclOperation[operation.upper()],
            AclPermissionType.ALLOW,
        )
        for kind, resource, operation in rights
    ]


def _filter(binding: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )
