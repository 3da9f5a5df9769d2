"""One optimizer step: micro-steps of this rank's rows, gradients summed over all ranks, and what the step cost.

The loss of a step is the sum over all its targets divided by their number, whatever rank or micro-step they fall in:
never a mean of means, so that a plan may move sequences without changing what is trained.
"""

import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from equipoise.corpus import Corpus, look_up
from equipoise.faults import RunError
from equipoise.model import Transformer, initialise
from equipoise.options import Options, model_shape
from equipoise.timing import TimedAttention

IGNORED = -1  # label of a row without a target
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Trainer:
    """One model in training on this rank."""

    model: FSDPModule
    optimizer: torch.optim.Optimizer
    attention: TimedAttention
    corpus: Corpus


@dataclass(frozen=True)
class StepCost:
    """The same on all ranks. Lists are by rank, in seconds."""

    loss: float
    tokens: int
    targets: int
    step_s: list[float]
    attention_s: list[float]  # from call to return, waiting included
    work_s: list[float]  # what the rank's own thread ran inside attention
    planning_s: list[float]  # beside the step before
    exposed_s: list[float]  # of planning, what the rank waited for before the step; not in step_s


def make_trainer(options: Options, mesh: DeviceMesh, attend, corpus: Corpus) -> Trainer:
    """The model with the weights of options.seed, sharded over all ranks of the mesh."""
    attention = TimedAttention(attend)
    model = Transformer(model_shape(options), attention)
    initialise(model, options.seed)
    model = shard(model, mesh, DTYPES[options.dtype])
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate, fused=True)
    return Trainer(model, optimizer, attention, corpus)


def shard(model: Transformer, mesh: DeviceMesh, dtype: torch.dtype) -> FSDPModule:
    """FSDP2 around each block and the rest. Gradients are summed, not averaged; the factor holds for one module."""
    everyone = mesh[mesh.mesh_dim_names]._flatten("ranks") if mesh.ndim > 1 else mesh
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    for module in (*model.blocks, model):
        fully_shard(module, mesh=everyone, mp_policy=policy)
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)
    return model


def train_step(trainer: Trainer, step) -> StepCost:
    """Runs one planned step of this rank (a step of eq.StepSampler) and updates the weights.

    Errors: RunError, on all ranks alike, for a step without a target or with other targets than planned."""
    began = time.perf_counter()
    batches = [load(trainer.corpus, micro) for micro in step.micro_steps]
    targets, tokens = count(step, batches)
    loss = torch.zeros(())
    for index, (micro, batch) in enumerate(zip(step.micro_steps, batches, strict=True)):
        trainer.model.set_requires_gradient_sync(index + 1 == len(batches))
        part = micro_loss(trainer.model, micro, batch) / targets
        part.backward()
        loss += part.detach()
    trainer.optimizer.step()
    trainer.optimizer.zero_grad()
    local = [float(loss), time.perf_counter() - began, *trainer.attention.take().seconds, *step.planning]
    return gather_cost(local, tokens, targets)


def load(corpus: Corpus, micro) -> tuple[Tensor, Tensor, Tensor]:
    """tokens, positions, labels: int64 [T], rows in the order of the plan."""
    tokens = look_up(corpus, micro.documents, micro.tokens, missing=0)
    labels = look_up(corpus, micro.documents, micro.label_tokens, missing=IGNORED)
    return torch.from_numpy(tokens), torch.from_numpy(micro.positions), torch.from_numpy(labels)


def count(step, batches: list[tuple[Tensor, Tensor, Tensor]]) -> tuple[int, int]:
    """Targets and tokens of the whole step, all ranks."""
    local = [
        sum(int((labels != IGNORED).sum()) for _, _, labels in batches),
        sum(m.owned_rows for m in step.micro_steps),
    ]
    counts = torch.tensor(local)
    dist.all_reduce(counts)
    targets, tokens = counts.tolist()
    if targets != step.loss_tokens:
        raise RunError(f"{targets} targets where {step.loss_tokens} are planned, step {step.step}: report this")
    if targets == 0:
        raise RunError(f"no document has two tokens, step {step.step}: give longer documents or a longer --window")
    return targets, tokens


def micro_loss(model: FSDPModule, micro, batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """The sum of the losses of this rank's rows."""
    tokens, positions, labels = batch
    logits = model(tokens, positions, micro.exchange(mask=0))  # [T, V]
    return F.cross_entropy(logits.float(), labels, ignore_index=IGNORED, reduction="sum")


def gather_cost(local: list[float], tokens: int, targets: int) -> StepCost:
    """local: loss, then the lists of StepCost in their order, of this rank."""
    own = torch.tensor(local, dtype=torch.float64)
    by_rank = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(by_rank, own)
    losses, *seconds = torch.stack(by_rank, dim=1).tolist()
    return StepCost(sum(losses), tokens, targets, *seconds)
