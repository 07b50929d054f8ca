"""What a work store means: each entry as it is understood, and what the command line tells of it, as JSON."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.cli.main import main
from airflow_kafka_offsets.log.entries import entry_to_dict
from airflow_kafka_offsets.log.output_claims import owner_of
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.stores.local import LocalStore

OUTPUTS = ("/lake/orders", "/lake/clicks", "/lake/released")


def told(store: Path) -> dict[str, Any]:
    """Each entry of each log; each command with its exit status and its answer. Paths are left out."""
    answers: dict[str, Any] = {"entries": {}}

    def ask(*words: str) -> Any:
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            status = main([*words, "--work-store", str(store), "--output", "json"])
        answer = json.loads(out.getvalue())
        answer.pop("work_store", None)
        answers[" ".join(words)] = {"status": status, "answer": answer}
        return answer

    for name in [row["pipeline"] for row in ask("pipelines")["pipelines"]]:
        pipeline = PipelineLog(LocalStore(store), name)
        windows = filter(None, map(pipeline.window, pipeline.windows()))
        for stored in (*pipeline.newest_first(), *windows):
            answers["entries"][stored.folder] = [entry_to_dict(entry) for _, entry in stored.entries()]
        batches = [one.log.plan.batch.key for one in pipeline.newest_first() if one.log.plan.batch]
        for batch in [*batches, *pipeline.windows()]:
            for command in ("show", "verify"):
                ask(command, "--pipeline-id", name, "--batch", batch)
        if batches:
            ask("show", "--pipeline-id", name, "--history", "9")
        if pipeline.windows():
            ask("show", "--pipeline-id", name, "--windows")
    answers["outputs"] = {output: str(owner_of(LocalStore(store), output)) for output in OUTPUTS}
    as_json: dict[str, Any] = json.loads(json.dumps(answers))
    return as_json
