"""Queues tuned on a user's own lengths."""

import numpy as np
import pytest

import equipoise as eq


def lengths():
    """Mostly short documents; one in forty is at least half a window."""
    rng = np.random.default_rng(3)
    return np.where(rng.random(8000) < 1 / 40, rng.integers(2048, 4000, 8000), rng.integers(10, 300, 8000))


def inputs(**changes):
    return eq.PlanInputs(
        **({"mesh": eq.Mesh(), "window": 4096, "max_tokens": 6144, "micro_steps": 4, "strategy": "wlb"} | changes)
    )


def test_tuned_queues_level_the_steps_that_they_promise():
    tuned = eq.tune_queues(lengths(), inputs(), mean_delay=1.0)
    assert tuned.best in tuned.frontier
    assert tuned.best.mean_delay_ppm <= 1_000_000
    none, best = (
        compared.run.weighted_imbalance_ppm
        for compared in eq.compare(lengths(), [inputs(), inputs(queues=tuned.best.queues)])
    )
    assert best - 1_000_000 < (none - 1_000_000) / 2


def test_a_longer_wait_levels_more():
    short, long = (eq.tune_queues(lengths(), inputs(), mean_delay=delay).best for delay in (0.2, 1.0))
    assert short.weighted_imbalance_ppm > long.weighted_imbalance_ppm


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mean_delay": -1}, "mean delay -1"),
        ({"mean_delay": "half"}, "mean delay 'half'"),
        ({"most_queues": 9}, "9 queues"),
        ({"inputs": inputs(strategy="plain")}, "strategy wlb"),
    ],
)
def test_wrong_arguments_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        eq.tune_queues(**({"lengths": lengths(), "inputs": inputs()} | wrong))
