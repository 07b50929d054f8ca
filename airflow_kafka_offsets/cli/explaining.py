"""``explain``: the page of an error. It asks nobody: the pages come with the package."""

from __future__ import annotations

from airflow_kafka_offsets.cli.inputs import Options
from airflow_kafka_offsets.cli.render import Page, Table, show
from airflow_kafka_offsets.error_pages import explained, find_explained, first_sentence, page_of
from airflow_kafka_offsets.errors import InvalidRequest


def explain(options: Options) -> int:
    """The page of the code; without one, a line for each."""
    asked, output = options.get("code"), options.get("output")
    if asked is None:
        rows = [(kind.code, kind.__name__, first_sentence(kind)) for kind in explained()]
        show(Page([Table(("code", "error", "what it says"), rows, "errors")]), output)
        return 0
    kind = find_explained(asked)
    if kind is None:
        raise InvalidRequest((f"{asked!r} is no code of an error; use one of those that kafka-offsets explain lists.",))
    if output in (None, "table"):
        print(page_of(kind), end="")
    else:
        show(Page([Table(("code", "error", "page"), [(kind.code, kind.__name__, page_of(kind))], "errors")]), output)
    return 0
