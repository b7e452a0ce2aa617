"""Interactive charts of a run, drawn by Bokeh: the signal with its rows, one region, parameters, traces, the ladder.

All charts of a page are inside it, with the library itself (`Charts.head`): it works without a network. Bokeh takes the
colours of axes and texts from CSS variables (--bk-...), so that light and dark pages need no second chart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chiasma.extras import extra
from chiasma.models.observations import Observations

with extra("report"):
    from bokeh.embed import components
    from bokeh.models import (
        ColumnDataSource,
        CustomJSTicker,
        CustomJSTickFormatter,
        FixedTicker,
        HoverTool,
        Model,
        NumeralTickFormatter,
        Range1d,
    )
    from bokeh.models.annotations import BoxAnnotation
    from bokeh.plotting import figure
    from bokeh.resources import Resources
    from markupsafe import Markup

    from chiasma.report.figures.sites import Labels, SiteRange
    from chiasma.report.figures.style import BLACK, BLUE, LOOKS, ORANGE, SKY, VERMILLION, block_means, robust_limits
from chiasma.results.expected import Band
from chiasma.types import Floats

# More sites than this are drawn as this many blocks, each from its lowest to its highest value.
MOST_SITES, MOST_BLOCKS = 12_000, 4_000
# Probabilities are drawn to this precision, and neighbours that are equal as one.
PRECISION = 200
# How far from the edge the marks of values beyond the axis are, as a share of its height.
EDGE = 0.02
# Seconds from 1970 that no time stamp is away.
LATEST = 1e12
# Points of a trace.
TRACE_POINTS = 500
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Colours that can be told from white and from black, and from each other in grey.
POINTS, LEVEL, BAND = "#7d8a97", BLUE, SKY
DASHES = ("solid", "dashed", "dotdash", "dotted", "dashdot")

# The ticks of an axis along chromosomes: names of many, round positions where few are in view.
SEEN = "const seen = pieces.filter((p) => p.right > range.start && p.left < range.end);\n"
TICKS = (
    SEEN
    + """
const span = range.end - range.start;
if (seen.length > 4) {
  const pixel = span / Math.max(document.body.clientWidth - 150, 100);
  const named = [];
  for (const p of seen) {
    const at = (Math.max(p.left, range.start) + Math.min(p.right, range.end)) / 2;
    const room = pixel * (3 + 6.5 * p.name.length), before = named.at(-1);
    if (!before || at - before.at >= (room + before.room) / 2) named.push({at, room});
  }
  return named.map((name) => name.at);
}
const rough = span / Math.max(2, Math.min(8, document.body.clientWidth / 110));
const day = 86400, clock = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, day];
const base = zone !== null && rough > day ? day : 1;
const unit = base * 10 ** Math.floor(Math.log10(rough / base));
const round = zone !== null && rough > 1 && rough <= day ? clock : [1, 2, 5, 10].map((m) => m * unit);
const step = round.find((s) => s >= rough);
const ticks = [];
for (const p of seen) {
  const shift = p.offset - p.left + (zone ?? 0);
  const low = Math.max(p.left, range.start) + shift, high = Math.min(p.right, range.end) + shift;
  for (let i = Math.ceil(low / step); i * step <= high; i++) ticks.push(i * step - shift);
}
return ticks;
"""
)
NAMES = (
    SEEN
    + """
const near = 1e-6 * (range.end - range.start);
const of = (x) => seen.find((p) => x >= p.left - near && x < p.right - near);
const here = of(tick);
if (!here) return "";
if (seen.length > 4) return here.name;
const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : range.end - range.start;
const digits = Math.min(20, Math.max(0, Math.ceil(1e-6 - Math.log10(step))));
const position = (x, p) => x - p.left + p.offset;
let text = position(tick, here).toLocaleString("en", {maximumFractionDigits: digits});
if (zone !== null) {
  // Rounded to milliseconds: a tick a moment before midnight would have the wrong day.
  const moment = (x, p) => new Date(Math.round(1000 * (position(x, p) + zone))).toISOString();
  const [date, time] = moment(tick, here).slice(0, -1).split("T");
  const before = index > 0 && of(ticks[index - 1]) == here ? moment(ticks[index - 1], here).split("T")[0] : "";
  const clock = step >= 60 ? time.slice(0, 5) : step >= 1 ? time.slice(0, 8) : time;
  text = step >= 86400 ? date : before == date ? clock : `${date} ${clock}`;
}
return pieces.length > 1 && (index == 0 || of(ticks[index - 1]) != here) ? `${here.name}: ${text}` : text;
"""
)


class Embedded(NamedTuple):
    """The charts of a page, for its template: the library, the place of each chart, and the script that draws them."""

    library: Markup
    places: dict[str, Markup]
    script: Markup


def embedded(models: Mapping[str, Model]) -> Embedded:
    """Charts by name, ready to be placed."""
    script, places = _renamed(*components(dict(models)))
    frame = Markup('<div class="place" id="place-{}">{}</div>')
    return Embedded(
        Markup(Resources(mode="inline", components=["bokeh", "bokeh-gl"]).render_js()),
        {name: frame.format(name, Markup(place.strip())) for name, place in places.items()},
        Markup(script),
    )


def _renamed(script: str, places: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Names of objects by the order in which they appear; Bokeh's names are random, or count what the process drew.

    The same fit then writes the same page.
    """
    found = dict.fromkeys([*re.findall(r'"id":"(p\d+)"', script), *UUID.findall(script)])
    names = {name: f"object{i}" for i, name in enumerate(found)}
    known = "|".join(names)
    quoted = re.compile(f'(?<=")(?:{known})(?=")')

    def renamed(text: str, pattern: re.Pattern[str] = quoted) -> str:
        return pattern.sub(lambda name: names[name[0]], text)

    # Among the data a row may be called p1001, like an object: there, only what is said to be an id is one.
    data, begin, rest = script.partition("const render_items")
    data = renamed(renamed(data, re.compile(f'(?<="id":")(?:{known})(?=")')), UUID)
    return data + begin + renamed(rest), {name: renamed(place) for name, place in places.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class Along:
    """What the charts along the sites show. rows: names, and (S - 1, T) probabilities of the states 1, 2, ...

    data: without the offset; offset: (T,) its mean, None if the model has none.
    """

    stretch: SiteRange
    data: Observations
    band: Band | None
    rows: Sequence[tuple[str, Floats]]
    places: Sequence[str]
    states: Sequence[str]
    shares: Floats
    value: str
    offset: Floats | None = None

    @property
    def y(self) -> Floats:
        return self.data.y.reshape(self.data.n_columns, -1)[:, 0]


def signal_chart(along: Along) -> tuple[Model, Model]:
    """The data with their level above, the probabilities of the rows below: two figures with one x axis."""
    stretch = along.stretch
    low, high = stretch.ends
    shared = Range1d(start=low, end=high, bounds=(low, high), min_interval=max((high - low) / 1e5, 1e-9))
    room = min(150, 46 + 7 * max(len(name) for name, _ in along.rows))
    top = _figure(name="signal", height=350, x_range=shared, y_range=_height(*_limits(along)), min_border_left=room)
    _pieces(top, stretch)
    if along.band is not None:
        _band(top, stretch, along.band)
    _data(top, along)
    if along.offset is not None:
        _offset(top, along, along.offset)
    top.add_layout(BoxAnnotation(name="selected", visible=False, fill_color=ORANGE, fill_alpha=0.18, line_color=None))
    top.yaxis.axis_label = along.value
    top.xaxis.visible = False
    top.xgrid.visible = False
    height = 60 + max(20, min(44, 300 // len(along.rows))) * len(along.rows)
    below = _figure(
        name="rows", height=height, x_range=shared, toolbar_location=None, min_border_left=room, output_backend="canvas"
    )
    _pieces(below, stretch)
    _rows(below, along)
    _axis_along_sites(below, stretch)
    return top, below


def region_chart(name: str, labels: Labels) -> Model:
    """An empty chart of one region; the page fills it with its data and the levels of its explanations."""
    fig = _figure(name=name, height=240, x_range=_height(0, 1), y_range=_height(0, 1))
    points = ColumnDataSource(name=f"{name}-points", data={"x": [], "y": []})
    columns: dict[str, list[float]] = {key: [] for key in ("left", "right", "level", "label", "height")}
    levels = ColumnDataSource(name=f"{name}-levels", data=columns)
    fig.scatter("x", "y", source=points, size=4, color=POINTS, alpha=0.7, legend_label="data")
    fig.segment("left", "level", "right", "level", source=levels, line_width=2.5, color=VERMILLION)
    fig.text(
        "right", "height", "label", source=levels, x_offset=4, text_baseline="middle", text_font_size="12px",
        text_color=VERMILLION,
    )  # fmt: skip
    fig.add_layout(BoxAnnotation(name=f"{name}-inside", fill_color=ORANGE, fill_alpha=0.12, line_color=None))
    fig.yaxis.axis_label = labels.value
    if labels.zone is not None:
        _ticks(fig, [{"name": "", "left": -LATEST, "right": LATEST, "offset": -LATEST}], labels)
    fig.legend.visible = False
    return fig


def parameter_chart(name: str, edges: Floats, heights: Floats, prior: tuple[Floats, Floats] | None) -> Model:
    """A histogram of the draws of one learned value, and its prior as a dashed curve."""
    fig = _figure(height=190, toolbar_location=None, tools="")
    fig.quad(left=edges[:-1], right=edges[1:], bottom=0, top=heights, fill_color=SKY, line_color=BLUE, line_width=0.5)
    top = float(heights.max())
    if prior is not None:
        x, y = prior
        fig.line(x, y, line_width=2, line_dash="dashed", color=VERMILLION)
        top = max(top, min(float(y.max()), 1.5 * top))
    fig.y_range = _height(0, 1.08 * top)
    fig.yaxis.visible = False
    fig.grid.visible = False
    fig.xaxis.ticker.desired_num_ticks = 4
    fig.title.text = name
    return fig


def trace_chart(chains: Floats, name: str) -> Model:
    """(chain, draw) values: a line per chain, of the means of blocks where there are many draws."""
    fig = _figure(name="trace", height=220)
    for c, values in enumerate(chains[: len(LOOKS)]):
        means, step = block_means(values, 0, TRACE_POINTS)
        x = step * (np.arange(len(means)) + 0.5)
        dash = DASHES[c % len(DASHES)]
        fig.line(x, means, line_width=1.5, line_dash=dash, color=_visible(LOOKS[c].colour), legend_label=f"chain {c}")
    fig.xaxis.axis_label, fig.yaxis.axis_label = "draw", name
    _quiet_legend(fig)
    return fig


def ladder_chart(rejection: Floats) -> Model:
    """Share of whole swaps that neighbouring rungs reject; the least rejection is best."""
    fig = _figure(name="ladder", height=220)
    fig.vbar(x=np.arange(len(rejection)), top=rejection, width=0.8, fill_color=SKY, line_color=BLUE)
    fig.y_range = _height(0, 1)
    fig.xaxis.ticker.desired_num_ticks = min(10, len(rejection))
    fig.xaxis.axis_label, fig.yaxis.axis_label = "pair of rungs (0: hottest)", "rejection (share)"
    return fig


def _figure(**options: Any) -> Any:
    settings: dict[str, Any] = {
        "sizing_mode": "stretch_width",
        "output_backend": "webgl",
        "tools": "xpan,xbox_zoom,xwheel_zoom,reset,save",
        "active_drag": "xbox_zoom",
        "active_scroll": None,
        "toolbar_location": "above",
    }
    if options.get("tools") == "":
        del settings["active_drag"], settings["active_scroll"]
    fig = figure(**settings | options)
    if fig.toolbar is not None:
        fig.toolbar.logo = None
    return fig


def _height(low: float, high: float) -> Range1d:
    return Range1d(start=low, end=high)


def _visible(colour: str) -> str:
    """A colour that can be seen on light and on dark paper."""
    return "#6f6f6f" if colour == BLACK else colour


def _quiet_legend(fig: Any) -> None:
    fig.legend.location = "bottom_right"
    fig.legend.click_policy = "hide"
    fig.legend.label_text_font_size = "11px"
    fig.legend.label_text_color = POINTS
    fig.legend.background_fill_alpha = 0
    fig.legend.border_line_alpha = 0


def _limits(along: Along) -> tuple[float, float]:
    shown = [] if along.band is None else [along.band.low[~np.isnan(along.y)], along.band.high[~np.isnan(along.y)]]
    if along.offset is not None:
        shown.append(np.array(robust_limits(along.y + along.offset, [along.offset])))
    return robust_limits(along.y, [*shown, np.zeros(0)])


def _pieces(fig: Any, stretch: SiteRange) -> None:
    """Lines where sequences start."""
    if len(stretch.pieces) > 1:
        at = [piece.left for piece in stretch.pieces[1:]]
        fig.vspan(x=at, line_color=POINTS, line_alpha=0.5, line_dash="dotted")


def _band(fig: Any, stretch: SiteRange, band: Band) -> None:
    low, high, mean = stretch.lowest(band.low), stretch.highest(band.high), stretch.mean(band.mean)
    shown = ~stretch.blank
    runs = _runs(stretch, shown, low, high)
    fig.quad(
        left="left", right="right", bottom="a", top="b", source=ColumnDataSource(runs), color=BAND, alpha=0.45,
        legend_label="5–95% of draws",
    )  # fmt: skip
    steps, edges = stretch.steps(mean)
    x, y = np.repeat(edges, 2)[1:-1], np.repeat(steps, 2)
    kept = ~(np.isnan(y) & np.isnan(np.roll(y, 1)))  # one gap in place of many
    line = ColumnDataSource({"x": x[kept], "y": _small(y[kept])}, name="level")
    fig.line("x", "y", source=line, color=LEVEL, line_width=2, legend_label="posterior mean")


def _data(fig: Any, along: Along) -> None:
    stretch, y = along.stretch, along.y
    name = "data" if along.offset is None else "data less offset"
    limits = fig.y_range.start, fig.y_range.end
    columns: dict[str, Any] = {"x": stretch.centre}
    if stretch.is_thinned:
        low, high = stretch.lowest(y), stretch.highest(y)
        columns |= {"y": _small(high), "low": _small(low), "left": stretch.left, "right": stretch.right}
    else:
        columns["y"] = _small(y)
    columns |= {"place": list(along.places), "state": list(along.states), "share": _small(along.shares)}
    if along.band is not None:
        columns["level"] = _small(stretch.mean(along.band.mean))
        columns["from"], columns["to"] = (
            _small(stretch.lowest(along.band.low)),
            _small(stretch.highest(along.band.high)),
        )
    source = ColumnDataSource(columns, name="sites")
    if stretch.is_thinned:
        drawn = fig.quad(
            left="left", right="right", bottom="low", top="y", source=source, color=POINTS, alpha=0.8, level="underlay",
            legend_label=f"{name}, lowest to highest",
        )  # fmt: skip
    else:
        size = float(np.interp(len(y), [200, 5_000], [6, 2.5]))
        drawn = fig.scatter(
            "x", "y", source=source, size=size, color=POINTS, alpha=0.6, level="underlay", legend_label=name
        )
    _beyond(fig, stretch, y, limits)
    value = "@low{0.[0000]} to @y{0.[0000]}" if stretch.is_thinned else "@y{0.[0000]}"
    tips = [("", "@place"), ("value", value)]
    if along.band is not None:
        tips.append(("level", "@level{0.[0000]} (5–95%: @from{0.[0000]} to @to{0.[0000]})"))
    tips.append(("state", "@state, probability @share{0.000}"))
    fig.add_tools(HoverTool(renderers=[drawn], tooltips=tips, mode="vline", limit=1, point_policy="snap_to_data"))
    _quiet_legend(fig)
    fig.legend.orientation = "horizontal"
    fig.legend.location = "left"
    fig.add_layout(fig.legend[0], "above")


def _offset(fig: Any, along: Along, offset: Floats) -> None:
    """The offset, and the data before it was subtracted, which a click on the legend shows."""
    stretch, y = along.stretch, along.y + offset
    line = ColumnDataSource({"x": stretch.centre, "y": _small(stretch.mean(offset))}, name="offset")
    fig.line("x", "y", source=line, color=VERMILLION, legend_label="offset")
    name = "data with the offset"
    raw = {"x": stretch.centre, "low": _small(stretch.lowest(y)), "high": _small(stretch.highest(y))}
    style: dict[str, Any] = {"color": VERMILLION, "level": "underlay", "legend_label": name, "visible": False}
    source = ColumnDataSource(raw, name="with-offset")
    if stretch.is_thinned:
        fig.segment("x", "low", "x", "high", source=source, alpha=0.5, **style)
    else:
        fig.scatter("x", "high", source=source, size=3, alpha=0.5, **style)


def _beyond(fig: Any, stretch: SiteRange, y: Floats, limits: tuple[float, float]) -> None:
    """Triangles at the edge for values that are outside of the axis at first."""
    low, high = stretch.lowest(y), stretch.highest(y)
    with np.errstate(invalid="ignore"):
        above, below = high > limits[1], low < limits[0]
    # On the very edge half of a triangle would be cut off.
    foot, top = limits[0] + EDGE * (limits[1] - limits[0]), limits[1] - EDGE * (limits[1] - limits[0])
    for outside, inside, marker in ((above, top, "triangle"), (below, foot, "inverted_triangle")):
        if outside.any():
            x = stretch.centre[outside]
            fig.scatter(
                x, np.full(len(x), inside), marker=marker, size=8, color=VERMILLION, legend_label="beyond the axis"
            )


def _rows(fig: Any, along: Along) -> None:
    """A band per row, filled as high as the row is probably on; higher states are darker."""
    stretch = along.stretch
    shown = ~stretch.blank
    parts: dict[str, list[Any]] = {
        name: [] for name in ("left", "right", "bottom", "top", "row", "state", "p", "shade")
    }
    n = len(along.rows)
    for k, (name, probabilities) in enumerate(along.rows):
        foot = np.zeros(len(stretch.first))
        n_states = len(probabilities)
        for state in range(n_states, 0, -1):
            own = probabilities[state - 1]
            p = stretch.highest(own) if n_states == 1 else stretch.mean(own)
            rounded = np.round(p * PRECISION) / PRECISION
            runs = _runs(stretch, shown & (rounded > 0), foot, foot + rounded)
            base = n - 1 - k
            parts["left"].append(runs["left"])
            parts["right"].append(runs["right"])
            parts["bottom"].append(base + 0.86 * runs["a"])
            parts["top"].append(base + 0.86 * runs["b"])
            parts["p"].append(runs["b"] - runs["a"])
            parts["row"] += [name] * len(runs["left"])
            parts["state"].append(np.full(len(runs["left"]), state, np.int32))
            parts["shade"] += [_shade(state, n_states)] * len(runs["left"])
            foot = foot + rounded
    flat = {name: part if name in ("row", "shade") else np.concatenate(part) for name, part in parts.items()}
    exact = ("row", "shade", "left", "right")
    numbers = {name: part if name in exact else _small(np.asarray(part)) for name, part in flat.items()}
    source = ColumnDataSource(numbers, name="probabilities")
    # The line closes the seams between neighbours, and makes the narrowest peak a pixel wide.
    drawn = fig.quad(
        left="left", right="right", bottom="bottom", top="top", source=source, fill_color="shade", line_color="shade",
        line_width=1,
    )  # fmt: skip
    several = any(len(probabilities) > 1 for _, probabilities in along.rows)
    tips = [("row", "@row"), *([("state", "@state")] if several else []), ("probability", "@p{0.000}")]
    fig.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
    fig.y_range = _height(-0.1, n)
    fig.yaxis.ticker = FixedTicker(ticks=[n - 1 - k + 0.43 for k in range(n)])
    fig.yaxis.major_label_overrides = {
        n - 1 - k + 0.43: name if len(name) <= 18 else f"{name[:17]}…" for k, (name, _) in enumerate(along.rows)
    }
    fig.grid.visible = False
    fig.yaxis.major_tick_in = fig.yaxis.major_tick_out = 0


def _shade(state: int, highest: int) -> str:
    """The colour of a state: the darker the higher, for paper of either kind."""
    light, dark = (0x9C, 0xCC, 0xEE), (0x00, 0x5F, 0x9E)
    share = 1.0 if highest == 1 else (state - 1) / (highest - 1)
    mixed = [round(a + share * (b - a)) for a, b in zip(light, dark, strict=True)]
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _axis_along_sites(fig: Any, stretch: SiteRange) -> None:
    fig.xaxis.axis_label = stretch.axis_name if stretch.labels.unit == "" else "chromosome, and position (Mb) in it"
    if not stretch.has_positions:
        fig.xaxis.formatter = NumeralTickFormatter(format="0,0")
        return
    pieces = [piece._asdict() for piece in stretch.pieces]
    _ticks(fig, pieces, stretch.labels)


def _ticks(fig: Any, pieces: list[dict[str, Any]], labels: Labels) -> None:
    """Ticks at names of sequences and at round positions, which are dates and times where these are time stamps."""
    known = {"pieces": pieces, "range": fig.x_range, "zone": _seconds_ahead(labels.zone)}
    fig.xaxis.ticker = CustomJSTicker(args=known, major_code=TICKS)
    fig.xaxis.formatter = CustomJSTickFormatter(args=known, code=NAMES)


def _seconds_ahead(zone: tzinfo | None) -> float | None:
    """Seconds that a time zone is ahead of UTC; the zone of a data file is the same all year."""
    ahead = None if zone is None else datetime.now(zone).utcoffset()
    return None if ahead is None else ahead.total_seconds()


def _runs(stretch: SiteRange, shown: npt.NDArray[np.bool_], a: Floats, b: Floats) -> dict[str, Floats]:
    """Neighbouring blocks with the same a and b as one: their left, right, a and b."""
    same = np.zeros(len(a), bool)
    close = stretch.left[1:] <= stretch.right[:-1] + 1e-9 * max(1.0, abs(stretch.ends[1]))
    same[1:] = shown[1:] & shown[:-1] & (a[1:] == a[:-1]) & (b[1:] == b[:-1]) & close
    drawn = np.flatnonzero(shown)
    begins = np.flatnonzero(~same[drawn])
    first, last = drawn[begins], drawn[np.append(begins[1:], len(drawn)) - 1] if len(drawn) else drawn
    return {"left": stretch.left[first], "right": stretch.right[last], "a": a[first], "b": b[first]}


def _small(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Four bytes are enough for a picture, but not for a place on a long axis."""
    return values if values.dtype.kind == "i" else values.astype(np.float32)


def as_numbers(values: Floats, digits: int = 5) -> list[float | None]:
    """Values for JSON, to some digits."""
    return [None if np.isnan(value) else float(f"{value:.{digits}g}") for value in values.tolist()]


def region_points(stretch: SiteRange, y: Floats) -> Mapping[str, list[float | None]]:
    """The data of a stretch as points: each block by its lowest and its highest value."""
    low, high = stretch.lowest(y), stretch.highest(y)
    # Seconds since 1970 have ten digits before the point.
    digits = 9 if stretch.labels.zone is None else 16
    if not stretch.is_thinned:
        return {"x": as_numbers(stretch.centre, digits), "y": as_numbers(y)}
    x = np.repeat(stretch.centre, 2)
    return {"x": as_numbers(x, digits), "y": as_numbers(np.stack([low, high], axis=1).ravel())}
