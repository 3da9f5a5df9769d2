"""The integer programs that packings are compared with, against trying all ways; and packings against the programs."""

import itertools
from pathlib import Path

import numpy as np
import pytest

import equipoise as eq
from _exact_packing import Problem, solve, step_costs

HARDWARE = Path(__file__).parents[2] / "bench" / "flops_hardware.json"


def random_problem(seed):
    rng = np.random.default_rng(seed)
    steps, sequences = (1, 3) if seed % 2 else (2, 2)
    tokens = np.sort(rng.integers(1, 20, 7))[::-1]
    cap = max(int(tokens.sum() * 1.3 / (steps * sequences)), int(tokens[0]))
    return Problem(tokens.astype(float) ** 2 + 10 * tokens, tokens, steps, sequences, cap)


def all_packings(problem):
    places = problem.steps * problem.sequences
    for packing in itertools.product(range(places), repeat=len(problem.tokens)):
        packing = np.array(packing)
        if np.bincount(packing, weights=problem.tokens).max() <= problem.cap:
            yield packing


@pytest.mark.parametrize("seed", range(8))
def test_the_program_finds_what_trying_all_ways_finds(seed):
    problem = random_problem(seed)
    packings = list(all_packings(problem))
    best = min(step_costs(problem, packing).sum() for packing in packings)
    worst = max(packings, key=lambda packing: step_costs(problem, packing).sum())
    exact = solve(problem, worst, seconds=30)
    assert exact.found == pytest.approx(best)
    assert exact.bound == pytest.approx(best)


def test_a_known_packing_is_never_lost_where_time_is_short():
    rng = np.random.default_rng(0)
    tokens = np.sort(rng.integers(1, 10_000, 60))[::-1]
    problem = Problem(tokens.astype(float) ** 2, tokens, 1, 8, int(tokens.sum()))
    start = np.arange(60) % 8
    exact = solve(problem, start, seconds=0.01)
    assert exact.bound <= exact.found <= step_costs(problem, start).sum() * (1 + 1e-9)


def times_of(lengths, inputs):
    """Predicted time of each length as a document of its own, nanoseconds."""
    return {n: eq.compare([n], [inputs])[0].steps[0].total_ns for n in {int(length) for length in lengths}}


@pytest.mark.parametrize(("strategy", "gap"), [("fixed", 0.1), ("wlb", 0.15), ("equipoise", 0.02)])
def test_no_packing_beats_the_bound_of_its_program_and_few_are_far_above(strategy, gap):
    """The program packs the documents of each step anew."""
    lengths = np.random.default_rng(1).integers(1, 120, 160)
    model = eq.ModelShape("tiny", 1, 8, 1, 1, 8, 8, 1, 8)
    sound = {"mesh": eq.Mesh(), "micro_steps": 4, "window": 128, "max_tokens": 192, "model": model}
    waits = {"max_delay": 2} if strategy == "equipoise" else {}
    inputs = eq.PlanInputs(**sound, hardware=str(HARDWARE), strategy=strategy, **waits)
    times = times_of(lengths, eq.PlanInputs(**sound, hardware=str(HARDWARE), strategy="plain"))
    state, gaps = None, []
    for _ in range(8):
        line, state = eq.plan_step(inputs, lengths, state)
        rows = [(t, s) for s, sequence in enumerate(line["sequences"]) for _, _, t in sequence]
        tokens, places = np.array(sorted(rows, reverse=True)).T
        costs = np.array([times[int(t)] for t in tokens], dtype=float)
        problem = Problem(costs, tokens, 1, 4, 128 if strategy == "fixed" else 192)
        exact = solve(problem, places, seconds=2)
        ours = step_costs(problem, places).sum()
        assert exact.bound <= ours * (1 + 1e-9)
        gaps.append(ours / exact.found - 1)
    assert np.mean(gaps) < gap
