"""``clean`` removes old batches from the work store; ``release-output`` removes an output's owner."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from airflow_kafka_offsets.cli.commands import Options
from airflow_kafka_offsets.cli.option_values import parsed, work_store
from airflow_kafka_offsets.cli.printing import Answer, Table, columns
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.log.clean_up import find_old, remove
from airflow_kafka_offsets.log.output_claims import owner_of
from airflow_kafka_offsets.log.output_claims import release_output as release
from airflow_kafka_offsets.progress_log import Progress
from airflow_kafka_offsets.request.times import iso, parse_duration_ms

_DAY_MS = 86_400_000


def clean(options: Options) -> Answer:
    """How many batches and windows of each pipeline are older than ``--keep``; with ``--execute`` they are gone."""
    before_ms = now_ms() - _keep_ms(options.get("keep") or _configured_days())
    store, dry_run = work_store(options), not options.get("execute")
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
    rows = [
        {"pipeline": which[0], "kind": which[1], "count": found[which], "objects": objects[which]}
        for which in sorted(found)
    ]
    return Answer(
        [Table(columns("pipeline", "kind", "count", "objects"), rows, "removed")],
        {"work_store": store.uri, "before_ms": before_ms, "dry_run": dry_run},
        f"{found.total()} batches and windows ({objects.total()} objects) from before {iso(before_ms)} "
        f"{'would be' if dry_run else 'were'} removed from {store.uri}",
        dry_run="removes them" if dry_run and found else "",
    )


def _keep_ms(keep: str | None) -> int:
    if keep is None:
        raise InvalidRequest(
            (
                "No retention period given: pass --keep 90d. (Or set [kafka_offsets] retention_days. It has to be "
                "longer than anybody clears an old run.)",
            )
        )
    milliseconds = parsed("--keep", lambda: parse_duration_ms(keep))
    if milliseconds < _DAY_MS:
        raise InvalidRequest((f"--keep is {keep!r}: at least a day, because runs that are under way need theirs.",))
    return milliseconds


def _configured_days() -> str | None:
    with suppress(ImportError):
        from airflow_kafka_offsets.hooks.kafka_offsets import configured_retention_days

        return configured_retention_days()
    return None


def release_output(options: Options) -> Answer:
    """Which pipeline owns the output; with ``--execute`` none does any more."""
    output = (options.get("output_name") or "").strip().rstrip("/")  # as a request takes it
    if not output:
        raise InvalidRequest((f"--output-name is {'missing' if options.get('output_name') is None else 'empty'}.",))
    store, dry_run = work_store(options), not options.get("execute")
    owner = owner_of(store, output)
    if owner is not None and not dry_run:
        release(store, output)
    owned = {"pipeline": owner.pipeline if owner else None, "kind": owner.kind if owner else None}
    verb = "would be" if dry_run else "is"
    return Answer(
        [Table(columns("output", "pipeline", "kind"), [{"output": output, **owned}] if owner else [], "released")],
        {"work_store": store.uri, "output_name": output, **owned, "dry_run": dry_run},
        f"Output {output} of {owner} {verb} released." if owner else f"Output {output} is nobody's.",
        dry_run="releases it" if dry_run and owner else "",
    )
