"""A batch as a row of the page: its state, its runs, its splits, and why it is as it is. It asks nobody."""

from __future__ import annotations

from airflow_kafka_offsets.batch.pipeline_status import Tone, clock
from airflow_kafka_offsets.errors import counted
from airflow_kafka_offsets.kafka_values import Actor
from airflow_kafka_offsets.log.batch_lines import BatchLine, DamagedLine, Line
from airflow_kafka_offsets.log.last_runs import time_of_id
from airflow_kafka_offsets.page.views import BatchRow, BatchState, RunLink
from airflow_kafka_offsets.plan.plan import number_of
from airflow_kafka_offsets.plan.plan_table import first_few
from airflow_kafka_offsets.plan.window_claims import words_of_name
from airflow_kafka_offsets.request.times import short_time


def batch_row(line: Line, now_ms: int) -> BatchRow:
    name = name_in_addresses(line.folder)
    title = words_of_name(name)
    if isinstance(line, DamagedLine):
        why = str(line.error)
        return BatchRow(name, "", title, "damaged", "bad", None, (), None, None, None, None, "", None, "", why)
    summary, committed = line.summary, line.committed
    state, tone = state_of(line)
    took_ms = committed.at_ms - summary.planned_ms if committed else None
    return BatchRow(
        name=name,
        key=summary.key,
        title=title,
        state=state,
        tone=tone,
        planned_ms=summary.planned_ms,
        runs=_runs(line, now_ms),
        records=summary.records,
        set_aside=committed.set_aside if committed else None,
        lost=summary.lost + summary.skipped,
        left=summary.left,
        splits=_splits(line),
        took_ms=took_ms,
        took="" if took_ms is None else short_time(took_ms),
        why=_why(line, now_ms),
    )


def name_in_addresses(folder: str) -> str:
    """A batch's number, or a window's name."""
    name = folder.rpartition("/")[2]
    return str(int(name)) if name.isdecimal() else name


def state_of(line: BatchLine) -> tuple[str, Tone]:
    if line.committed is None:
        return "not committed", "open"
    if line.summary.withdrawn:
        return "given way", "plain"
    if line.redone is None:
        return "committed", "good"
    return ("being done again", "open") if line.is_being_done_again else ("done again", "good")


def is_in(line: Line, state: BatchState) -> bool:
    if isinstance(line, DamagedLine):
        return state == "damaged"
    if state == "lost or skipped":
        return line.summary.lost + line.summary.skipped > 0
    if state == "set aside":
        return line.committed is not None and line.committed.set_aside > 0
    return state_of(line)[0] == state


def _splits(line: BatchLine) -> str:
    splits = line.summary.splits
    if not splits:
        return "none to read"
    if line.committed is not None and line.redone is None and not line.attempts:
        return f"{splits}, not reported"
    return f"{line.whole} of {splits} whole"


def _runs(line: BatchLine, now_ms: int) -> tuple[RunLink, ...]:
    """Who planned it, took it, committed it and took it again, each once; and that a split needed another attempt."""
    committed = line.committed
    who = dict.fromkeys((*line.summary.by, *([committed.by] if committed else ())))
    links = [RunLink(_run_words(actor, now_ms), actor.run) for actor in who]
    most = max((begun for begun, _ in line.attempts.values()), default=0)
    if most > 1 and line.redone is None and links:
        links.append(RunLink(f"{_nth(most)} attempt", links[-1].run))
    for taken in line.taken if committed else ():
        if not taken.attempts:
            continue
        again = (
            f"cleared {clock(taken.at_ms, now_ms, seconds=False)}" if taken.by in who else _run_words(taken.by, now_ms)
        )
        links.append(RunLink(again, taken.by.run))
    return tuple(links)


def _run_words(actor: Actor, now_ms: int) -> str:
    """``scheduled 14:00``; a run whose id has no time is named by its id."""
    if actor.run is None:
        return str(actor)
    kind, at_ms = actor.run.run_id.partition("__")[0], time_of_id(actor.run.run_id)
    if at_ms is None:
        return actor.run.run_id
    return f"{kind.replace('_', ' ')} {clock(at_ms, now_ms, seconds=False)}"


def _nth(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"


def _why(line: BatchLine, now_ms: int) -> str:
    summary = line.summary
    parts = [_planned(line)]
    if line.committed is None:
        by, at_ms = line.held
        parts.append(f"it is with {by} since {clock(at_ms, now_ms)}")
    elif line.redone is not None:
        parts.append(f"{state_of(line)[0]} by {line.redone.by}")
    twice = [
        f"split {split} was begun {'twice' if begun == 2 else f'{begun} times'}"
        for split, (begun, _) in sorted(line.attempts.items())
        if begun > 1
    ]
    parts += [first_few(twice, 3, "splits")] * bool(twice)
    if line.unread:
        parts.append(f"it lacks {counted(line.unread, 'record')} of its time that came later: re_plan reads them")
    if summary.late:
        parts.append(f"{counted(summary.late, 'record')} of before it came late")
    return "; ".join(filter(None, parts))


def _planned(line: BatchLine) -> str:
    summary = line.summary
    if summary.reason:
        return summary.reason
    if summary.number is None:
        return ""
    if summary.after:
        return f"goes on from batch {number_of(summary.after)}"
    return f"the first: {summary.startup} decides where it starts" if summary.startup else "the first"
