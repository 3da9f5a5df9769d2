"""Process groups of a pool: made once, in the same order on every rank."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from typing import TYPE_CHECKING

import torch.distributed as dist

from equipoise.arguments import integer
from equipoise.inputs import Mesh

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

AXES = ("pp", "dp", "cp", "tp")


@dataclass(frozen=True)
class PoolGroups:
    """The two groups of this rank's pool, by the names under which torch finds them, and where this rank stands.

    Members of a pool are numbered replica_in_pool * cp + cp_rank. Returns have their own group, so that they never
    delay the next dispatch.
    """

    dispatch: str
    give_back: str
    pool: int
    member: int
    ranks: tuple[int, ...]  # global ranks by member
    replica: int
    cp_rank: int

    @property
    def members(self) -> int:
        return len(self.ranks)


def pool_groups(mesh: Mesh | DeviceMesh, pool: int, timeout: timedelta | None = None) -> PoolGroups:
    """Makes the groups of all pools and returns those of this rank. Every rank must call it, with equal arguments.

    mesh: an equipoise.Mesh, or a DeviceMesh whose dimensions are named among pp, dp, cp and tp. A pool is `pool`
    neighbouring replicas x cp ranks, for each (pipeline stage, TP rank). timeout: of the exchanges; None: torch's own.
    Raises ValueError for a mesh that does not hold all ranks, or whose order the groups cannot keep.
    """
    pool = integer("pool", pool)
    sizes, rank_at = _layout(mesh)
    world = sizes["pp"] * sizes["dp"] * sizes["cp"] * sizes["tp"]
    if world != dist.get_world_size():
        raise ValueError(
            f"the mesh {_text(sizes)} has {world} ranks where {dist.get_world_size()} are running, "
            f"equipoise.pool_groups: start {world} processes, or give their mesh"
        )
    if pool < 1 or sizes["dp"] % pool:
        divisors = ", ".join(str(d) for d in range(1, sizes["dp"] + 1) if sizes["dp"] % d == 0)
        raise ValueError(f"pool {pool} does not divide dp {sizes['dp']}, equipoise.pool_groups: give one of {divisors}")
    mine = None
    for stage, tp_rank, index in product(range(sizes["pp"]), range(sizes["tp"]), range(sizes["dp"] // pool)):
        places = list(product(range(index * pool, (index + 1) * pool), range(sizes["cp"])))
        ranks = tuple(rank_at(stage, replica, cp_rank, tp_rank) for replica, cp_rank in places)
        _check_order(ranks, sizes)
        names = [_new_group(use, index, ranks, timeout) for use in ("dispatch", "return")]
        if dist.get_rank() in ranks:
            member = ranks.index(dist.get_rank())
            mine = PoolGroups(*names, index, member, ranks, *places[member])
    if mine is None:
        raise ValueError(
            f"rank {dist.get_rank()} is not in the mesh {_text(sizes)}, equipoise.pool_groups: give a mesh of all ranks"
        )
    return mine


def _layout(mesh):
    """The size of each axis, and a function from (stage, replica, cp_rank, tp_rank) to a global rank."""
    if not hasattr(mesh, "mesh_dim_names"):
        if not isinstance(mesh, Mesh):
            raise ValueError(f"{mesh!r} is no mesh, equipoise.pool_groups: give an equipoise.Mesh or a DeviceMesh")
        sizes = {axis: getattr(mesh, axis) for axis in AXES}
        return (
            sizes,
            lambda stage, replica, cp_rank, tp_rank: (
                ((stage * mesh.dp + replica) * mesh.cp + cp_rank) * mesh.tp + tp_rank
            ),
        )
    names = mesh.mesh_dim_names or ()
    if not names or set(names) - set(AXES):
        raise ValueError(
            f"a DeviceMesh with dimensions {names}, equipoise.pool_groups: name them among {', '.join(AXES)}"
        )
    sizes = dict.fromkeys(AXES, 1) | dict(zip(names, mesh.mesh.shape, strict=True))

    def rank_at(*place: int) -> int:
        by_axis = dict(zip(AXES, place, strict=True))
        return int(mesh.mesh[tuple(by_axis[name] for name in names)])

    return sizes, rank_at


def _check_order(ranks: tuple[int, ...], sizes: dict[str, int]) -> None:
    """torch sorts the ranks of a group, so members must rise with them."""
    if list(ranks) != sorted(ranks):
        raise ValueError(
            f"members in the order replica, cp rank are the ranks {ranks}, mesh {_text(sizes)}: "
            "give a mesh with dp outside of cp, and ranks that rise along both"
        )


def _new_group(use: str, index: int, ranks: tuple[int, ...], timeout: timedelta | None) -> str:
    # Errors of the operator read the ranks from the description.
    description = f"equipoise {use} of pool {index}, ranks {','.join(map(str, ranks))}"
    group = dist.new_group(list(ranks), timeout=timeout, group_desc=description)
    return group.group_name if dist.get_rank() in ranks else ""


def _text(sizes: dict[str, int]) -> str:
    return ",".join(f"{axis}={size}" for axis, size in sizes.items())
