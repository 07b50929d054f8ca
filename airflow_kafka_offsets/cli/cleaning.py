"""``clean``: what is old goes from the work store."""

from __future__ import annotations

import sys
from contextlib import suppress

from airflow_kafka_offsets.cli.inputs import Options, work_store
from airflow_kafka_offsets.cli.render import Table, render
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.request.times import iso, parse_duration_ms
from airflow_kafka_offsets.planner import now_ms
from airflow_kafka_offsets.stores.retention import KINDS, find_old, remove

_DAY_MS = 86_400_000


def clean(options: Options) -> int:
    """How many objects of each kind are older than ``--keep``, and their bytes; with ``--execute`` they are gone."""
    before_ms = now_ms() - _keep_ms(options.get("keep") or _configured_days())
    store = work_store(options)
    old = find_old(store, before_ms)
    dry_run = not options.get("execute")
    if not dry_run:
        remove(store, old)
    rows = []
    for kind in KINDS:
        sizes = [removal.size for removal in old if removal.kind == kind]
        rows.append((kind, len(sizes), sum(sizes)))
    verb = "would be" if dry_run else "were"
    summary = f"{len(old)} objects from before {iso(before_ms)} {verb} removed from {store.uri}"
    facts = {"work_store": store.uri, "before_ms": before_ms, "dry_run": dry_run}
    print(render(Table(("kind", "objects", "bytes"), rows, facts, summary, "kinds"), options.get("output")))
    if dry_run and old:
        print("This was a dry run: nothing was removed. --execute removes them.", file=sys.stderr)
    return 0


def _keep_ms(keep: str | None) -> int:
    if keep is None:
        raise InvalidRequest(
            (
                "How long is kept what? Give --keep, such as 90d, or set [kafka_offsets] retention_days. "
                "It has to be longer than anybody clears an old run.",
            )
        )
    try:
        milliseconds = parse_duration_ms(keep)
    except ValueError as error:
        raise InvalidRequest((f"--keep {error}.",)) from None
    if milliseconds < _DAY_MS:
        raise InvalidRequest((f"--keep is {keep!r}: at least a day, because runs that are under way need theirs.",))
    return milliseconds


def _configured_days() -> str | None:
    with suppress(ImportError):
        from airflow_kafka_offsets.hooks.kafka_offsets import configured_retention_days

        return configured_retention_days()
    return None
