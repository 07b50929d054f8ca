"""A private certificate authority and what it signs, in PEM files: for brokers and clients that speak TLS in a test."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

HERE = ("localhost", IPv4Address("127.0.0.1"))


@dataclass(frozen=True, slots=True)
class Signed:
    """A certificate and its key, each a PEM file.

    :ivar both: one file with both, as a broker's PEM key store is.
    """

    certificate: Path
    key: Path
    both: Path


class Authority:
    """A certificate authority that nobody else knows.

    :param folder: where its files go.
    :ivar ca: the PEM file of those who trust it (`ssl.ca.location`, `ssl.truststore.location`).
    """

    def __init__(self, folder: Path, name: str = "Testbed") -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self._now = datetime.now(UTC)
        made = self._builder(self._name, self._key, timedelta(days=1))
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def sign(
        self,
        name: str,
        *,
        hosts: Sequence[str | IPv4Address] = HERE,
        lives: timedelta = timedelta(days=1),
        password: str | None = None,
    ) -> Signed:
        """A certificate for `CN=name` and the hosts, and its key in PKCS#8.

        :param lives: until when from now; in the past: it has expired.
        :param password: encrypts the key.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName(host) if isinstance(host, str) else x509.IPAddress(host) for host in hosts]
        made = self._builder(_named(name), key, lives)
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = Signed(*(self._folder / f"{name}.{kind}.pem" for kind in ("certificate", "key", "both")))
        certificate = made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        closed: KeySerializationEncryption = NoEncryption()
        if password is not None:
            closed = BestAvailableEncryption(password.encode())
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, closed)
        contents = {signed.certificate: certificate, signed.key: secret, signed.both: secret + certificate}
        for file, content in contents.items():
            file.touch(mode=0o600)
            file.write_bytes(content)
        return signed

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, lives: timedelta) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - timedelta(days=30))
            .not_valid_after(self._now + lives)
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
