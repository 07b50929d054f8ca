"""A private certificate authority for a test, and the certificates that it signs; all of it PEM, in one folder."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
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
    pkcs12,
)
from cryptography.x509.oid import NameOID

_DAY = timedelta(days=1)


class Authority:
    """It signs for this machine's names, for two days.

    :ivar ca: the file that trusts it.
    """

    def __init__(self, folder: Path, name: str = "testbed CA") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        basic = x509.BasicConstraints(ca=True, path_length=None)
        self._certificate = self._builder(self._name, self._key.public_key()).add_extension(basic, True)
        signed = self._certificate.sign(self._key, hashes.SHA256())
        self._pem = signed.public_bytes(Encoding.PEM)
        self._signed = signed
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(self._pem)

    def issue(self, name: str, password: str | None = None) -> tuple[Path, Path]:
        """Certificate and key of `CN=name`; the key is encrypted where there is a password, in PKCS#8 in any case."""
        key, signed = self._issue(name)
        encryption: KeySerializationEncryption = NoEncryption()
        if password is not None:
            encryption = BestAvailableEncryption(password.encode())
        certificate, key_file = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        certificate.write_bytes(signed.public_bytes(Encoding.PEM))
        key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        key_file.chmod(0o600)
        return certificate, key_file

    def issue_keystore(self, name: str, password: str) -> Path:
        """Certificate and key in one PKCS#12 file."""
        key, signed = self._issue(name)
        file = self._folder / f"{name}.p12"
        encryption = BestAvailableEncryption(password.encode())
        content = pkcs12.serialize_key_and_certificates(name.encode(), key, signed, [self._signed], encryption)
        file.write_bytes(content)
        return file

    def _issue(self, name: str) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        key = ec.generate_private_key(ec.SECP256R1())
        hosts = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
        return key, self._builder(_named(name), key.public_key()).add_extension(hosts, False).sign(
            self._key, hashes.SHA256()
        )

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        return (
            builder.serial_number(x509.random_serial_number()).not_valid_before(now - _DAY).not_valid_after(now + _DAY)
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
