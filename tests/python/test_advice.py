"""The size of pools, from Python."""

import numpy as np
import pytest

import equipoise as eq


def lengths():
    rng = np.random.default_rng(7)
    return np.where(rng.random(400) < 1 / 20, rng.integers(1000, 4000, 400), rng.integers(10, 300, 400))


def inputs(**changes):
    return eq.PlanInputs(**({"mesh": eq.Mesh(dp=4), "window": 4096, "model": "llama3-8b"} | changes))


def test_every_size_is_measured_and_the_smallest_good_one_chosen():
    advice = eq.advise_pool(lengths(), inputs(), steps=2)
    assert [size.pool for size in advice.sizes] == [1, 2, 4]
    best = min(size.token_ps for size in advice.sizes)
    assert advice.fastest.token_ps == best
    assert advice.chosen == next(size for size in advice.sizes if 100 * size.token_ps <= 101 * best)
    assert len({size.tokens for size in advice.sizes}) == 1


def test_a_size_is_what_compare_predicts_for_it():
    advice = eq.advise_pool(lengths(), inputs(), steps=2)
    for size in advice.sizes:
        (compared,) = eq.compare(lengths(), [inputs(pool=size.pool)], steps=2)
        assert size.tokens == sum(step.tokens for step in compared.steps)
        assert size.step_ns == sum(step.step_ns for step in compared.steps) // 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": 0}, "steps 0 is too small, field steps"),
        ({"lengths": []}, "there is no step to plan"),
        ({"inputs": "libra"}, "inputs 'libra' are no PlanInputs"),
        ({"inputs": inputs(strategy="plain")}, "strategy 'plain' shares no attention in pools"),
    ],
)
def test_what_cannot_be_advised_on_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        eq.advise_pool(**({"lengths": lengths(), "inputs": inputs()} | wrong))
