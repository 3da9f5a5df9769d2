"""A small model with everything that tries the collective contract: checkpointed layers, FSDP2, accumulation, two
micro-steps in flight. The same model runs alone with dense attention, for comparison.
"""

from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import equipoise as eq
from attention_cases import plan, seen_by
from dense import dense_attention

VOCABULARY, HIDDEN, LAYERS = 31, 24, 2


@dataclass(frozen=True)
class Options:
    checkpointing: str = "none"  # or "reentrant", "non_reentrant", "selective": attention alone is not run again
    fsdp: bool = False
    in_flight: bool = False  # F0 F1 B0 B1 instead of F0 B0 F1 B1


def save_attention(_context, op, *_args, **_kwargs):
    saved = op == torch.ops.equipoise.attention_forward.default
    return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE


def run_layer(layer, checkpointing, x, attend):
    match checkpointing:
        case "none":
            return layer(x, attend)
        case "selective":
            context = partial(create_selective_checkpoint_contexts, save_attention)
            return checkpoint(layer, x, attend, use_reentrant=False, context_fn=context)
    return checkpoint(layer, x, attend, use_reentrant=checkpointing == "reentrant")


class Layer(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads
        query, kv, size = heads
        self.qkv = nn.Linear(HIDDEN, (query + 2 * kv) * size, dtype=torch.float64)
        self.out = nn.Linear(query * size, HIDDEN, dtype=torch.float64)

    def forward(self, x, attend):
        query, kv, size = self.heads
        q, k, v = self.qkv(x).view(len(x), query + 2 * kv, size).split([query, kv, kv], dim=1)
        return x + self.out(attend(q, k, v).flatten(1))


class Model(nn.Module):
    def __init__(self, heads, checkpointing):
        super().__init__()
        self.checkpointing = checkpointing
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN, dtype=torch.float64)
        self.layers = nn.ModuleList([Layer(heads) for _ in range(LAYERS)])
        self.head = nn.Linear(HIDDEN, VOCABULARY, dtype=torch.float64)

    def forward(self, tokens, attend):
        x = self.embedding(tokens)
        for index, layer in enumerate(self.layers):
            x = run_layer(layer, self.checkpointing, x, partial(attend, index))
        return self.head(x)


def make_model(case, options):
    torch.manual_seed(5)
    return Model(case.heads, options.checkpointing)


def token_of(documents, offsets):
    return (documents * 7 + offsets * 5 + documents * offsets) % VOCABULARY


def local_loss(model, micros, attend):
    """Sum of the losses of the rows of some ranks, in rank order."""
    documents, tokens, labels = (
        torch.cat([torch.from_numpy(getattr(micro, name)) for micro in micros])
        for name in ("documents", "tokens", "label_tokens")
    )
    logits = model(token_of(documents, tokens), attend)
    targets = torch.where(labels >= 0, token_of(documents, labels), -100)
    return F.cross_entropy(logits, targets, ignore_index=-100, reduction="sum")


def train_step(case, options):
    """On a rank: the summed loss of the step and the full gradients, by name."""
    model = make_model(case, options)
    if options.fsdp:
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for module in (*model.layers, model):
            fully_shard(module, mesh=mesh)
            module.set_gradient_divide_factor(1.0)
    groups = eq.pool_groups(eq.Mesh(dp=case.dp, cp=case.cp), case.pool_size)
    attention = eq.PooledAttention(groups)
    losses, total = [], torch.zeros((), dtype=torch.float64)
    for micro in case.micro_steps(groups.replica, groups.cp_rank):
        exchanges = [micro.exchange(mask=layer % len(case.masks)) for layer in range(LAYERS)]
        loss = local_loss(model, [micro], lambda layer, q, k, v, e=exchanges: attention(q, k, v, e[layer]))
        total += loss.detach()
        if options.in_flight:
            losses.append(loss)
        else:
            loss.backward()
    for loss in losses:
        loss.backward()
    dist.all_reduce(total)
    return float(total), {name: full_gradient(parameter) for name, parameter in model.named_parameters()}


def full_gradient(parameter):
    if hasattr(parameter.grad, "full_tensor"):
        return parameter.grad.full_tensor()
    gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
    dist.all_reduce(gradient)
    return gradient


def train_step_alone(case):
    """The same step on one rank that sees all rows, with dense attention."""
    model = make_model(case, Options())
    ranks, total = plan(case), 0.0
    for micros in zip(*ranks, strict=True):
        seen = [seen_by(micros, *case.masks[layer % len(case.masks)]) for layer in range(LAYERS)]
        loss = local_loss(model, micros, lambda layer, q, k, v, s=seen: dense_attention(q, k, v, s[layer])[0])
        loss.backward()
        total += float(loss.detach())
    return total, {name: parameter.grad for name, parameter in model.named_parameters()}


def run_options(case, many):
    return [train_step(case, options) for options in many]
