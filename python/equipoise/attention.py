"""The attention operator as a module: attention(q, k, v, micro.exchange(mask)) in place of a call of a local kernel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed  # the operator's library needs its symbols and finds groups by its names

from equipoise.micro_step import MicroExchange

if TYPE_CHECKING:
    from equipoise.groups import PoolGroups


def load_operator(folder: Path) -> None:
    """Loads the operator from lib/ of a folder, once. Raises ImportError where it was built for another torch."""
    library = folder / "lib" / "libequipoise_torch.so"
    rebuild = (
        "with this torch installed run `pip install --no-build-isolation --force-reinstall --no-deps .` in the sources"
    )
    if not library.exists():
        raise ImportError(f"the torch operator is not built, {library}: {rebuild}")
    built_for = (folder / "_torch_build.txt").read_text().strip()
    if built_for != torch.__version__:
        raise ImportError(
            f"the operator is built for torch {built_for} and this is {torch.__version__}, {library}: {rebuild}"
        )
    torch.ops.load_library(library)


load_operator(Path(__file__).parent)


class PooledAttention(torch.nn.Module):
    """Attention over the segments of a micro-step, computed by all members of a pool together.

    Every member calls it in the same order, for each layer and micro-step, forward and backward, rows or none. Errors
    in the arguments are ValueErrors before the first collective; a communicator that fails is a RuntimeError with own
    rank, step and collective.
    """

    def __init__(self, groups: PoolGroups, replica: int | None = None, cp_rank: int | None = None) -> None:
        super().__init__()
        for name, given, known in (("replica", replica, groups.replica), ("cp_rank", cp_rank, groups.cp_rank)):
            if given is not None and given != known:
                raise ValueError(
                    f"{name} {given} where the groups have {known}, equipoise.PooledAttention: give this rank's own"
                )
        self.groups = groups

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, exchange: Any) -> torch.Tensor:
        """q [T, Hq, D] and k, v [T, Hkv, D] of this rank's rows, rotated -> [T, Hq, D]. Scale is D ** -0.5.

        exchange: micro.exchange(mask); its program alone, an int64 tensor, will do for plans without keep_received.
        """
        program, kept_bytes = (exchange, 0) if isinstance(exchange, torch.Tensor) else parts_of(exchange)
        if not isinstance(q, torch.Tensor) or q.dim() != 3 or q.shape[-1] < 1:
            what = f"has shape {list(q.shape)}" if isinstance(q, torch.Tensor) else f"is {type(q).__name__}"
            raise ValueError(f"q {what}, equipoise.PooledAttention: give q as a tensor [T, Hq, D] with D >= 1")
        for name, tensor in (("k", k), ("v", v)):
            if not isinstance(tensor, torch.Tensor):
                raise ValueError(
                    f"{name} is {type(tensor).__name__}, equipoise.PooledAttention: give {name} as a tensor [T, Hkv, D]"
                )
        groups, scale = self.groups, q.shape[-1] ** -0.5
        call = (program, groups.dispatch, groups.give_back, scale, kept_bytes)
        return torch.ops.equipoise.attention_forward(q, k, v, *call)[0]


def parts_of(exchange: Any) -> tuple[torch.Tensor, int]:
    if not isinstance(exchange, MicroExchange):
        raise ValueError(f"exchange is {type(exchange).__name__}, equipoise.PooledAttention: give micro.exchange(mask)")
    return torch.from_numpy(exchange.program), exchange.kept_bytes
