"""The report of a comparison: one HTML file that needs nothing else, made from the JSON record that is written beside
it.

`python -m equipoise.report RECORD.json REPORT.html` makes it again.
"""

import argparse
import json
from html import escape
from pathlib import Path
from typing import Any

from equipoise.charts import Line, bar_chart, difference_chart, line_chart, load_chart
from equipoise.delays import sentences
from equipoise.drawing import draw_plan, legend
from equipoise.summary import LOSS_LIMIT, delays_of, loss_differences, summarise

PLAIN, BALANCED = "#8d95a0", "#0f8a6d"

STYLE = """
body{margin:0;background:#f6f7f9;color:#1d2530;font:16px/1.5 system-ui,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
main{max-width:1180px;margin:0 auto;padding:40px 28px 60px}
h1{font-size:30px;margin:0 0 6px;letter-spacing:-.01em}h2{font-size:19px;margin:0 0 2px}
p{margin:0 0 10px;color:#4b5563}.lead{max-width:880px;font-size:17px}
.cards{display:grid;grid-template-columns:repeat(4,1fr);gap:14px;margin:24px 0}
.card,section{background:#fff;border:1px solid #e3e6ea;border-radius:10px;padding:16px 18px}
.card b{display:block;font-size:30px;letter-spacing:-.02em;color:#0f6b55}.card span{color:#5b6470;font-size:14px}
.card.bad b{color:#b3261e}section{margin:0 0 16px;padding:20px 22px}
.two{display:grid;grid-template-columns:1fr 1fr;gap:26px}h3{font-size:15px;margin:10px 0 4px;font-weight:600}
svg{width:100%;height:auto;display:block}svg text{font:12px system-ui,sans-serif}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
td,th{text-align:right;padding:7px 10px;border-top:1px solid #eceff2}
td:first-child,th:first-child{text-align:left;padding-left:0}th{border:0;color:#5b6470;font-weight:600;font-size:14px}
.legend{margin:4px 0 6px;font-size:14px}.mark{margin-right:18px}.mark i{display:inline-block;width:12px;height:12px;
border-radius:3px;margin-right:6px;vertical-align:-1px}
.settings td{font-size:14px;color:#4b5563}.settings td:last-child{text-align:left}
@media(max-width:800px){.two,.cards{grid-template-columns:1fr}}
"""


def make_report(record: dict[str, Any]) -> str:
    summary = summarise(record)
    body = [headline(record, summary), cards(record, summary), table(record, summary), times(record, summary)]
    body += [loads(record), losses(record, summary), waits(record), plan(record), settings(record)]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Equipoise: balanced training</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def headline(record: dict[str, Any], summary: dict[str, Any]) -> str:
    counted = len(record["steps"]) - record["uncounted"]
    strategy = f"<b>{escape(record['strategy'])}</b>"
    if record["same_segments"]:
        same = "the same training" if summary["loss_difference"] <= LOSS_LIMIT else "but the losses differ"
        order = "on the same documents in the same order"
        does = f"{strategy} moves tiles of it to ranks that would wait"
    else:
        same = f"{delays_of(record).delayed_tokens:,} tokens delayed"
        order = "on documents that arrive in the same order"
        does = f"{strategy} packs them whole, into steps of its own choice"
    return (
        f"<h1>Attention {1 / summary['attention_ratio']:.2f}x faster, {same}</h1>"
        f'<p class="lead">Two copies of one model trained {order} over {record["ranks"]} ranks, step by step in turn: '
        f"<b>plain</b> computes attention where the tokens are, {does}. Medians of {counted} steps, the first "
        f"{record['uncounted']} not counted; speed-ups are of the time for a token.</p>"
    )


def cards(record: dict[str, Any], summary: dict[str, Any]) -> str:
    plain, balanced = summary["plain"], summary["balanced"]
    shown = [
        (f"{1 / summary['attention_ratio']:.2f}x", "attention speed-up, slowest rank", False),
        (f"{1 / summary['step_ratio']:.2f}x", "step speed-up", False),
        (
            f"{plain['measured_imbalance']:.2f} &rarr; {balanced['measured_imbalance']:.2f}",
            "imbalance of attention work, slowest / mean",
            False,
        ),
    ]
    if record["same_segments"]:
        difference = summary["loss_difference"]
        label = "largest relative loss difference, where 1e-5 is allowed"
        shown.append((f"{difference:.0e}", label, difference > LOSS_LIMIT))
    else:
        shown.append((f"{delays_of(record).mean_steps:.2f}", "steps of delay, mean of all tokens", False))
    return '<div class="cards">' + "".join(card(*values) for values in shown) + "</div>"


def card(value: str, label: str, bad: bool) -> str:
    return f'<div class="card{" bad" if bad else ""}"><b>{value}</b><span>{label}</span></div>'


def table(record: dict[str, Any], summary: dict[str, Any]) -> str:
    rows = [
        ("tokens of a step, median", "tokens", lambda v: f"{v:,.0f}"),
        ("step, median", "step_s", lambda v: f"{1000 * v:,.0f} ms"),
        ("its layers as predicted", "predicted_step_ns", lambda v: f"{v / 1e6:,.0f} ms"),
        ("planning a step beside the one before, slowest rank, median", "planning_s", lambda v: f"{1000 * v:,.1f} ms"),
        ("waited for plans before steps, share of all time", "exposed_share", lambda v: f"{v:.2%}"),
        ("attention of the slowest rank, median", "attention_s", lambda v: f"{1000 * v:,.0f} ms"),
        ("imbalance, measured", "measured_imbalance", lambda v: f"{v:.3f}"),
        ("imbalance, predicted", "predicted_imbalance", lambda v: f"{v:.3f}"),
        ("lower bound of the imbalance", "lower_bound", lambda v: f"{v:.3f}"),
        (
            "moved in the forward, all ranks and layers (backward: about twice that)",
            "moved_bytes",
            lambda v: f"{v / 1e6:,.1f} MB",
        ),
    ]
    cells = "".join(
        f"<tr><td>{label}</td><td>{show(summary['plain'][key])}</td><td>{show(summary['balanced'][key])}</td></tr>"
        for label, key, show in rows
    )
    return (
        f"<section><h2>In numbers</h2><p>Perfectly level attention would be {summary['most_gain']:.2f}x faster: the "
        "slowest rank's work under plain over the mean, in all steps together. Predicted and measured work of a rank "
        f"differ by {summary['prediction_error']:.1%} (median).</p><table>"
        f"<tr><th></th><th>plain</th><th>{escape(record['strategy'])}</th></tr>{cells}</table></section>"
    )


def times(record: dict[str, Any], summary: dict[str, Any]) -> str:
    def chart(key: str) -> str:
        lines = [
            Line(name, colour, [step[side][key] for step in record["steps"]], median=summary[side][key])
            for name, side, colour in (("plain", "plain", PLAIN), (record["strategy"], "balanced", BALANCED))
        ]
        return line_chart(lines, "s", record["uncounted"])

    return (
        f"<section><h2>Time</h2><p>Seconds; dashed lines are medians.</p>{sides(record)}<div class=two>"
        f"<div><h3>Step</h3>{chart('step_s')}</div>"
        f"<div><h3>Attention of the slowest rank, forward and backward</h3>{chart('attention_s')}</div></div></section>"
    )


def loads(record: dict[str, Any]) -> str:
    measured = {
        side: [[1000 * work for work in step[side]["work_s"]] for step in record["steps"]]
        for side in ("plain", "balanced")
    }
    high = 1.08 * max(load for steps in measured.values() for step in steps for load in step)
    charts = {side: load_chart(steps, high, record["uncounted"]) for side, steps in measured.items()}
    return (
        "<section><h2>Load of each rank, before and after</h2><p>Milliseconds that a rank itself worked on attention "
        "in each step. The grey line between ranks is time that one waits for another.</p>"
        f"{legend(record['ranks'])}"
        f"<div class=two><div><h3>plain</h3>{charts['plain']}</div>"
        f"<div><h3>{escape(record['strategy'])}</h3>{charts['balanced']}</div></div></section>"
    )


def losses(record: dict[str, Any], summary: dict[str, Any]) -> str:
    lines = [
        Line("plain", "#c9ced5", [step["plain"]["loss"] for step in record["steps"]], width=6),
        Line(record["strategy"], BALANCED, [step["balanced"]["loss"] for step in record["steps"]]),
    ]
    curves = f"<div><h3>Loss, nats per byte</h3>{line_chart(lines, 'nats', 0, from_zero=False)}</div>"
    if record["same_segments"]:
        says = (
            "Moving attention changes the order in which numbers are added and nothing else: "
            "the curves lie on each other."
        )
        curves += f"<div><h3>Relative difference</h3>{difference_chart(loss_differences(record), LOSS_LIMIT)}</div>"
    else:
        plain, other = (summary[side]["mean_loss"] for side in ("plain", "balanced"))
        says = (
            f"A step holds other documents on each side. Mean of all targets: {plain:.4f} under plain, {other:.4f} so."
        )
    return f"<section><h2>Loss</h2><p>{says}</p><div class=two>{curves}</div></section>"


def waits(record: dict[str, Any]) -> str:
    """Nothing where nothing waited."""
    delays = delays_of(record)
    if not (said := sentences(delays)):
        return ""
    trained = [delays.by_delay.get(delay, 0) for delay in range(max(delays.by_delay) + 1)]
    held = Line("held", BALANCED, [step["balanced"]["delay"]["held"][1] for step in record["steps"]])
    return (
        f"<section><h2>Delay</h2><p>{escape('; '.join(said))}.</p><div class=two>"
        f"<div><h3>Tokens trained, by the steps that they waited</h3>{bar_chart(trained, 'steps waited')}</div>"
        f"<div><h3>Tokens that wait after each step</h3>{line_chart([held], 'tokens', 0)}</div></div></section>"
    )


def plan(record: dict[str, Any]) -> str:
    drawing = record["drawing"]
    step = record["steps"][drawing["step"]]
    before, after = (
        " and ".join(f"{1000 * work:,.0f}" for work in step[side]["work_s"]) for side in ("plain", "balanced")
    )
    worked = f"{before} ms under plain, {after} ms so" if record["same_segments"] else f"{after} ms"
    return (
        f"<section><h2>Who computes what in step {drawing['step']}</h2><p>Query rows downwards, keys to the right; "
        "each triangle is a document, its area is attention work. The strip above shows the documents of the sequence. "
        "What has another colour than the rest of its square was sent to that rank, and its result sent back. "
        f"Ranks worked {worked}.</p>"
        f"{legend(record['ranks'])}{draw_plan(drawing)}</section>"
    )


def settings(record: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(key)}</td><td>{escape(str(value))}</td></tr>" for key, value in record["settings"].items()
    )
    return f'<section class="settings"><h2>Settings</h2><table>{rows}</table></section>'


def sides(record: dict[str, Any]) -> str:
    return (
        f'<p class="legend"><span class="mark"><i style="background:{PLAIN}"></i>plain</span>'
        f'<span class="mark"><i style="background:{BALANCED}"></i>{escape(record["strategy"])}</span></p>'
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m equipoise.report", description="Makes a report again.")
    parser.add_argument("record", type=Path, help="the record.json of a comparison")
    parser.add_argument("report", type=Path, help="the HTML file to write")
    given = parser.parse_args()
    given.report.write_text(make_report(json.loads(given.record.read_text())))
