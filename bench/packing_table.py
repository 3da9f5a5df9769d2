"""The packing table of WLB-LLM with this project's packings, and what look-ahead reaches beyond it.

Protocol: 4 sequences a step, window 131072, at most 1.5 windows in a sequence of variable length; LLaMA2-7B where
attention runs at 0.8 of the linear part's efficiency (flops_hardware.json). DATA/instances holds document lengths, one
a line: wlb128k_up_{0,1,2}.txt (like WLB-LLM's job), wlb128k_raw_0.txt and prolong128k_0.txt; DATA/lengths file sizes in
bytes, a third of which count as tokens. The first 40 steps (a tenth of a shorter list) only fill queues and are not
counted; means of the files.
Exact rows: the first 40 steps of the first file, each step or window of steps solved by HiGHS within the time given.

Usage: packing_table.py DATA [--seconds 10] [--no-exact]
"""

import argparse
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np

import equipoise as eq

WINDOW = 131072
WARM_UP = 40
EXACT_STEPS = 40
HIDDEN, FFN = 4096, 11008  # LLaMA2-7B
HARDWARE = str(Path(__file__).with_name("flops_hardware.json"))
PAPER = {  # imbalance and milliseconds a step as WLB-LLM prints them
    "as it comes": "1.44, 0",
    "fixed, window 1": "1.41, 4-5",
    "fixed, window 2": "1.22, 4-5",
    "fixed, window 4": "1.11, 4-5",
    "fixed, window 8": "1.08, 4-5",
    "fixed exact, window 1": "1.40, 467",
    "fixed exact, window 2": "1.18, 1488",
    "fixed exact, window 4": "1.09, 25313",
    "wlb, queue 64K": "1.24, 8",
    "wlb, queues 32K 80K": "1.05, 20",
    "wlb, queues 24K 56K 88K": "1.05, 23",
}
QUEUES = {
    "wlb, no queue": [],
    "wlb, queue 64K": [65536],
    "wlb, queues 32K 80K": [32768, 81920],
    "wlb, queues 24K 56K 88K": [24576, 57344, 90112],
}
WHY = """\
Where figures differ from the paper's: its documents are not public. `up` is a public histogram that very probably is
its job's, with documents above half a window drawn 2.2 times as often; `raw` is the histogram itself. The paper cuts
documents at the borders of micro-batches, which flatters; here they stay whole. Its times are of Python and of a
commercial solver; here of C++ and of HiGHS within a time limit, so exact rows show the best found and
the proven bound. `fixed` lets sequences of like work share a step, which its text does not say; window 8 gains most."""


class Row(NamedTuple):
    name: str
    imbalance: float
    p95: float
    lost: float  # W: sum of the slowest over sum of the means
    bound: float
    delay: float
    worst: int
    milliseconds: float


def inputs_of(strategy: str, sequences: int = 4, cap: float = 1.5, **options) -> eq.PlanInputs:
    return eq.PlanInputs(
        mesh=eq.Mesh(), window=WINDOW, max_tokens=int(cap * WINDOW), micro_steps=sequences, model="llama2-7b",
        hardware=HARDWARE, strategy=strategy, **options,
    )  # fmt: skip


def row_of(name: str, inputs: eq.PlanInputs, files: list[np.ndarray]) -> Row:
    """Means over the files; the worst delay is the worst of all."""
    runs, times = [], []
    for lengths in files:
        (compared,) = eq.compare(lengths, [inputs])
        warm_up = min(WARM_UP, len(compared.steps) // 10)
        run = eq.measure_run(compared.steps[warm_up:])
        runs.append(run)
        times.append(mean(compared.planning_ms[warm_up : warm_up + run.steps]))
    ppm = lambda key: mean(getattr(run, key) for run in runs) / 1e6  # noqa: E731
    return Row(
        name, ppm("imbalance_ppm"), ppm("imbalance_p95_ppm"), ppm("weighted_imbalance_ppm"), ppm("bound_ppm"),
        ppm("mean_delay_ppm"), max(run.worst_delay_steps for run in runs), mean(times),
    )  # fmt: skip


def print_rows(title: str, rows: Iterator[Row]) -> list[Row]:
    print(f"\n{title}\n{'':<26}{'imb':>7}{'p95':>7}{'W':>7}{'bound':>7}{'delay':>7}{'worst':>7}{'ms':>8}  paper")
    printed = []
    for row in rows:
        figures = f"{row.imbalance:7.3f}{row.p95:7.3f}{row.lost:7.3f}{row.bound:7.3f}{row.delay:7.2f}{row.worst:7d}"
        print(f"{row.name:<26}{figures}{row.milliseconds:8.3f}  {PAPER.get(row.name, '-')}", flush=True)
        printed.append(row)
    return printed


def paper_rows(files: list[np.ndarray]) -> Iterator[Row]:
    yield row_of("as it comes", inputs_of("plain"), files)
    for window in (1, 2, 4, 8):
        yield row_of(f"fixed, window {window}", inputs_of("fixed", repack_window=window), files)
    for name, queues in QUEUES.items():
        yield row_of(name, inputs_of("wlb", queues=queues), files)


def beyond_rows(files: list[np.ndarray]) -> Iterator[Row]:
    for bound in (2, 4, 8):
        yield row_of(f"max delay {bound}", inputs_of("equipoise", max_delay=bound), files)
    for bound in (2, 4, 8):
        yield row_of(f"max delay {bound}, S_max = S", inputs_of("equipoise", cap=1, max_delay=bound), files)
    yield row_of("max delay 8, 32 sequences", inputs_of("equipoise", 32, max_delay=8), files)


def other_rows(lengths: np.ndarray) -> Iterator[Row]:
    """The greedy with the paper's two queues, and look-ahead that promises no longer a wait than it had."""
    greedy = row_of("wlb, queues 32K 80K", inputs_of("wlb", queues=QUEUES["wlb, queues 32K 80K"]), [lengths])
    yield greedy
    yield row_of(f"max delay {greedy.worst}", inputs_of("equipoise", max_delay=greedy.worst), [lengths])


# Exact rows


class Window(NamedTuple):
    """Steps whose documents the solver deals anew."""

    costs: np.ndarray  # of each document
    tokens: np.ndarray
    places: np.ndarray  # step * sequences + sequence
    steps: int
    sequences: int
    cap: int


def cost_of(tokens: np.ndarray) -> np.ndarray:
    tokens = tokens.astype(float)
    return 2 * HIDDEN * tokens * (tokens + 1) / 0.8 + 2 * (4 * HIDDEN**2 + 3 * HIDDEN * FFN) * tokens


def windows_of(inputs: eq.PlanInputs, lengths: np.ndarray, steps: int) -> Iterator[Window]:
    """The first steps of a run, in windows."""
    state, rows = None, []
    for step in range(EXACT_STEPS):
        line, state = eq.plan_step(inputs, lengths, state)
        for s, sequence in enumerate(line["sequences"]):
            rows += [(tokens, step % steps * inputs.micro_steps + s) for _, _, tokens in sequence]
        if (step + 1) % steps == 0:
            rows.sort(key=lambda row: -row[0])
            tokens, places = np.array(rows).T
            yield Window(cost_of(tokens), tokens, places, steps, inputs.micro_steps, int(inputs.max_tokens))
            rows = []


def solve_window(window: Window, seconds: float) -> tuple[float, float, float, float]:
    """Over the mean sequence, summed over the steps: the packing's slowest, the solver's, its bound; and seconds."""
    import time

    from _exact_packing import Problem, solve, step_costs

    problem = Problem(window.costs, window.tokens, window.steps, window.sequences, window.cap)
    began = time.perf_counter()
    exact = solve(problem, window.places, seconds)
    each = window.costs.sum() / (window.steps * window.sequences)
    slowest = step_costs(problem, window.places).sum()
    return slowest / each, exact.found / each, exact.bound / each, time.perf_counter() - began


def print_exact(lengths: np.ndarray, seconds: float) -> None:
    print(f"\nexact, first {EXACT_STEPS} steps of the first file, {seconds:g} s a window, sum of slowest over mean")
    print(f"{'':<26}{'ours':>8}{'found':>8}{'bound':>8}{'s':>8}  paper")
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for name, inputs, steps in [
            *((f"fixed exact, window {w}", inputs_of("fixed", cap=1, repack_window=w), w) for w in (1, 2, 4)),
            ("variable, no queue", inputs_of("wlb"), 1),
            ("variable, max delay 8", inputs_of("equipoise", max_delay=8), 1),
        ]:
            windows = list(windows_of(inputs, lengths, steps))
            results = np.array(list(pool.map(solve_window, windows, [seconds] * len(windows))))
            ours, found, bound = results[:, :3].sum(axis=0) / EXACT_STEPS
            took = results[:, 3].sum() / EXACT_STEPS
            print(f"{name:<26}{ours:8.4f}{found:8.4f}{bound:8.4f}{took:8.2f}  {PAPER.get(name, '-')}", flush=True)


def read(path: Path) -> np.ndarray:
    return np.loadtxt(path, dtype=np.int64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder DATA")
    parser.add_argument("--seconds", type=float, default=10, help="for each integer program [10]")
    parser.add_argument("--no-exact", action="store_true", help="leave the exact rows out")
    options = parser.parse_args()
    instances = options.data / "instances"
    if not (instances / "wlb128k_up_0.txt").is_file():
        parser.error(f"{instances} holds no wlb128k_up_0.txt: give the folder that --help describes")
    up = [read(instances / f"wlb128k_up_{i}.txt") for i in range(3)]
    print_rows("up, means of 3 files", paper_rows(up))
    print_rows("raw", paper_rows([read(instances / "wlb128k_raw_0.txt")]))
    print_rows("beyond, up, means of 3 files", beyond_rows(up))
    print_rows("ProLong", other_rows(read(instances / "prolong128k_0.txt")))
    for path in sorted((options.data / "lengths").glob("*_file_bytes.txt")):
        print_rows(f"{path.stem}, bytes / 3", other_rows(read(path) // 3))
    if not options.no_exact:
        print_exact(up[0], options.seconds)
    print(f"\n{WHY}")


if __name__ == "__main__":
    main()
