"""What people do. They act only by runs with a conf: the one that a refusal prints, or one of their own.

They name what they mean; accidents (staging, a typo in the output, the shard count) they mend in the DAG.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.errors import (
    ActRefused,
    CheckpointBehind,
    CheckpointLost,
    ClusterChanged,
    GroupMoved,
    NothingToDiscover,
    OtherPipeline,
    OutputChanged,
    WindowRefused,
)
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.times import parse_timestamp_ms
from tests.model.driver import Row, Stopped
from tests.model.stepping import T0, UNIT_MS

if TYPE_CHECKING:
    from tests.model.deployment import Run
    from tests.model.world import World

THEMES = (
    "topics", "truncation", "transactions", "compaction", "subscriptions", "clears", "resets", "group", "members",
    "outputs", "rolled back", "typos", "staging", "migration", "shards", "big", "poison", "losses", "environments",
    "bad",
)  # fmt: skip
"""What happens in some worlds only."""
MOST_ACTS = 25
POSITIONS = re.compile(r"SpecificOffsets\((\{.*?\}\})\)")
_HELD = re.compile(r"(\S+)-([0-9]+): group 'g' holds ([0-9]+),")
_BEHIND = re.compile(
    r"kafka_batch >= '(\S*)'(?: AND kafka_batch LIKE '%(-[0-9]+of[0-9]+-)%')?(?: AND kafka_batch <> '(\S*)')?(.*)"
)
_LATER = re.compile(r"kafka_batch >= '(\S+?)'(?: AND kafka_batch (NOT )?LIKE '%(\S+?)%')?(?: AND \((.+?\))\))?")
_PLACES = re.compile(r"topic = '(\S+)' AND partition IN \(([0-9, ]+)\)")


def printed(error: Exception | None) -> list[Any]:
    """The confs that a refusal prints, each on a line of its own."""
    return [
        json.loads(line)["kafka_offsets"] for line in str(error).splitlines() if line.startswith('{"kafka_offsets"')
    ]


def act(world: World, run: Run, conf: dict[str, Any]) -> None:
    """A person triggers a run with this conf; all shards have it."""
    world.people += 1
    window = run.window
    if "window" in conf:
        start, end = ((parse_timestamp_ms(t) - T0) // UNIT_MS for t in conf["window"])
        window = int(start), int(end)
    runs = world.new_run(f"p{world.people}", conf, window)
    world.acted.append(runs[run.shard % len(runs)])


def act_alone(world: World, run: Run, **acts: Any) -> None:
    conf = {"pipeline": world.pipeline.name, "after": len(world.identities()), "reason": "why", **acts}
    act(world, run, conf)


def answer(world: World, run: Run, error: Exception | None) -> None:
    """A person does what a refusal says."""
    if run.pipeline is not world.pipeline or (world.people >= MOST_ACTS and not world.is_ending):
        return
    if isinstance(error, Stopped):
        _answer_driver(world, run, error)
        return
    is_of_the_dag = isinstance(error, ClusterChanged | OtherPipeline | OutputChanged | ActRefused | NothingToDiscover)
    if is_of_the_dag and _mend(world):
        return
    if isinstance(error, CheckpointLost | CheckpointBehind) and not world.losses:
        world.bad.append(f"nothing was lost, and a run is refused: {error}"[:400])
    if isinstance(error, GroupMoved):
        if not world.group_moves and not world.losses:
            world.bad.append(f"nobody has moved the group, and a run is refused: {error}"[:400])
        world.named |= {(TopicPartition(m[1], int(m[2])), int(m[3])) for m in _HELD.finditer(str(error))}
    confs = printed(error)
    if not confs or (isinstance(error, WindowRefused) and (world.is_ending or world.rnd.random() < 0.5)):
        return
    conf = confs[0] if world.is_ending or world.rnd.random() < 0.5 else world.rnd.choice(confs)
    if conf.get("acknowledge", {}).get("cluster") == "Z":
        return  # staging, where the connection led by mistake until a moment ago
    if "batch" in conf.get("acknowledge", {}):
        forget_unknown_rows(world, error)
    act(world, run, conf)


def _mend(world: World) -> bool:
    """An accident in the DAG or the connection."""
    meant = world.true_conn, world.true_output, world.pipeline.shards
    if meant == (world.conn, world.req_output, world.req_shards):
        return False
    world.conn, world.req_output, world.req_shards = meant
    return True


def _answer_driver(world: World, run: Run, error: Stopped) -> None:
    reason = str(error)
    if reason == "poison" and world.tables.poison is not None:
        _, tp, offset = world.tables.poison
        world.counts["skipped"] += 1
        act_alone(world, run, skip=[f"{tp}:{offset}"])
    elif reason == "too many records":
        world.cap = 3
        act_alone(world, run, reset={"start": "current"})
    elif error.acknowledge:
        if reason == "rows" and _restore(world):
            return
        if reason in ("keys behind", "another log's table"):
            if not world.losses and len(world.pipelines) == 1:
                world.bad.append(f"nothing was lost, and a driver stops: {reason} {error.acknowledge}"[:400])
            _forget_what_is_read_again(world)
        conf = {"pipeline": world.pipeline.name, "after": error.after, "reason": "why"}
        act(world, run, {**conf, "acknowledge": error.acknowledge})


def _restore(world: World) -> bool:
    """Half of the people restore what the table has lost; the others give it up."""
    committed = [b for pipeline in world.pipelines for b in world.batches(pipeline) if b.is_committed]
    missing = [b for b in committed if b.plan.key not in world.tables.rows[str(b.output)] and b.plan.offsets]
    if world.rnd.random() < 0.5:
        for batch in missing:
            newest = next((v for v in reversed(world.rows_of_key(str(batch.output), batch.plan.key))), None)
            if newest is not None:
                world.tables.rows[str(batch.output)][batch.plan.key] = newest
        world.counts["restored"] += 1
        return all(b.plan.key in world.tables.rows[str(b.output)] for b in missing)
    for batch in missing:
        world.spoilt |= world.places_of(batch.plan)
    world.counts["gave rows up"] += 1
    return False


# ── rows of batches that the log does not know: half of the people delete them, the others allow them twice


def forget(world: World, is_forgotten: Any) -> None:
    for output, keys in world.tables.rows.items():
        for key in list(keys):
            rows = [row for row in keys[key] if is_forgotten(row, key)]
            if world.deletes and rows:
                keys[key] = [row for row in keys[key] if row not in rows]
                world.deleted |= {row.place for row in rows}
                if not keys[key]:
                    del keys[key]
                for version in world.tables.versions[output]:
                    if key in version:
                        version[key] = keys.get(key, [])
            else:
                world.twice.update(row for row in rows if (output, key, row) not in world.counted)
                world.counted |= {(output, key, row) for row in rows}


def _unknown(world: World) -> set[str]:
    """Keys that no log has, of pipelines that are."""
    known = {b.plan.key for pipeline in world.pipelines for b in world.batches(pipeline)}
    return {key for keys in world.tables.rows.values() for key in keys} - known


def _forget_what_is_read_again(world: World) -> None:
    """Rows of batches that no log has, from where the log that there is begins or will resume."""
    unknown, position = _unknown(world), {tp: at.offset for tp, at in world.position().items()}
    forget(world, lambda row, key: key in unknown and row.offset >= position.get(row.partition, 0))


def forget_unknown_rows(world: World, error: Exception | None) -> None:
    """As the refusal says which."""
    unknown = _unknown(world)
    if isinstance(error, CheckpointLost):
        terms = [(*term.groups()[:3], _PLACES.findall(term[4] or "")) for term in _LATER.finditer(str(error))]

        def is_read_again(row: Row, key: str) -> bool:
            """Without a mark in the group, each row is."""
            places = f"{row.partition.topic} {row.partition.partition}"
            return key in unknown and (
                not terms
                or any(
                    key >= behind
                    and (like is None or (like in key) == (is_not is None))
                    and (not of or any(places in [f"{t} {n}" for n in ns.split(", ")] for t, ns in of))
                    for behind, is_not, like, of in terms
                )
            )

        forget(world, is_read_again)
    elif found := [*_BEHIND.finditer(str(error))]:  # of each shard

        def is_behind(row: Row, key: str) -> bool:
            return any(
                (key >= first and (shard or "-") in key and key != own) or f"'{key}'" in others
                for first, shard, own, others in (which.groups() for which in found)
            )

        forget(world, is_behind)


# ── of their own accord ───────────────────────────────────────────────────────────────────────────────────────────────


def reset_somehow(world: World) -> None:
    if not world.identities() or world.people >= MOST_ACTS or not world.partitions:
        return
    rnd, run = world.rnd, world.rnd.choice([*world.runs.values()])
    match rnd.choice(("current", "latest", "earliest", "group", "time", "back", "one")):
        case "back":
            logs = {tp: world.kafka.log_of(tp) for tp in world.partitions}
            start: Any = {str(tp): max(log.log_start_offset, log.high_watermark - 4) for tp, log in logs.items()}
        case "one":
            tp = rnd.choice(world.partitions)
            start = {str(tp): world.kafka.log_of(tp).log_start_offset}
        case "time":
            start = T0 + rnd.randint(0, world.clock) * UNIT_MS
        case word:
            start = word
    act_alone(world, run, reset={"start": start, "allow_duplicates": rnd.random() < 0.7})
