"""A decoder-only transformer over the rows of one rank: every layer but attention works on each row alone.

Shapes in comments: T rows of this rank, E hidden, Hq query heads, Hkv key and value heads, D head size, F width of
the MLP, V vocabulary. Rows may be any tokens of the packed sequence in any order; positions say where each stands in
its segment, and the attention given to the model knows from its plan which rows see which.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equipoise import ModelShape

# q [T, Hq, D], k and v [T, Hkv, D], what the plan says of this layer -> [T, Hq, D]
Attend = Callable[[Tensor, Tensor, Tensor, Any], Tensor]

ROTARY_BASE = 10000.0
INITIAL_SPREAD = 0.02


class Attention(nn.Module):
    def __init__(self, shape: ModelShape, attend: Attend) -> None:
        super().__init__()
        width, kv_width = shape.query_heads * shape.head_size, shape.kv_heads * shape.head_size
        self.head_size = shape.head_size
        self.attend = attend
        self.query = nn.Linear(shape.hidden, width, bias=False)
        self.key = nn.Linear(shape.hidden, kv_width, bias=False)
        self.value = nn.Linear(shape.hidden, kv_width, bias=False)
        self.output = nn.Linear(width, shape.hidden, bias=False)

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor], exchange: Any) -> Tensor:
        heads = (-1, self.head_size)
        q = rotate(self.query(x).unflatten(1, heads), rotary)  # [T, Hq, D]
        k = rotate(self.key(x).unflatten(1, heads), rotary)  # [T, Hkv, D]
        v = self.value(x).unflatten(1, heads)  # [T, Hkv, D]
        out = self.attend(q, k, v, exchange)  # [T, Hq, D]
        return self.output(out.flatten(1))  # [T, E]


class SwiGlu(nn.Module):
    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.gate = nn.Linear(shape.hidden, shape.ffn, bias=False)
        self.up = nn.Linear(shape.hidden, shape.ffn, bias=False)
        self.down = nn.Linear(shape.ffn, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))  # [T, F] inside


class Block(nn.Module):
    def __init__(self, shape: ModelShape, attend: Attend) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(shape.hidden)
        self.attention = Attention(shape, attend)
        self.mlp_norm = nn.RMSNorm(shape.hidden)
        self.mlp = SwiGlu(shape)

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor], exchange: Any) -> Tensor:
        x = x + self.attention(self.attention_norm(x), rotary, exchange)
        return x + self.mlp(self.mlp_norm(x))


class Transformer(nn.Module):
    """tokens, positions int64 [T] -> logits [T, V]. `exchange` goes to the attention of every layer."""

    def __init__(self, shape: ModelShape, attend: Attend) -> None:
        super().__init__()
        self.head_size = shape.head_size
        self.embedding = nn.Embedding(shape.vocabulary, shape.hidden)
        self.blocks = nn.ModuleList(Block(shape, attend) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden)
        self.logits = nn.Linear(shape.hidden, shape.vocabulary, bias=False)

    def forward(self, tokens: Tensor, positions: Tensor, exchange: Any) -> Tensor:
        x = self.embedding(tokens)  # [T, E]
        rotary = rotary_table(positions, self.head_size, x.dtype)
        for block in self.blocks:
            x = block(x, rotary, exchange)
        return self.logits(self.norm(x))


def initialise(model: Transformer, seed: int) -> None:
    """The same weights on every rank and for every mesh; the ends of residual branches start smaller in deep models."""
    generator = torch.Generator().manual_seed(seed)
    residual_spread = INITIAL_SPREAD / (2 * len(model.blocks)) ** 0.5
    for name, weight in model.named_parameters():
        if weight.dim() == 2:
            last = name.endswith(("attention.output.weight", "mlp.down.weight"))
            nn.init.normal_(weight, std=residual_spread if last else INITIAL_SPREAD, generator=generator)


def rotary_table(positions: Tensor, head_size: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosine and sine of each row's position, [T, 1, D / 2] each; the angles are exact enough only in fp32."""
    powers = torch.arange(0, head_size, 2, device=positions.device) / head_size
    angles = positions[:, None] * ROTARY_BASE**-powers
    return angles.cos().to(dtype)[:, None], angles.sin().to(dtype)[:, None]


def rotate(x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """Turns the pairs (i, i + D / 2) of each head by the angle of its row: [T, H, D] -> [T, H, D]."""
    cos, sin = rotary
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
