"""A Chromium without a window: Debian's package, unpacked in the user's cache, driven by Playwright's Python package.

Playwright would fetch a browser from a host of its own; Debian's is fetched as other packages are. Playwright itself
is no part of the tests' environment: it is installed in the cache, as ``tests/browser/requirements.lock`` pins it.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testbed.cache import Say, silent, whole_folder
from testbed.debian_packages import unpacked

PROGRAM = "usr/lib/chromium/chromium-headless-shell"
LOCK = Path(__file__).parents[1] / "tests" / "browser" / "requirements.lock"


@contextmanager
def chromium(say: Say = silent) -> Iterator[Any]:
    """Playwright's ``Browser``."""
    install_playwright(say)
    from playwright.sync_api import sync_playwright

    root = unpacked("chromium-headless-shell", say)
    libraries = root / "usr/lib/x86_64-linux-gnu"
    path = os.pathsep.join([str(libraries), str(libraries / "pulseaudio"), os.environ.get("LD_LIBRARY_PATH", "")])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=root / PROGRAM, env={**os.environ, "LD_LIBRARY_PATH": path.rstrip(os.pathsep)}
        )
        try:
            yield browser
        finally:
            browser.close()


def install_playwright(say: Say = silent) -> None:
    """Make Playwright and axe importable in this process."""
    name = f"playwright-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"

    def fill(folder: Path) -> None:
        say("Installing Playwright in the cache, once …")
        uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--python", sys.executable]
        subprocess.run([*uv, "--target", str(folder), "--require-hashes", "-r", str(LOCK)], check=True)

    folder = str(whole_folder(name, fill, is_whole=Path.is_dir, say=say))
    if folder not in sys.path:
        sys.path.append(folder)
