"""The record of a comparison in a few numbers: medians, ratios, losses, delays, planning."""

import statistics
from typing import Any

from equipoise.delays import Delays, add_step
from equipoise.timing import imbalance

LOSS_LIMIT = 1e-5  # relative; what rounding in fp32 may do to equal training


def summarise(record: dict[str, Any]) -> dict[str, Any]:
    """Medians over the steps that count; ratios of the time of a token in all of these; losses over all steps."""
    plain, balanced = (
        [step[side] for step in record["steps"][record["uncounted"] :]] for side in ("plain", "balanced")
    )
    result: dict[str, Any] = {}
    for name, side in (("plain", plain), ("balanced", balanced)):
        result[name] = {
            "tokens": statistics.median(step["tokens"] for step in side),
            "step_s": statistics.median(step["step_s"] for step in side),
            "predicted_step_ns": statistics.median(step["predicted_step_ns"] for step in side),
            **planning_of(side),
            "attention_s": statistics.median(step["attention_s"] for step in side),
            "measured_imbalance": statistics.median(imbalance(step["work_s"]) for step in side),
            "predicted_imbalance": statistics.median(imbalance(step["predicted_ns"]) for step in side),
            "lower_bound": statistics.median(step["lower_bound"] for step in side),
            "moved_bytes": statistics.median(step["moved_bytes"] for step in side),
            "mean_loss": mean_loss([step[name] for step in record["steps"]]),
        }
    for name, key in (("step", "step_s"), ("attention", "attention_s"), ("predicted", "predicted_step_ns")):
        result[f"{name}_ratio"] = per_token(balanced, key) / per_token(plain, key)
    level = sum(step["lower_bound"] * statistics.mean(step["work_s"]) for step in plain)
    result["most_gain"] = sum(max(step["work_s"]) for step in plain) / level
    result["prediction_error"] = statistics.median(
        abs(predicted / 1e9 - work) / work
        for step in plain
        for predicted, work in zip(step["predicted_ns"], step["work_s"], strict=True)
        if work > 0
    )
    result["loss_difference"] = max(loss_differences(record))
    return result


def per_token(steps: list[dict[str, Any]], key: str) -> float:
    """Of all steps together: steps are unlike, and so are the ways to fill them."""
    return sum(step[key] for step in steps) / sum(step["tokens"] for step in steps)


def loss_differences(record: dict[str, Any]) -> list[float]:
    return [abs(s["balanced"]["loss"] - s["plain"]["loss"]) / abs(s["plain"]["loss"]) for s in record["steps"]]


def mean_loss(steps: list[dict[str, Any]]) -> float:
    """Over all targets."""
    return sum(step["loss"] * step["targets"] for step in steps) / sum(step["targets"] for step in steps)


def planning_of(steps: list[dict[str, Any]]) -> dict[str, float]:
    """What planning cost: its median on the slowest rank, and the share of all time that ranks waited for it."""
    waited, ran = (sum(step[key] for step in steps) for key in ("exposed_s", "step_s"))
    return {
        "planning_s": statistics.median(step["planning_s"] for step in steps),
        "exposed_share": waited / (waited + ran),
    }


def delays_of(record: dict[str, Any]) -> Delays:
    """What waited under the strategy that is compared with plain."""
    delays = Delays()
    for index, step in enumerate(record["steps"]):
        delays = add_step(delays, index, step["balanced"]["delay"])
    return delays
