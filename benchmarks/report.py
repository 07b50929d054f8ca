"""``benchmarks/results/bench.json`` → a table, a plot, and what is promised: ``python -m benchmarks.report FILE``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import BOTH_ENDS, FLOOR, OF_A_PLAN, OURS, PLAN, Row

LOOPBACK, FAR = "loopback", "1 ms"
MIB = 150


def main(file: Path) -> None:
    result = json.loads(file.read_text())
    rows = [Row(**row) for row in result["rows"]]
    memory = {int(size): mib for size, mib in result["memory_mib"].items()}
    text = "\n".join(_page(result["machine"], rows, memory)) + "\n"
    file.with_suffix(".md").write_text(text)
    print(text)
    plot(rows, file.with_suffix(".svg"))


def _page(machine: dict[str, str], rows: list[Row], memory: dict[int, float]) -> Iterator[str]:
    yield "# Speed of look-ups, plans and commits"
    yield ""
    yield "Made by `make bench`. " + ", ".join(f"{name}: {value}" for name, value in machine.items()) + "."
    yield ""
    yield "Median and quartiles in milliseconds, all of one size in turns; times as much as raw socket requests take."
    for size, network in dict.fromkeys((row.partitions, row.network) for row in rows):
        yield ""
        yield f"## {size:,} partitions, {network}"
        yield ""
        yield "| work | way | median | quartiles | rounds | × floor |"
        yield "|---|---|---:|---:|---:|---:|"
        of_size = [row for row in rows if (row.partitions, row.network) == (size, network)]
        for row in sorted(of_size, key=lambda row: row.work):
            ratio = "" if row.ratio is None else f"{row.ratio:.1f}"
            spread = f"{row.low_ms:,.1f} to {row.high_ms:,.1f}" if row.rounds > 1 else ""
            yield f"| {row.work} | {row.way} | {row.median_ms:,.1f} | {spread} | {row.rounds} | {ratio} |"
    yield ""
    yield "## Most memory of a plan's process, above the idle interpreter"
    yield ""
    yield "| partitions | MiB |"
    yield "|---:|---:|"
    yield from (f"| {size:,} | {mib:.0f} |" for size, mib in memory.items())
    yield ""
    yield "## What is promised"
    yield ""
    yield "| promise | measured | holds |"
    yield "|---|---:|---|"
    for promise, measured, holds in promises(rows, memory):
        yield f"| {promise} | {measured} | {'yes' if holds else 'NO'} |"


def promises(rows: list[Row], memory: dict[int, float]) -> Iterator[tuple[str, str, bool]]:
    """Each with what was measured and whether it holds; those of sizes that were not measured are left out."""

    def ms(size: int, network: str, work: str, way: str) -> float:
        found = [r.median_ms for r in rows if (r.partitions, r.network, r.work, r.way) == (size, network, work, way)]
        return found[0] if found else float("nan")

    whole, lookup_and_json = f"{OURS}: plan", f"{OURS}: plan, JSON, options"
    loop = "get_watermark_offsets, a loop"
    if any(row.partitions == 10_000 for row in rows):
        floors = sum(ms(10_000, LOOPBACK, work, FLOOR) for work in OF_A_PLAN)
        ours = sum(ms(10_000, LOOPBACK, work, OURS) for work in OF_A_PLAN)
        yield _at_most("10,000 partitions: the four look-ups, × the sum of their floors", ours / floors, 3)
        whole_ms = ms(10_000, LOOPBACK, PLAN, lookup_and_json)
        yield _at_most("10,000 partitions: whole plan with its JSON, × the sum of the floors", whole_ms / floors, 4)
        for network, least in ((LOOPBACK, 4), (FAR, 20)):
            for way, said in ((whole, "a whole plan"), (lookup_and_json, "a whole plan with its JSON")):
                ahead = ms(10_000, network, BOTH_ENDS, loop) / ms(10_000, network, PLAN, way)
                promise = f"10,000 partitions, {network}: the loop over watermarks takes ≥ {least} × {said}"
                yield promise, f"{ahead:.1f}", ahead >= least
    if any(row.partitions == 50_000 for row in rows):
        network = next(row.network for row in rows if row.partitions == 50_000)
        more = ms(50_000, network, PLAN, lookup_and_json) / ms(10_000, LOOPBACK, PLAN, lookup_and_json)
        yield _at_most("50,000 partitions take × 10,000", more, 7)
        yield _at_most("50,000 partitions: MiB above the idle interpreter", memory[50_000], MIB)


def _at_most(promise: str, measured: float, most: float) -> tuple[str, str, bool]:
    return f"{promise}: ≤ {most:g}", f"{measured:.1f}", measured <= most


def plot(rows: list[Row], file: Path) -> None:
    """Whole plans and the loop over the sizes; on a transparent ground, in colours that light and dark pages bear."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    grey = "#808080"
    mpl.rcParams.update(
        dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "text.color"), grey)
    )
    mpl.rcParams["svg.hashsalt"] = "airflow-kafka-offsets"
    shown = {
        (PLAN, FLOOR): ("raw socket requests", grey),
        (PLAN, f"{OURS}: plan, JSON, options"): ("this package: whole plan", "#1f9e89"),
        (BOTH_ENDS, "get_watermark_offsets, a loop"): ("a loop over watermarks", "#d95f02"),
    }
    figure, axes = plt.subplots(figsize=(8, 4.5))
    for (work, way), (label, colour) in shown.items():
        for network, style in ((LOOPBACK, "-"), (FAR, "--")):
            found = sorted(
                (r.partitions, r.median_ms)
                for r in rows
                if (r.work, r.way) == (work, way) and (r.network.startswith(network))
            )
            if found:
                ended = f"{label}, {'1 ms of network' if network == FAR else 'loopback'}"
                axes.plot(*zip(*found, strict=True), style, marker="o", color=colour, label=ended)
    axes.set(xscale="log", yscale="log", xlabel="partitions", ylabel="milliseconds")
    axes.grid(visible=True, color=grey, alpha=0.3)
    axes.legend(frameon=False, fontsize="small")
    figure.savefig(file, transparent=True, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
