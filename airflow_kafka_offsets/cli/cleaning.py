"""``clean`` removes old batches from the work store; ``release-output`` removes an output's owner."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from airflow_kafka_offsets.cli.inputs import Options, required, work_store
from airflow_kafka_offsets.cli.render import Page, Table, say_dry_run, show
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.request.times import iso, parse_duration_ms
from airflow_kafka_offsets.pipeline.clean import find_old, remove
from airflow_kafka_offsets.pipeline.clock import now_ms
from airflow_kafka_offsets.progress import Progress
from airflow_kafka_offsets.stores.outputs import owner_of
from airflow_kafka_offsets.stores.outputs import release_output as release

_DAY_MS = 86_400_000


def clean(options: Options) -> int:
    """How many batches and windows of each pipeline are older than ``--keep``; with ``--execute`` they are gone."""
    before_ms = now_ms() - _keep_ms(options.get("keep") or _configured_days())
    store = work_store(options)
    dry_run = not options.get("execute")
    found: Counter[tuple[str, str]] = Counter()
    objects: Counter[tuple[str, str]] = Counter()
    progress = Progress("look for what is old" if dry_run else "clean", unit="batches and windows")
    for removal in find_old(store, before_ms):
        which = removal.pipeline.pipeline_id, removal.kind
        found[which] += 1
        objects[which] += len(removal.names)
        if not dry_run:
            remove(removal)
        progress.add()
    rows = [(*which, found[which], objects[which]) for which in sorted(found)]
    verb = "would be" if dry_run else "were"
    summary = (
        f"{found.total()} batches and windows ({objects.total()} objects) from before {iso(before_ms)} {verb} removed "
        f"from {store.uri}"
    )
    facts = {"work_store": store.uri, "before_ms": before_ms, "dry_run": dry_run}
    table = Table(("pipeline", "kind", "count", "objects"), rows, "removed")
    show(Page([table], facts, summary), options.get("output"))
    if dry_run and found:
        say_dry_run("removes them")
    return 0


def _keep_ms(keep: str | None) -> int:
    if keep is None:
        raise InvalidRequest(
            (
                "No retention period given: pass --keep 90d. (Or set [kafka_offsets] retention_days. It has to be "
                "longer than anybody clears an old run.)",
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


def release_output(options: Options) -> int:
    """Which pipeline owns the output; with ``--execute`` none does any more."""
    required(options, "output_name")
    if not options["output_name"].strip():
        raise InvalidRequest(("--output-name is empty.",))
    output = options["output_name"].strip().rstrip("/")  # as a request takes it
    store = work_store(options)
    owner = owner_of(store, output)
    dry_run = not options.get("execute")
    if owner is not None and not dry_run:
        release(store, output)
    facts = {
        "work_store": store.uri,
        "output_name": output,
        "pipeline": owner.pipeline if owner else None,
        "kind": owner.kind if owner else None,
        "dry_run": dry_run,
    }
    verb = "would be" if dry_run else "is"
    summary = f"Output {output} is nobody's." if owner is None else f"Output {output} of {owner} {verb} released."
    rows = [(output, owner.pipeline, owner.kind)] if owner else []
    show(Page([Table(("output", "pipeline", "kind"), rows, "released")], facts, summary), options.get("output"))
    if dry_run and owner is not None:
        say_dry_run("releases it")
    return 0
