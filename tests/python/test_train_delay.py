"""Strategies that hold documents train each of them once, with the losses of one rank that is given the same steps, and
go on from a checkpoint as if they had not stopped. Two ranks run the trainer's own loop over Gloo."""

import json
import os
import socket
import statistics
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing
import torch.nn.functional as F

import equipoise as eq
from equipoise import steps, train
from equipoise.corpus import Corpus, read_corpus
from equipoise.faults import Place
from equipoise.model import Transformer, initialise
from equipoise.options import Options, model_shape, parse_options
from equipoise.ranks import World, connect, make_inputs, make_mesh
from hardware_cases import write_hardware
from launch import TINY, finish, start, write_corpus

RANKS = 2
SAVE_EVERY = 3
CASES = {
    "fixed, windows of 2": ["--strategy", "fixed", "--repack-window", "2"],
    "wlb, two queues": ["--strategy", "wlb", "--queues", "128,200", "--max-tokens", "384"],
    "equipoise, delay 2": ["--strategy", "equipoise", "--max-delay", "2", "--max-tokens", "384"],
    "equipoise, delay 4": ["--strategy", "equipoise", "--max-delay", "4", "--max-tokens", "384"],
}


def options_of(folder: Path, name: str, *more: str) -> Options:
    flags = ["--micro-steps", "2", "--corpus", str(folder / "text"), "--hardware", str(folder / "hardware.json")]
    return parse_options([*TINY, *CASES[name], *flags, "--out", str(folder / name), *more])


def train_rank(rank: int, folder: Path, port: int, runs: list[tuple[str, list[str]]]) -> None:
    """Trains one run after another, each as the program does, and saves how often this rank loaded each token."""
    where = {"RANK": rank, "WORLD_SIZE": RANKS, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in where.items()})
    torch.set_num_threads(1)
    load = steps.load
    connect(World(rank, RANKS, RANKS, 1, RANKS), timeout_s=60)
    mesh = make_mesh(World(rank, RANKS, RANKS, 1, RANKS))
    for name, more in runs:
        run = train.prepare(options_of(folder, name, *more))
        counts = np.zeros(len(run.corpus.text), np.int64)
        steps.load = partial(load_and_count, load, counts)
        assert train.train(run, mesh, Place(rank, [])) == 0
        np.save(run.options.out / f"loaded-{rank}.npy", counts)
    dist.destroy_process_group()


def load_and_count(load: Any, counts: np.ndarray, corpus: Corpus, micro: Any) -> Any:
    real = micro.documents >= 0
    np.add.at(counts, corpus.begins[micro.documents[real]] + micro.tokens[real], 1)
    return load(corpus, micro)


def train_in_new_processes(folder: Path, runs: list[tuple[str, list[str]]]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.spawn(train_rank, args=(folder, port, runs), nprocs=RANKS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All cases trained to the end of the corpus in one set of processes, and from each stop in another one."""
    folder = tmp_path_factory.mktemp("delay")
    write_corpus(folder / "text", paragraphs=110)
    write_hardware(folder / "hardware.json")
    train_in_new_processes(folder, [(name, ["--checkpoint-every", str(SAVE_EVERY)]) for name in CASES])
    resumed = [
        (name, ["--resume", str(folder / name / f"step-{stop:06d}"), "--out", str(folder / name / f"from-{stop}")])
        for name in CASES
        for stop in stops_of(folder, name)
    ]
    train_in_new_processes(folder, resumed)
    return folder


def logged(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / train.LOG).read_text().splitlines()]


def stops_of(folder: Path, name: str) -> list[int]:
    """Two checkpoints with documents waiting, an early and a later one."""
    lines = logged(folder / name)[:-10]
    stops = [line["steps"] for line in lines if line["steps"] % SAVE_EVERY == 0 and line["delay"]["held"][0] > 0]
    assert len(stops) > 1
    return [stops[0], stops[-1]]


def planned(folder: Path, name: str) -> list[Any]:
    """The steps that the ranks trained: their hashes are in the log."""
    options, corpus = options_of(folder, name), read_corpus(folder / "text")
    inputs = make_inputs(options, World(0, RANKS, RANKS, 1, RANKS), options.hardware)
    found = list(eq.StepSampler(corpus.lengths, inputs, shuffle=True, seed=options.seed))
    assert [f"{step.hash:016x}" for step in found] == [line["plan"] for line in logged(folder / name)]
    return found


@pytest.mark.parametrize("name", CASES)
def test_every_token_is_trained_once_and_some_late(folder: Path, name: str) -> None:
    loaded = sum(np.load(folder / name / f"loaded-{rank}.npy") for rank in range(RANKS))
    assert (loaded == 1).all()
    lines = logged(folder / name)
    assert sum(line["tokens"] for line in lines) == len(loaded)
    assert sum(line["targets"] for line in lines) == sum(read_corpus(folder / "text").lengths - 1)
    assert len({line["tokens"] for line in lines}) > len(lines) / 3  # sequences differ in tokens
    delays = [delay for line in lines for delay, _ in line["delay"]["by_delay"]]
    assert max(delays) > 0
    if "delay" in name:
        assert max(delays) <= int(name[-1])


@pytest.mark.parametrize("name", CASES)
def test_losses_equal_those_of_one_rank_that_is_given_the_same_steps(folder: Path, name: str) -> None:
    found = [line["loss"] for line in logged(folder / name)]
    expected = list(dense_losses(options_of(folder, name), read_corpus(folder / "text"), planned(folder, name)))
    assert len(found) >= 30
    assert expected[-1] < 0.95 * expected[0]  # it learns, so equal losses say something
    assert found == pytest.approx(expected, rel=1e-5)


def dense_losses(options: Options, corpus: Corpus, planned_steps: list[Any]) -> Iterator[float]:
    """Trains a model on this process alone, segment by segment, with torch's own attention: the loss of each step."""
    model = Transformer(model_shape(options), attend)
    initialise(model, options.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate)
    for step in planned_steps:
        batches = [segment_batch(corpus, *segment) for segment in step.segments.tolist()]
        targets = sum(int((labels >= 0).sum()) for _, labels in batches)
        total = 0.0
        for tokens, labels in batches:
            logits = model(tokens, torch.arange(len(tokens)), None)
            loss = F.cross_entropy(logits, labels, ignore_index=-1, reduction="sum") / targets
            loss.backward()
            total += float(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
        yield total


def segment_batch(corpus: Corpus, document: int, begin: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and labels; at the end of a document there is no label."""
    text = torch.from_numpy(np.append(corpus[document].astype(np.int64), -1))
    return text[begin : begin + length], text[begin + 1 : begin + length + 1]


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, _: None) -> torch.Tensor:
    """[T, H, D]: causal, over one segment."""
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)[0].transpose(0, 1)


@pytest.mark.parametrize("name", CASES)
def test_a_run_goes_on_in_new_processes_with_the_same_plans_and_losses(folder: Path, name: str) -> None:
    straight = logged(folder / name)
    for stop in stops_of(folder, name):
        rest = logged(folder / name / f"from-{stop}")
        for resumed, line in zip(rest, straight[stop:], strict=True):
            for key in ("steps", "plan", "loss", "tokens", "targets", "delay"):
                assert resumed[key] == line[key]


def test_the_program_says_what_waited_and_what_it_did_not_train(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "text", paragraphs=60)
    flags = [*TINY, "--corpus", str(corpus), "--micro-steps", "4", "--steps", "5"]
    runs = {
        "held": ["--strategy", "wlb", "--queues", "128,200", "--max-tokens", "384"],
        "demo": ["--strategy", "equipoise", "--max-delay", "4", "--demo"],
        "plain": ["--strategy", "plain"],
    }
    started = {name: start(1, [*flags, *more, "--out", str(tmp_path / name)]) for name, more in runs.items()}
    said = {}
    for name, processes in started.items():
        [(code, said[name], stderr)] = finish(processes)
        assert code == 0, stderr
    last = logged(tmp_path / "held")[-1]["delay"]
    assert f"not trained: {last['held'][1]:,} tokens of {last['held'][0]} documents held at the end" in said["held"]
    assert f"the oldest document {last['oldest'][0]} (" in said["held"]
    assert "steps in the mean of all\nlongest wait: document" in said["held"]
    assert "delayed" not in said["plain"]
    assert "not trained" not in said["plain"]
    for line in (lines := logged(tmp_path / "plain")):
        assert line["planning_s"][0] > 0
        assert line["exposed_s"][0] > 0
    waited, ran = (sum(line[key][0] for line in lines) for key in ("exposed_s", "step_s"))
    planning_ms = 1e3 * statistics.median(line["planning_s"][0] for line in lines)
    assert f"beside the one before: {planning_ms:.1f} ms (median, slowest rank); " in said["plain"]
    assert f"waited for: {waited / (waited + ran):.2%} of all time" in said["plain"]
    assert "waited for plans, % of all time" in said["demo"]
    assert "mean loss of all targets" in said["demo"]
    assert "tokens trained were delayed" in said["demo"]
    assert "<h2>Delay</h2>" in (tmp_path / "demo" / "report.html").read_text()
