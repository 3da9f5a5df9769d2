"""Packing as an integer program, solved by HiGHS: the optimum that packings are compared with, or a bound on it.

Documents are dealt whole to steps x sequences of at most `cap` tokens; the slowest sequence of each step decides its
time, and the sum over the steps is minimised. With one step it is the program of one batch, fixed or variable in length
by the cap; with several it is the program of a repacked window.
"""

from typing import NamedTuple

import highspy
import numpy as np


class Exact(NamedTuple):
    """What the solver found within its time: no packing is below the bound; equal: it is optimal. In units of cost."""

    found: float
    bound: float


class Problem(NamedTuple):
    """costs, tokens: of each document, falling cost. sequences: of one step."""

    costs: np.ndarray
    tokens: np.ndarray
    steps: int
    sequences: int
    cap: int


def solve(problem: Problem, start: np.ndarray, seconds: float) -> Exact:
    """start: int64 [documents], the step * sequences + sequence of each in a packing known to be valid."""
    mean = problem.costs.sum() / (problem.steps * problem.sequences)
    if mean == 0:
        return Exact(0.0, 0.0)
    solver = highspy.Highs()
    solver.silent()
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("time_limit", float(seconds))
    solver.setOptionValue("mip_rel_gap", 1e-6)
    add_program(solver, problem, mean)
    solver.setSolution(values_of(problem, start, mean))
    solver.run()
    info = solver.getInfo()
    known = step_costs(problem, start).sum()
    found = info.objective_function_value * mean if info.primal_solution_status == 2 else known  # 2: feasible
    return Exact(min(found, known), min(max(info.mip_dual_bound, problem.steps) * mean, found, known))


def step_costs(problem: Problem, places: np.ndarray) -> np.ndarray:
    """Cost of the slowest sequence of each step."""
    loads = np.bincount(places, weights=problem.costs, minlength=problem.steps * problem.sequences)
    return loads.reshape(problem.steps, problem.sequences).max(axis=1)


def add_program(solver: "highspy.Highs", problem: Problem, mean: float) -> None:
    """Columns: documents x places, 1 where a document is there; then the slowest of each step, over the mean."""
    documents, places = len(problem.costs), problem.steps * problem.sequences
    cells = documents * places
    ones = np.ones(cells)
    first = first_places(problem)
    solver.addVars(cells, np.zeros(cells), np.where(first, 1.0, 0.0))
    solver.changeColsIntegrality(cells, np.arange(cells, dtype=np.int32), np.ones(cells, dtype=np.uint8))
    solver.addVars(problem.steps, np.zeros(problem.steps), np.full(problem.steps, highspy.kHighsInf))
    slowest = cells + np.arange(problem.steps, dtype=np.int32)
    solver.changeColsCost(problem.steps, slowest, np.ones(problem.steps))
    for document in range(documents):
        solver.addRow(1.0, 1.0, places, np.arange(places, dtype=np.int32) + document * places, ones[:places])
    for place in range(places):
        index = np.arange(documents, dtype=np.int32) * places + place
        solver.addRow(0.0, float(problem.cap), documents, index, problem.tokens.astype(float))
        index = np.append(index, slowest[place // problem.sequences])
        solver.addRow(-highspy.kHighsInf, 0.0, documents + 1, index, np.append(problem.costs / mean, -1.0))
    for step in range(1, problem.steps):  # steps are alike: the slowest comes first
        solver.addRow(0.0, highspy.kHighsInf, 2, slowest[step - 1 : step + 1], np.array([1.0, -1.0]))


def first_places(problem: Problem) -> np.ndarray:
    """Sequences of one step are alike: the first document goes to the first, the second to one of the first two, ..."""
    documents, places = len(problem.costs), problem.steps * problem.sequences
    if problem.steps > 1:
        return np.ones(documents * places, dtype=bool)
    return (np.arange(places)[None, :] <= np.arange(documents)[:, None]).reshape(-1)


def values_of(problem: Problem, start: np.ndarray, mean: float) -> "highspy.HighsSolution":
    """The known packing as a first solution, its places renamed as the program wants them."""
    places = problem.steps * problem.sequences
    if problem.steps == 1:
        order = list(dict.fromkeys(start.tolist()))
    else:
        slow_first = np.argsort(-step_costs(problem, start), kind="stable")
        order = [int(step) * problem.sequences + s for step in slow_first for s in range(problem.sequences)]
    renamed = np.array([order.index(place) for place in start])
    values = np.zeros(len(start) * places + problem.steps)
    values[np.arange(len(start)) * places + renamed] = 1.0
    values[len(start) * places :] = step_costs(problem, renamed) / mean
    solution = highspy.HighsSolution()
    solution.col_value = values.tolist()
    return solution
