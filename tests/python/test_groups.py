"""The groups of a pool: who is a member, in which order, and which meshes are refused."""

import pytest
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

import equipoise as eq
from ranks import run_ranks


def describe(mesh, pool):
    groups = eq.pool_groups(mesh, pool)
    sizes = [dist.get_world_size(dist.distributed_c10d._resolve_process_group(name)) for name in names(groups)]
    return groups.pool, groups.member, groups.ranks, groups.replica, groups.cp_rank, sizes


def names(groups):
    return groups.dispatch, groups.give_back


def pools_of_two_replicas():
    by_mesh = describe(eq.Mesh(dp=4, cp=2), pool=2)
    assert by_mesh == describe(init_device_mesh("cpu", (4, 2), mesh_dim_names=("dp", "cp")), pool=2)
    return by_mesh


def test_a_pool_holds_neighbouring_replicas_in_the_order_of_members():
    by_rank = run_ranks(8, pools_of_two_replicas)
    for rank, (pool, member, ranks, replica, cp_rank, sizes) in enumerate(by_rank):
        assert (pool, member) == (rank // 4, rank % 4)
        assert ranks == tuple(range(4 * pool, 4 * pool + 4))
        assert (replica, cp_rank) == (rank // 2, rank % 2)
        assert sizes == [4, 4]


def pools_of_each_stage_and_tp_rank():
    by_mesh = describe(eq.Mesh(dp=2, pp=2, tp=2), pool=2)
    assert by_mesh == describe(init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp")), pool=2)
    return by_mesh


def test_stages_and_tp_ranks_have_pools_of_their_own():
    for rank, (pool, member, ranks, replica, cp_rank, _) in enumerate(run_ranks(8, pools_of_each_stage_and_tp_rank)):
        stage, tp_rank = rank // 4, rank % 2
        assert ranks == (4 * stage + tp_rank, 4 * stage + 2 + tp_rank)
        assert (pool, member, replica, cp_rank) == (0, rank // 2 % 2, rank // 2 % 2, 0)


def refusals():
    refused = [
        (eq.Mesh(dp=4, cp=2), 2),
        (eq.Mesh(dp=4), 3),
        (DeviceMesh("cpu", [[0, 2], [1, 3]], mesh_dim_names=("dp", "cp")), 2),
        (DeviceMesh("cpu", [0, 1, 2, 3], mesh_dim_names=("data",)), 2),
    ]
    texts = []
    for mesh, pool in refused:
        with pytest.raises(ValueError) as caught:
            eq.pool_groups(mesh, pool)
        texts.append(str(caught.value))
    return texts


@pytest.mark.parametrize(
    ("mesh", "pool", "message"),
    [
        (None, 1, "None is no mesh, equipoise.pool_groups: give an equipoise.Mesh or a DeviceMesh"),
        (eq.Mesh(), "1", "pool '1' is not an integer of 64 bits, field pool: "),
    ],
)
def test_what_is_no_mesh_or_pool_is_refused(mesh, pool, message):
    with pytest.raises(ValueError, match=message):
        eq.pool_groups(mesh, pool)


def test_impossible_meshes_are_refused_alike_on_every_rank():
    by_rank = run_ranks(4, refusals)
    assert all(texts == by_rank[0] for texts in by_rank)
    world, divides, order, axes = by_rank[0]
    assert world.startswith("the mesh pp=1,dp=4,cp=2,tp=1 has 8 ranks where 4 are running, equipoise.pool_groups: ")
    assert divides == "pool 3 does not divide dp 4, equipoise.pool_groups: give one of 1, 2, 4"
    assert order.startswith(
        "members in the order replica, cp rank are the ranks (0, 2, 1, 3), mesh pp=1,dp=2,cp=2,tp=1: "
    )
    assert axes.endswith("equipoise.pool_groups: name them among pp, dp, cp, tp")
