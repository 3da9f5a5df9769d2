"""Where a run ends, and what it says then."""

from pathlib import Path

import pytest

from equipoise.checkpoint import Position
from equipoise.corpus import read_corpus
from equipoise.faults import Place
from equipoise.options import parse_options
from equipoise.plans import Run, early_end, planned_steps
from equipoise.ranks import World, make_inputs
from launch import TINY, write_corpus

ALONE = World(rank=0, size=1, dp=1, cp=1, ranks_per_node=1)


@pytest.mark.parametrize(
    ("start", "steps", "trained", "why"),
    [
        (3, 3, 0, "nothing to train: the checkpoint is at step 3 and --steps is 3"),
        (5, 3, 0, "nothing to train: the checkpoint is at step 5 and --steps is 3"),
        (1, 3, 2, None),
        (0, 10**6, None, "of 1000000"),
        (0, None, None, None),
    ],
)
def test_a_run_ends_at_its_steps_or_says_why(tmp_path: Path, start: int, steps: int, trained: int, why: str) -> None:
    options = parse_options([*TINY, *(["--steps", str(steps)] if steps else [])])
    run = Run(options, ALONE, read_corpus(write_corpus(tmp_path / "text", paragraphs=20)), Position(start))
    planned = list(planned_steps(run, make_inputs(options, ALONE, "h100"), Place()))
    assert len(planned) == trained if trained is not None else planned
    said = early_end(run, start + len(planned))
    assert (said is None) if why is None else said.endswith(why)
