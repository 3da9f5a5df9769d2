"""The report says what the record says, and shows it without anything from outside."""

import re
from html.parser import HTMLParser

import pytest

from equipoise.report import make_report
from equipoise.summary import delays_of, loss_differences, summarise
from equipoise.timing import imbalance

NO_DELAY = {"by_delay": [[0, 100]], "longest": None, "held": [0, 0], "oldest": None}


def make_side(step_s: float, work_s: list[float], loss: float, moved: int) -> dict:
    return {
        "loss": loss,
        "tokens": 100,
        "targets": 90,
        "step_s": step_s,
        "planning_s": 0.25,
        "exposed_s": 0.1,
        "attention_s": max(work_s),
        "work_s": work_s,
        "predicted_step_ns": round(2e9 * max(work_s)),
        "predicted_ns": [round(1.1e9 * work) for work in work_s],
        "moved_bytes": moved,
        "lower_bound": 1.0,
        "delay": NO_DELAY,
    }


def make_record(loss_error: float = 0.0) -> dict:
    """Three steps, the first not counted: plain's ranks work 3 and 1 seconds, balanced ones 2.2 and 1.8."""
    steps = [
        {
            "plain": make_side(5.0, [3.0, 1.0], 2.0, 0),
            "balanced": make_side(4.0, [2.2, 1.8], 2.0 * (1 + loss_error), 5_000_000),
        }
        for _ in range(3)
    ]
    steps[0]["plain"]["step_s"] = 50.0
    drawing = {
        "step": 1,
        "query_heads": 4,
        "kv_heads": 2,
        "sequences": [[[7, 0, 60], [8, 0, 40]], [[9, 0, 100]]],
        "tiles": [[0, 1, 0, 70, 30, 0, 4, 0, 1], [0, 0, 0, 50, 10, 0, 1, 1, 1]],
    }
    return {
        "strategy": "equipoise",
        "ranks": 2,
        "uncounted": 1,
        "same_segments": True,
        "steps": steps,
        "drawing": drawing,
        "settings": {"corpus": "<none & all>"},
    }


def test_ratios_are_of_all_counted_steps_together() -> None:
    record = make_record()
    record["steps"][1]["plain"]["step_s"] = 11.0  # 5 in the other one
    assert summarise(record)["step_ratio"] == pytest.approx(8 / 16)


def test_the_summary_is_over_counted_steps() -> None:
    summary = summarise(make_record())
    assert summary["step_ratio"] == pytest.approx(4 / 5)
    assert summary["attention_ratio"] == pytest.approx(2.2 / 3)
    assert summary["plain"]["measured_imbalance"] == pytest.approx(1.5)
    assert summary["balanced"]["measured_imbalance"] == pytest.approx(1.1)
    assert summary["most_gain"] == pytest.approx(1.5)
    assert summary["predicted_ratio"] == pytest.approx(2.2 / 3)
    assert summary["prediction_error"] == pytest.approx(0.1)
    assert summary["balanced"]["moved_bytes"] == 5_000_000


def test_planning_is_the_median_and_the_share_of_time_that_was_waited_for_it() -> None:
    record = make_record()
    record["steps"][0]["balanced"] |= {"planning_s": 9.0, "exposed_s": 9.0}  # not counted
    record["steps"][2]["balanced"] |= {"planning_s": 0.75, "exposed_s": 0.0}
    balanced = summarise(record)["balanced"]
    assert balanced["planning_s"] == pytest.approx(0.5)
    assert balanced["exposed_share"] == pytest.approx(0.1 / (0.1 + 4 + 4))
    page = make_report(record)
    assert "<td>250.0 ms</td><td>500.0 ms</td>" in page
    assert "<td>1.96%</td><td>1.23%</td>" in page


def test_imbalance_is_the_heaviest_over_the_mean() -> None:
    assert imbalance([3.0, 1.0]) == 1.5
    assert imbalance([0.0, 0.0]) == 1.0


def test_one_step_with_another_loss_is_enough_to_be_seen() -> None:
    record = make_record()
    record["steps"][0]["balanced"]["loss"] *= 1.001  # not counted for time, counted for losses
    assert summarise(record)["loss_difference"] == pytest.approx(1e-3)
    assert loss_differences(record)[1:] == [0.0, 0.0]
    assert "but the losses differ" in make_report(record)
    assert "the same training" in make_report(make_record())


def make_delayed_record() -> dict:
    """Of 300 tokens 60 wait for one step and 20 for two; document 7 is left waiting."""
    record = make_record() | {"strategy": "wlb", "same_segments": False}
    waits = [
        {"by_delay": [[0, 100]], "longest": None, "held": [3, 110], "oldest": [4, 60, 1]},
        {"by_delay": [[0, 40], [1, 60]], "longest": [4, 60, 1], "held": [2, 50], "oldest": [5, 20, 2]},
        {"by_delay": [[0, 80], [2, 20]], "longest": [5, 20, 2], "held": [1, 30], "oldest": [7, 30, 3]},
    ]
    for step, delay in zip(record["steps"], waits, strict=True):
        step["balanced"] |= {"delay": delay, "loss": 1.5, "tokens": 50}
    return record


def test_delays_are_counted_drawn_and_named() -> None:
    record = make_delayed_record()
    assert delays_of(record).by_delay == {0: 220, 1: 60, 2: 20}
    page = make_report(record)
    assert "80 of 300 tokens trained were delayed (26.7%), 0.33 steps in the mean of all" in page
    assert "longest wait: document 7 (30 tokens) since step 0, 3 steps" in page
    assert (
        "not trained: 30 tokens of 1 documents held at the end, the oldest document 7 (30 tokens) since step 0" in page
    )
    for bar in ("0 steps waited: 220 (73.3%)", "1 steps waited: 60 (20.0%)", "2 steps waited: 20 (6.7%)"):
        assert f"<title>{bar}</title>" in page
    for held in (110, 50, 30):
        assert f"held, step {(110, 50, 30).index(held)}: {held} tokens" in page


def test_where_steps_hold_other_documents_losses_are_not_compared_step_by_step() -> None:
    page = make_report(make_delayed_record())
    assert "Relative difference" not in page
    assert "losses differ" not in page
    assert "2.0000 under plain, 1.5000 so" in page
    # 4 s for 50 tokens against 5 s for 100.
    assert summarise(make_delayed_record())["step_ratio"] == pytest.approx(1.6)


def test_without_delay_the_page_does_not_speak_of_it() -> None:
    assert "elay" not in make_report(make_record())


class Places(HTMLParser):
    """Open elements, and every place that a page could load something from."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.polygons = 0

    def handle_starttag(self, tag: str, attributes: list) -> None:
        self.loads += [value for name, value in attributes if name in ("src", "href", "xlink:href", "data")]
        self.polygons += tag == "polygon"
        if tag not in ("meta", "rect", "line", "polyline") or tag == "rect":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass


def test_the_page_needs_nothing_from_outside_and_draws_every_document_and_tile() -> None:
    page = make_report(make_record())
    places = Places()
    places.feed(page)
    assert places.loads == []
    assert not re.search(r"https?://|@import|url\(", page)
    # Two KV heads: three documents in each, the whole-head tile in both, the single-head tile in one.
    assert places.polygons == 2 * 3 + 2 + 1


def test_names_from_outside_are_text_and_not_markup() -> None:
    assert "&lt;none &amp; all&gt;" in make_report(make_record())
