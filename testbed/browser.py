"""A Chromium without a window: Debian's package, unpacked in the user's cache, driven by Playwright's Python package.

Playwright is no part of the tests' environment: `make test-browser` puts it into a folder of its own. It would fetch a
browser from a host of its own; Debian's is fetched as every other package is.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from testbed.cache import Say, silent
from testbed.debian_packages import unpacked

PROGRAM = "usr/lib/chromium/chromium-headless-shell"


@contextmanager
def chromium(say: Say = silent) -> Iterator[Any]:
    """Playwright's ``Browser``."""
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
