"""The README as a package index shows it: links into the repository and pictures of it lead nowhere there.

Everything else is in pyproject.toml.
"""

import re
from pathlib import Path

from setuptools import setup

_INTO_THE_REPOSITORY = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://)[^)]*\)")

readme = Path(__file__).with_name("README.md").read_text()
setup(
    long_description=_INTO_THE_REPOSITORY.sub(lambda link: "" if link[1] else link[2], readme),
    long_description_content_type="text/markdown",
)
