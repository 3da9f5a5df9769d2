"""Whatever the strategy, mesh or number of ranks, the same documents give the same losses and gradients."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.device_mesh import init_device_mesh

import equipoise as eq
from equipoise.checkpoint import Position
from equipoise.corpus import read_corpus
from equipoise.faults import Place
from equipoise.options import make_parser, parse_options
from equipoise.plans import Run, planned_steps
from equipoise.ranks import World, make_inputs
from equipoise.steps import Trainer, make_trainer, train_step
from hardware_cases import write_hardware
from launch import TINY, write_corpus

STRATEGIES = ("plain", "allgather", "ulysses", "libra", "equipoise")
STEPS = 30
SEQUENCES = 4  # of a step, whatever the mesh
MESHES = {"one rank": (1, 1), "dp 2": (2, 1), "dp 2, cp 2": (2, 2)}


def train_all(rank: int, world: World, folder: Path) -> None:
    """Trains a model for each strategy, one after another; rank 0 saves what they gave."""
    torch.set_num_threads(1)
    world = replace(world, rank=rank)
    dist.init_process_group("gloo", f"file://{folder}/meeting", world_size=world.size, rank=rank)
    mesh = init_device_mesh("cpu", (world.dp, world.cp), mesh_dim_names=("dp", "cp"))
    strategies = STRATEGIES if world.size > 1 else ("plain",)
    results = {strategy: train_one(strategy, world, mesh, folder) for strategy in strategies}
    if rank == 0:
        torch.save(results, folder / "results")
    dist.destroy_process_group()


def train_one(strategy: str, world: World, mesh: Any, folder: Path) -> dict[str, Any]:
    micro_steps = str(SEQUENCES // world.dp)
    flags = ["--strategy", strategy, "--micro-steps", micro_steps, "--steps", str(STEPS), "--out", str(folder)]
    options = parse_options([*TINY, *flags])
    corpus = read_corpus(folder / "text")
    inputs = make_inputs(options, world, str(folder / "hardware.json"))
    attention = eq.PooledAttention(eq.pool_groups(mesh, inputs.pool))
    trainer = make_trainer(options, mesh, attention, corpus)
    gradients: list[dict[str, torch.Tensor]] = []
    trainer.optimizer.register_step_pre_hook(lambda *_: gradients.append(whole_gradients(trainer)))
    losses, moved = [], 0
    for _, step in planned_steps(Run(options, world, corpus, Position()), inputs, Place()):
        losses.append(train_step(trainer, step).loss)
        moved += sum(load["sent_bytes"] for micro in step.micro_steps for load in micro.loads(mask=0))
    return {"losses": losses, "gradients": gradients[0], "moved": moved}


def whole_gradients(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: weight.grad.full_tensor().clone() for name, weight in trainer.model.named_parameters()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Results by mesh and strategy."""
    results = {}
    for name, (dp, cp) in MESHES.items():
        folder = tmp_path_factory.mktemp("train")
        write_corpus(folder / "text")
        write_hardware(folder / "hardware.json")
        world = World(rank=0, size=dp * cp, dp=dp, cp=cp, ranks_per_node=dp * cp)
        torch.multiprocessing.spawn(train_all, args=(world, folder), nprocs=dp * cp)
        results[name] = torch.load(folder / "results")
    return results


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("mesh", ["dp 2", "dp 2, cp 2"])
def test_losses_equal_those_of_one_rank_that_sees_the_whole_step(trained, mesh: str, strategy: str) -> None:
    expected = trained["one rank"]["plain"]["losses"]
    assert len(expected) == STEPS
    assert expected[-1] < 0.95 * expected[0]  # it learns, so equal losses say something
    assert trained[mesh][strategy]["losses"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("mesh", ["dp 2", "dp 2, cp 2"])
def test_gradients_are_the_sum_that_one_rank_would_have(trained, mesh: str, strategy: str) -> None:
    expected = trained["one rank"]["plain"]["gradients"]
    found = trained[mesh][strategy]["gradients"]
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert gradient.abs().max() > 0
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-5 * float(gradient.abs().max()))


def test_the_pooled_strategies_did_move_attention(trained) -> None:
    for mesh, strategies in trained.items():
        moved = {strategy: result["moved"] for strategy, result in strategies.items()}
        assert (moved["plain"] > 0) == (mesh == "dp 2, cp 2")
        if mesh != "one rank":
            assert moved["libra"] > 0
            assert moved["equipoise"] > 0


def test_the_flags_are_these() -> None:
    flags = {option for action in make_parser()._actions for option in action.option_strings}
    assert flags == {
        "-h", "--help", "--strategy", "--mesh", "--pool", "--window", "--max-tokens", "--micro-steps", "--overlong",
        "--max-delay", "--queues", "--repack-window", "--exchange-bytes", "--keep-received", "--gradient-sum",
        "--hardware", "--corpus", "--model", "--dtype", "--learning-rate",
        "--steps", "--epochs", "--seed", "--out",
        "--checkpoint-every", "--resume", "--timeout", "--demo",
    }  # fmt: skip


def test_pairs_keep_the_defaults_of_what_they_do_not_name() -> None:
    options = parse_options(["--model", "layers=5,ffn=8", "--mesh", "cp=2"])
    assert options.model["layers"] == 5
    assert options.model["hidden"] == parse_options([]).model["hidden"]
    assert options.mesh == {"dp": 0, "cp": 2}
