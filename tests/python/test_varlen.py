"""The operator's implementation for CUDA, run on CPU tensors over a dense stand-in for torch's kernel.

This checks which rows and keys go into which call, how they lie, and what becomes of the results; not CUDA.
"""

import random
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist

import equipoise as eq
import flash_stand_in
from attention_cases import dense_case, make_tensors
from dense import dense_attention, with_gradients
from flash_stand_in import on_cuda
from ranks import run_ranks
from test_attention import STRATEGIES, random_case
from test_kernel import CASES, MASKS, all_seen, cumulative, random_tensors

MESHES = [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1)]
HALF = 2**-11  # half a unit in the last place of float16


class Pooled(torch.autograd.Function):
    """Attention through a plan by the implementation for CUDA. call: program, groups, scale."""

    @staticmethod
    def forward(ctx, q, k, v, *call):
        ctx.call = call
        out, lse, kept = on_cuda("attention_forward", q, k, v, *call)
        ctx.save_for_backward(q, k, v, out, lse, kept)
        return out

    @staticmethod
    def backward(ctx, grad_out):
        gradients = on_cuda("attention_backward", grad_out, *ctx.saved_tensors, *ctx.call)
        return *gradients, *[None] * len(ctx.call)


class Local(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, *call):
        ctx.call = call
        out, lse = on_cuda("local_attention_forward", q, k, v, *call)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, grad_out, _):
        return *on_cuda("local_attention_backward", grad_out, *ctx.saved_tensors, *ctx.call), *[None] * len(ctx.call)


def run_case(case):
    """As attention_cases.run_case."""
    flash_stand_in.install()
    groups = eq.pool_groups(eq.Mesh(dp=case.dp, cp=case.cp), case.pool_size)

    def attend(micro, mask):
        program = torch.from_numpy(micro.exchange(mask=mask).program)
        call = program, groups.dispatch, groups.give_back, case.heads[2] ** -0.5
        return lambda q, k, v: Pooled.apply(q, k, v, *call)

    results = []
    for index, micro in enumerate(case.micro_steps(groups.replica, groups.cp_rank)):
        tensors = make_tensors(replace(case, seed=case.seed + index), micro, dist.get_rank())
        results.append([with_gradients(attend(micro, mask), *tensors) for mask in range(len(case.masks))])
    return results


def run_cases(cases):
    return [run_case(case) for case in cases]


def half_case(rng, strategy, mesh):
    case = random_case(rng, strategy, mesh)
    return replace(case, heads=(*case.heads[:2], 8), dtype=torch.float16)


@pytest.mark.parametrize("mesh", MESHES, ids=lambda mesh: f"dp{mesh[0]}cp{mesh[1]}")
def test_equals_dense_attention_but_for_the_rounding_of_float16(mesh):
    rng = random.Random(f"varlen {mesh}")
    cases = [half_case(rng, strategy, mesh) for strategy in STRATEGIES for _ in range(2)]
    by_rank = run_ranks(mesh[0] * mesh[1], run_cases, cases)
    for index, case in enumerate(cases):
        for rank, micro_steps in enumerate(dense_case(case)):
            for step, masks in enumerate(micro_steps):
                for mask, expected in enumerate(masks):
                    for got, exact in zip(by_rank[rank][index][step][mask], expected, strict=True):
                        assert got.dtype == torch.float16
                        torch.testing.assert_close(got.double(), exact, rtol=4 * HALF, atol=16 * HALF)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("mask", "window"), MASKS)
def test_documents_at_home_equal_dense_attention(case, mask, window):
    """Also where a document has fewer keys than rows, so that some rows see none."""
    flash_stand_in.install()
    cu_q, cu_k = map(cumulative, CASES[case])
    tensors = [tensor.half() for tensor in random_tensors(int(cu_q[-1]), int(cu_k[-1]), (6, 2), 24)]
    call = (cu_q, cu_k, mask, window, 24**-0.5)
    seen = all_seen(cu_q, cu_k, mask, window)
    exact = [tensor.double() for tensor in tensors]
    wanted = with_gradients(lambda q, k, v: dense_attention(q, k, v, seen)[0], *exact)
    results = with_gradients(lambda q, k, v: Local.apply(q, k, v, *call)[0], *tensors)
    for got, expected in zip(results, wanted, strict=True):
        torch.testing.assert_close(got.double(), expected, rtol=4 * HALF, atol=16 * HALF)
    lse = on_cuda("local_attention_forward", *tensors[:3], *call)[1]
    torch.testing.assert_close(lse.double(), dense_attention(*exact[:3], seen)[1], rtol=1e-6, atol=1e-6)


def test_documents_at_home_are_one_call_on_the_tensors_themselves():
    flash_stand_in.install()
    cu = cumulative([30, 1, 200, 0, 64])
    q, k, v, _ = (tensor.half() for tensor in random_tensors(295, 295, (4, 2), 16))
    flash_stand_in.calls.clear()
    on_cuda("local_attention_forward", q, k, v, cu, cu, "causal", 0, 0.25)
    [call] = flash_stand_in.calls
    for passed, tensor in ((call.query, q), (call.key, k), (call.value, v)):
        assert passed.data_ptr() == tensor.data_ptr()
    assert call.cum_seq_q.tolist() == [0, 30, 31, 231, 295]


@pytest.mark.parametrize(
    ("dtype", "size", "message"),
    [
        (torch.float32, 16, "q is Float on .*: give float16 or bfloat16"),
        (torch.float64, 16, "q is Double on .*: give float16 or bfloat16"),
        (torch.float16, 12, "head size 12 on .*: give a multiple of 8 of at most 256"),
        (torch.bfloat16, 264, "head size 264 on .*: give a multiple of 8 of at most 256"),
    ],
)
def test_what_the_kernel_cannot_take_is_refused_by_name(dtype, size, message):
    q, k = torch.zeros(7, 4, size, dtype=dtype), torch.zeros(7, 2, size, dtype=dtype)
    with pytest.raises(ValueError, match=message):
        on_cuda("local_attention_forward", q, k, k, cumulative([7]), cumulative([7]), "causal", 0, 1.0)
