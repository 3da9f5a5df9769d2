"""Charts as SVG text, in as few kinds as the report needs: lines over steps, loads of ranks over steps, bars, and
the attention of one plan drawn to scale. Hover a mark to read its numbers.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 560, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 14, 34
RANK_COLOURS = ("#2f6fb5", "#e08a2c", "#3f9b6c", "#b5476d", "#7a5bb5", "#8c7a32", "#3a9aa8", "#c0563c")
MOST_SHARES = 10  # as text above bars
INK, FAINT = "#5b6470", "#e4e7eb"


@dataclass(frozen=True)
class Line:
    name: str
    colour: str
    values: Sequence[float]
    width: float = 2.0
    median: float | None = None  # drawn as a dashed line with its value


@dataclass(frozen=True)
class Frame:
    """Maps steps and values to places in a chart; the value axis is linear from 0, or logarithmic."""

    steps: int
    low: float
    high: float
    logarithmic: bool = False

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (step + 0.5) / max(1, self.steps)

    def y(self, value: float) -> float:
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = math.log10(low), math.log10(high), math.log10(max(value, low))
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low)


def line_chart(lines: Sequence[Line], unit: str, uncounted: int, from_zero: bool = True) -> str:
    values = [value for line in lines for value in line.values]
    high = max(values) * 1.08
    low = 0.0 if from_zero else max(0.0, min(values) - 0.15 * (max(values) - min(values)))
    frame = Frame(len(lines[0].values), low, high)
    parts = [shade(frame, uncounted), value_axis(frame, nice_ticks(low, high), lambda v: f"{v:g}"), step_axis(frame)]
    for line in lines:
        parts += draw_line(frame, line, unit)
    return svg(WIDTH, HEIGHT, parts)


def difference_chart(values: Sequence[float], limit: float) -> str:
    """Relative differences on a logarithmic axis, with the limit that they must stay below."""
    low = 10.0 ** math.floor(math.log10(max(1e-12, min([value for value in values if value > 0], default=limit / 1e3))))
    frame = Frame(len(values), low, limit * 3, logarithmic=True)
    decades = [10.0**n for n in range(round(math.log10(low)), round(math.log10(limit)) + 1)]
    y = frame.y(limit)
    parts = [
        value_axis(frame, decades, lambda v: f"1e{round(math.log10(v))}"),
        step_axis(frame),
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#b3261e" stroke-dasharray="5 4"/>',
        text(WIDTH - RIGHT, y - 5, "limit", "end", "#b3261e"),
    ]
    for step, value in enumerate(values):
        colour = "#b3261e" if value > limit else "#0f8a6d"
        parts.append(dot(frame.x(step), frame.y(value), colour, f"step {step}: {value:.1e}"))
    return svg(WIDTH, HEIGHT, parts)


def load_chart(loads: Sequence[Sequence[float]], high: float, uncounted: int) -> str:
    """For each step the load of every rank; the longer the line between them, the longer ranks wait."""
    frame = Frame(len(loads), 0.0, high)
    parts = [shade(frame, uncounted), value_axis(frame, nice_ticks(0, high), lambda v: f"{v:g}"), step_axis(frame)]
    for step, by_rank in enumerate(loads):
        x, top, bottom = frame.x(step), frame.y(max(by_rank)), frame.y(min(by_rank))
        line = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}" stroke="#b9c0c9" stroke-width="3"/>'
        parts.append(line)
        for rank, load in enumerate(by_rank):
            label = f"step {step}, rank {rank}: {load:.0f} ms"
            parts.append(dot(x, frame.y(load), RANK_COLOURS[rank % len(RANK_COLOURS)], label))
    return svg(WIDTH, HEIGHT, parts)


def bar_chart(values: Sequence[int], unit: str) -> str:
    """A bar for each of 0, 1, 2, ..., its share of all above it as long as there is room to read it."""
    total, high = max(1, sum(values)), 1.12 * max(1, *values)
    frame = Frame(len(values), 0.0, high)
    width = 0.7 * (frame.x(1) - frame.x(0))
    parts = [value_axis(frame, nice_ticks(0, high), lambda v: f"{v:,.0f}"), step_axis(frame, unit)]
    for index, value in enumerate(values):
        x, y = frame.x(index), frame.y(value)
        label = escape(f"{index} {unit}: {value:,} ({value / total:.1%})")
        parts.append(
            f'<rect x="{x - width / 2:.1f}" y="{y:.1f}" width="{width:.1f}" height="{HEIGHT - BOTTOM - y:.1f}" '
            f'fill="#0f8a6d"><title>{label}</title></rect>'
        )
        if len(values) <= MOST_SHARES and value:
            parts.append(text(x, y - 4, f"{value / total:.1%}", "middle"))
    return svg(WIDTH, HEIGHT, parts)


def draw_line(frame: Frame, line: Line, unit: str) -> list[str]:
    points = " ".join(f"{frame.x(step):.1f},{frame.y(value):.1f}" for step, value in enumerate(line.values))
    parts = [f'<polyline points="{points}" fill="none" stroke="{line.colour}" stroke-width="{line.width}"/>']
    for step, value in enumerate(line.values):
        label = f"{line.name}, step {step}: {value:.4g} {unit}"
        parts.append(dot(frame.x(step), frame.y(value), line.colour, label, line.width + 0.6))
    if line.median is not None:
        y = frame.y(line.median)
        style = f'stroke="{line.colour}" stroke-dasharray="6 4" opacity="0.7"'
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" {style}/>')
    return parts


def value_axis(frame: Frame, ticks: Sequence[float], label: Callable[[float], str]) -> str:
    parts = []
    for tick in ticks:
        y = frame.y(tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{FAINT}"/>')
        parts.append(text(LEFT - 8, y + 4, label(tick), "end"))
    return "".join(parts)


def step_axis(frame: Frame, unit: str = "step") -> str:
    every = max(1, math.ceil(frame.steps / 8 / 5) * 5) if frame.steps > 8 else 1
    labels = [text(frame.x(step), HEIGHT - BOTTOM + 18, str(step), "middle") for step in range(0, frame.steps, every)]
    return "".join(labels) + text(WIDTH - RIGHT, HEIGHT - 2, unit, "end")


def shade(frame: Frame, uncounted: int) -> str:
    """Steps before the first that counts."""
    width = frame.x(uncounted - 0.5) - LEFT
    return f'<rect x="{LEFT}" y="{TOP}" width="{width:.1f}" height="{HEIGHT - TOP - BOTTOM}" fill="#f3f4f6"/>'


def nice_ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 5
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    return [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def dot(x: float, y: float, colour: str, label: str, radius: float = 4.0) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"><title>{escape(label)}</title></circle>'


def text(x: float, y: float, content: str, anchor: str = "start", colour: str = INK) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(content)}</text>'


def svg(width: float, height: float, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img">{"".join(parts)}</svg>'
