"""Plot layers under the roofline of an accelerator, with and without hidden latency (Williams et al., CACM 2009).

A point is a layer. The horizontal axis is multiply-adds per byte of DRAM, and the vertical axis is multiply-adds per
cycle. The roof is the peak of the array, or the bandwidth of DRAM. An arrow points from one context to two contexts
with the same tiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....plots import figure_type

if TYPE_CHECKING:
    from ..timeline import Timeline

Pair = tuple["Timeline", "Timeline"]  # with one context, with two


def point(timeline: Timeline) -> tuple[float, float]:
    """Return the multiply-adds per byte that goes to or from DRAM, and the multiply-adds per cycle."""
    work = timeline.micro_ops * timeline.config.macs_per_cycle
    return work / timeline.moved, work / timeline.cycles


def figure(layers: Mapping[str, Pair]) -> Any:
    """Return the plot as a matplotlib figure. All layers must be from one machine."""
    config = next(iter(layers.values()))[0].config
    drawn = figure_type()(figsize=(8.5, 5.5), dpi=130, layout="constrained")
    axes = drawn.subplots()
    points = {name: (point(alone), point(hidden)) for name, (alone, hidden) in layers.items()}
    across = [x for pair in points.values() for x, _ in pair]
    peak, bandwidth = config.macs_per_cycle, config.dram.bytes_per_cycle
    low, high = min([*across, peak / bandwidth]) / 1.6, max([*across, peak / bandwidth]) * 1.6
    axes.plot(
        [low, peak / bandwidth], [low * bandwidth, peak], color="#1f78b4", label=f"DRAM: {bandwidth} bytes a cycle"
    )
    axes.plot([peak / bandwidth, high], [peak, peak], color="#333333", label=f"array: {peak} a cycle")
    for name, ((x, before), (_, after)) in points.items():
        axes.annotate("", (x, after), (x, before), arrowprops={"arrowstyle": "->", "color": "#999999"}, zorder=2)
        axes.annotate(name, (x, after), (0, 6), textcoords="offset points", ha="center", fontsize=8, zorder=4)
    for number, (label, colour) in enumerate((("one context", "#e08214"), ("two contexts", "#542788"))):
        place = [pair[number] for pair in points.values()]
        axes.scatter(*zip(*place, strict=True), s=34, color=colour, label=label, zorder=3)
    axes.set(
        xscale="log", yscale="log", xlim=(low, high), xlabel="multiply-adds for each byte of DRAM",
        ylabel="multiply-adds for each cycle",
        title=f"{config.name}, {config.dram.name} memory: latency hidden by two contexts",
    )  # fmt: skip
    axes.set_ylim(min(before for (_, before), _ in points.values()) / 1.6, peak * 1.5)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("{x:g}")
    axes.grid(True, which="both", linewidth=0.3, color="#dddddd", zorder=0)
    axes.legend(loc="lower right", frameon=False, fontsize=8)
    return drawn


def save(layers: Mapping[str, Pair], path: Path) -> None:
    """Write the plot as a PNG."""
    figure(layers).savefig(path, format="png")
