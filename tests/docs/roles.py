"""Docstrings have roles (``:class:`~package.module.Name` ``) and ``::`` before code; the site shows Markdown.

An extension of Griffe, which reads the docstrings for mkdocstrings (``mkdocs.yml``).
"""

import re

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod):`~?(?:[\w.]*\.)?(\w+)`")


class Roles(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring is not None:
            text = _ROLE.sub(r"`\1`", obj.docstring.value)
            obj.docstring.value = re.sub(r"::\n\n(?= )", ":\n\n", text)
