"""A profile as a roofline plot: operators by intensity and rate, under the bounds of compute and memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...plots import figure_type
from .report import Profile, Row

_NAMED = 12  # the slowest operators, which get a number
_COLOURS = ("#6a3d9a", "#1f78b4", "#33a02c", "#b15928", "#e31a1c")


def figure(profile: Profile) -> Any:
    """The plot as a matplotlib figure. An operator's area is its share of the time."""
    machine = profile.machine
    rows = [row for row in profile.rows if row.flops and row.bytes and row.seconds]
    figure = figure_type()(figsize=(11.5, 6.2), dpi=130, layout="constrained")
    axes = figure.subplots()
    low = min([row.intensity for row in rows] + [machine.peak / machine.levels[0].bandwidth]) / 2
    high = max([row.intensity for row in rows] + [machine.peak / machine.memory.bandwidth]) * 2
    _roofs(axes, profile, low, high)
    total = sum(row.seconds for row in profile.rows)
    colours = {level.name: colour for level, colour in zip(machine.levels, _COLOURS, strict=False)}
    slowest_first = sorted(rows, key=lambda row: -row.seconds)
    for row in slowest_first:
        colour = "#333333" if row.bound == "compute" else colours[row.source]
        axes.scatter(
            row.intensity, row.rate / 1e9, s=30 + 1500 * row.seconds / total, color=colour, alpha=0.55, linewidths=0.6,
            edgecolors="white", zorder=3,
        )  # fmt: skip
    _labels(axes, slowest_first[:_NAMED], total)
    axes.set(
        xscale="log", yscale="log", xlim=(low, high), xlabel="operations a byte", ylabel="GFLOP/s",
        title=f"{profile.name}: {profile.plain_seconds * 1e3:.2f} ms on {profile.threads} "
        f"thread{'s' * (profile.threads > 1)} of {machine.name}",
    )  # fmt: skip
    slowest = min([row.rate / 1e9 for row in rows] + [machine.peak / 1e9 / 30])
    axes.set_ylim(slowest / 2, machine.peak / 1e9 * 2)
    axes.grid(True, which="both", linewidth=0.3, color="#dddddd", zorder=0)
    return figure


def _roofs(axes: Any, profile: Profile, low: float, high: float) -> None:
    """The flat roof of compute, and a slope for each level of memory up to where it meets the roof."""
    machine = profile.machine
    peak = machine.peak / 1e9
    for level, colour in zip(machine.levels, _COLOURS, strict=False):
        ridge = machine.peak / level.bandwidth
        at = np.array([low, ridge])
        axes.plot(at, at * level.bandwidth / 1e9, color=colour, linewidth=1.2, zorder=2,
                  label=f"{level.name} {level.bandwidth / 1e9:.0f} GB/s")  # fmt: skip
    first = machine.peak / machine.levels[0].bandwidth
    axes.plot([first, high], [peak, peak], color="#333333", linewidth=1.6, zorder=2, label=f"{peak:.0f} GFLOP/s")
    axes.legend(loc="lower right", frameon=False, fontsize=8, title="colour of a dot: what bounds it", title_fontsize=8)


def _labels(axes: Any, rows: Sequence[Row], total: float) -> None:
    """Numbers on the dots of the slowest operators, with a legend next to the plot."""
    for number, row in enumerate(rows, 1):
        axes.annotate(
            str(number), (row.intensity, row.rate / 1e9), ha="center", va="center", fontsize=7, color="black", zorder=4
        )
    lines = [
        f"{number}  {row.operator}\n    {row.seconds / total:.1%} of the time, {row.share_of_bound:.0%} of its bound"
        for number, row in enumerate(rows, 1)
    ]
    axes.text(
        1.02, 1.0, "\n".join(lines), transform=axes.transAxes, va="top", fontsize=7.5, linespacing=1.5, color="#222222"
    )


def save(profile: Profile, path: str | os.PathLike[str]) -> Path:
    """Write the plot as a PNG."""
    file = Path(path)
    figure(profile).savefig(file, format="png")
    return file
