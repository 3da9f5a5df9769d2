"""The operator on CUDA against dense attention in float64. What needs no GPU of this is in test_varlen.py."""

import random
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist

import equipoise as eq
from attention_cases import NAMES, dense_case, make_tensors
from dense import dense_attention, error, with_gradients
from ranks import run_ranks
from test_attention import STRATEGIES, random_case
from test_kernel import CASES, MASKS, all_seen, cumulative, local_forward, random_tensors

GPUS = torch.cuda.device_count() if torch.cuda.is_available() else 0
MESHES = [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1)]
BOUNDS = {torch.float16: 0.005, torch.bfloat16: 0.03}  # error of a result over the result, both root mean squares

pytestmark = pytest.mark.skipif(GPUS == 0, reason="needs a CUDA GPU")


def assert_close(results, exact, dtype, place):
    for name, got, wanted in zip(NAMES, results, exact, strict=True):
        assert got.dtype == dtype
        assert error(got.cpu(), wanted) <= BOUNDS[dtype] * error(wanted, torch.zeros(())), f"{name} {place}"


def run_case(case):
    """As attention_cases.run_case, on the current GPU."""
    groups = eq.pool_groups(eq.Mesh(dp=case.dp, cp=case.cp), case.pool_size)
    attention = eq.PooledAttention(groups)
    results = []
    for index, micro in enumerate(case.micro_steps(groups.replica, groups.cp_rank)):
        tensors = make_tensors(replace(case, seed=case.seed + index), micro, dist.get_rank())
        on_gpu = [tensor.cuda() for tensor in tensors]
        exchanges = [micro.exchange(mask=mask) for mask in range(len(case.masks))]
        by_mask = [with_gradients(lambda q, k, v, e=e: attention(q, k, v, e), *on_gpu) for e in exchanges]
        results.append([[tensor.cpu() for tensor in four] for four in by_mask])
    return results


def run_cases(cases):
    return [run_case(case) for case in cases]


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("mesh", MESHES, ids=lambda mesh: f"dp{mesh[0]}cp{mesh[1]}")
def test_a_pool_equals_dense_attention(mesh, dtype):
    world = mesh[0] * mesh[1]
    if world > GPUS:
        pytest.skip(f"needs {world} CUDA GPUs")
    rng = random.Random(f"cuda {mesh}")
    cases = [random_case(rng, strategy, mesh) for strategy in STRATEGIES]
    cases = [replace(case, heads=(*case.heads[:2], 64), dtype=dtype) for case in cases]
    by_rank = run_ranks(world, run_cases, cases, backend="nccl")
    for index, case in enumerate(cases):
        for rank, micro_steps in enumerate(dense_case(case)):
            for step, masks in enumerate(micro_steps):
                for mask, exact in enumerate(masks):
                    assert_close(by_rank[rank][index][step][mask], exact, dtype, f"of rank {rank}, {case}")


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("mask", "window"), MASKS)
def test_documents_at_home_equal_dense_attention(case, mask, window, dtype):
    """Also where a document has fewer keys than rows, so that some rows see none."""
    cu_q, cu_k = map(cumulative, CASES[case])
    tensors = [tensor.to(dtype) for tensor in random_tensors(int(cu_q[-1]), int(cu_k[-1]), (6, 2), 64)]
    seen = all_seen(cu_q, cu_k, mask, window)
    exact = [tensor.double() for tensor in tensors]
    wanted = with_gradients(lambda q, k, v: dense_attention(q, k, v, seen)[0], *exact)
    results = with_gradients(
        lambda q, k, v: local_forward(q, k, v, cu_q, cu_k, mask, window, 0.125)[0], *[t.cuda() for t in tensors]
    )
    assert_close(results, wanted, dtype, "")
    lse = local_forward(*[t.cuda() for t in tensors[:3]], cu_q, cu_k, mask, window, 0.125)[1]
    torch.testing.assert_close(lse.cpu().double(), dense_attention(*exact[:3], seen)[1], rtol=1e-2, atol=1e-2)


def test_the_deterministic_flag_gives_the_same_bits_each_time():
    cu = cumulative([700, 33, 1291])
    tensors = [tensor.bfloat16().cuda() for tensor in random_tensors(2024, 2024, (8, 2), 64)]
    torch.use_deterministic_algorithms(True)
    try:
        first, second = (
            with_gradients(lambda q, k, v: local_forward(q, k, v, cu, cu, "causal", 0, 0.125)[0], *tensors)
            for _ in range(2)
        )
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_meta_kernels_and_autograd_agree_with_the_kernels():
    cu = cumulative([5, 9])
    tensors = [tensor.bfloat16().cuda().requires_grad_() for tensor in random_tensors(14, 14, (4, 2), 64)[:3]]
    torch.library.opcheck(local_forward, (*tensors, cu, cu, "causal", 0, 0.3))


def test_what_the_kernel_cannot_take_is_refused_by_name():
    q, k = torch.zeros(7, 4, 16, device="cuda"), torch.zeros(7, 2, 16, device="cuda")
    with pytest.raises(ValueError, match="q is Float on cuda:0.*: give float16 or bfloat16"):
        local_forward(q, k, k, cumulative([7]), cumulative([7]), "causal", 0, 1.0)
