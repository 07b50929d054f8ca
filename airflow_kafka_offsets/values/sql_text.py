"""What is wrong with a Spark SQL expression as far as its text shows it, without Spark.

A record must become the same row whenever it is read: a batch may be done again tomorrow, by another driver, and a
second look at Kafka decides what became of each record. So whatever depends on the moment, on the machine or on other
records is refused. Spark itself finds the rest, on the driver, before anything is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_CHANGING = frozenset(
    re.findall(
        r"\w+",
        """
        rand randn random randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id input_file_name
        current_timestamp current_date current_time now curdate localtimestamp current_user user session_user
        current_timezone current_database current_schema current_catalog version
        """,
    )
)
_ALSO_WITHOUT_BRACKETS = _CHANGING & {
    "current_timestamp",
    "current_date",
    "current_time",
    "localtimestamp",
    "current_user",
    "session_user",
}
_OF_SEVERAL_ROWS = frozenset(
    re.findall(
        r"\w+",
        "explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple variant_explode",
    )
)
MOMENTS = "now|today|tomorrow|yesterday"
"""What Spark reads as a date or a time that is another one each day."""
_MOMENT = re.compile(rf"\b(date|timestamp(?:_ltz|_ntz)?)\s*['\"]\s*({MOMENTS})\b", re.IGNORECASE)
_NO_TEXT = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`""", re.DOTALL)
_WORD = re.compile(r"(?<![\w.`])([A-Za-z_]\w*)(\s*\()?")


def quoted(name: str) -> str:
    """A name as Spark's SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def expression_problems(what: str, text: object) -> list[str]:
    """Sentences that begin with ``what``; none where the text shows nothing wrong."""
    if not isinstance(text, str) or not text.strip():
        return [f"{what} is {text!r}; give a Spark SQL expression."]
    return [f"{what} {problem}." for problem in _problems(text)]


def _problems(text: str) -> Iterator[str]:
    bare = _NO_TEXT.sub("''", text)
    if not _is_balanced(bare):
        yield f"has a bracket or a quotation mark too many or too few: {text!r}"
        return
    if "--" in bare or "/*" in bare or ";" in bare:
        yield "has a comment or a semicolon in it; give one expression"
    if found := _MOMENT.search(text):
        yield f"uses {found[0]}', which is another value each time: a record must become the same row each time"
    for word, calls in _WORD.findall(bare):
        name = word.lower()
        if name in _CHANGING and (calls or name in _ALSO_WITHOUT_BRACKETS):
            yield f"uses {name}, which is another value each time: a record must become the same row each time"
        elif name == "unix_timestamp" and re.search(r"(?i)\bunix_timestamp\s*\(\s*\)", bare):
            yield "uses unix_timestamp(), which is the time now: give it a column"
        elif calls and name in _OF_SEVERAL_ROWS:
            yield (
                f"uses {name}, which makes several rows of one record: then nothing shows that each record is in the "
                "output once. Keep the array, and make rows of it in a view, or in a job behind the commit"
            )
        elif name in ("select", "over"):
            yield f"uses {name.upper()}: an expression sees one record, and no other rows"


def _is_balanced(bare: str) -> bool:
    depth = 0
    for character in bare:
        depth += (character in "([") - (character in ")]")
        if depth < 0:
            return False
    return depth == 0 and '"' not in bare and "`" not in bare and bare.count("'") % 2 == 0
