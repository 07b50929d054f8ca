"""Azure's Blob Storage on loopback: azurite, Microsoft's own, which honours `If-None-Match: *`.

npm installs it into a folder of the user's cache. It knows the blob API alone: no ``dfs`` endpoint, which Spark asks.
"""

import base64
import email.utils
import hashlib
import hmac
import subprocess
import urllib.request
from pathlib import Path

from testbed.cache import Say, silent, whole_folder
from testbed.http_server import HttpServer, needed_program

VERSION = "3.35.0"
ACCOUNT = "devstoreaccount1"
# Azurite's well-known key, the same for everybody: https://github.com/Azure/Azurite#default-storage-account
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class AzureServer(HttpServer):
    """See :class:`~testbed.http_server.HttpServer`."""

    what = "the Azure server"

    def __init__(self, say: Say = silent) -> None:
        super().__init__()
        self._node = needed_program("node", "the Azure server of the tests", "Node.js 20 or newer")
        self._folder = whole_folder(
            f"azurite-{VERSION}", _install, is_whole=lambda f: (f / "node_modules/azurite").is_dir(), say=say
        )

    @property
    def connection_string(self) -> str:
        return connection_string(self.endpoint)

    @property
    def environment(self) -> dict[str, str]:
        return environment_of(self.endpoint)

    def command(self, port: int) -> list[str]:
        program = self._folder / "node_modules/azurite/dist/src/blob/main.js"
        quiet = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
        return [self._node, str(program), "--blobHost", "127.0.0.1", "--blobPort", str(port), *quiet]

    def create_bucket(self, name: str) -> None:
        """A container. Signed by hand, so that the testbed needs none of Azure's packages."""
        date, version = email.utils.formatdate(usegmt=True), "2021-12-02"
        said = f"x-ms-date:{date}\nx-ms-version:{version}\n/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        signed = hmac.new(base64.b64decode(KEY), ("PUT" + "\n" * 12 + said).encode(), hashlib.sha256).digest()
        headers = {
            "x-ms-date": date,
            "x-ms-version": version,
            "Content-Length": "0",
            "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(signed).decode()}",
        }
        url = f"{self.endpoint}/{ACCOUNT}/{name}?restype=container"
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers, method="PUT"), timeout=30):
            pass


def environment_of(endpoint: str) -> dict[str, str]:
    return {"AZURE_STORAGE_ENDPOINT": f"{endpoint}/{ACCOUNT}", "AZURE_STORAGE_ACCOUNT_KEY": KEY}


def connection_string(endpoint: str, key: str = KEY) -> str:
    """As Azure's portal gives it, for the server at `endpoint` or for a proxy before it."""
    return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={key};BlobEndpoint={endpoint}/{ACCOUNT};"


def _install(folder: Path) -> None:
    npm = needed_program("npm", "the Azure server of the tests", "Node.js 20 or newer, with npm")
    package = f"azurite@{VERSION}"
    command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), package]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{package} could not be installed:\n{done.stderr[-2000:]}")
