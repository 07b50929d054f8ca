"""Later versions read what an earlier one wrote, to the same meaning, and go on from it (``docs/formats.md``)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.commit_metadata import CommitMetadata, newest_batch
from airflow_kafka_offsets.stores.local import LocalStore
from tests.engine import NoAirflow
from tests.golden.telling import told
from tests.golden.worked import HERE, NOW, cluster_of, of

VERSIONS = sorted(folder.name for folder in HERE.iterdir() if (folder / "expected.json").is_file())


def test_there_is_a_golden_store() -> None:
    assert "0.1.0" in VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_a_store_of_an_earlier_version_means_what_it_meant(version: str) -> None:
    """A later version may tell more; what was told before stays."""
    expected = json.loads((HERE / version / "expected.json").read_text())
    assert _among(expected, told(HERE / version / "store")) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_a_pipeline_of_an_earlier_version_goes_on(version: str, tmp_path: Path) -> None:
    shutil.copytree(HERE / version / "store", tmp_path / "store")
    cluster = cluster_of(json.loads((HERE / version / "cluster.json").read_text()))
    pipeline = of(LocalStore(tmp_path / "store"), cluster, NOW + 10)

    own = CommitMetadata.by(pipeline.pipeline_id, NoAirflow().instance).own(cluster.groups[pipeline.group])
    fourth = pipeline.log.batch(4)
    assert fourth is not None
    assert fourth.log.plan.batch is not None
    assert newest_batch(own) == fourth.log.plan.batch.key, "the group's marks are read"

    unfinished = pipeline.run("the next run")
    assert unfinished.batch is not None
    assert unfinished.batch.log.plan.batch is not None
    assert unfinished.batch.log.plan.batch.number == 5, "what was left unfinished is done first"
    cluster.produce(TopicPartition(pipeline.topic, 0), [NOW] * 3)
    pipeline.run("the run after it")
    newest = pipeline.log.newest()
    assert newest is not None
    assert newest.log.committed is not None
    assert [(p.start_offset, p.end_offset) for p in newest.log.plan.partitions] == [(15, 18), (10, 10)]


def _among(expected: Any, found: Any) -> Any:
    """``found`` without what ``expected`` does not have."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return {key: _among(expected[key], found[key]) for key in expected if key in found}
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [_among(one, other) for one, other in zip(expected, found, strict=True)]
    return found
