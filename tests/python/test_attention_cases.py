"""Attention through a plan: small inputs with known right answers, and what wrong arguments are told."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import equipoise as eq
from attention_cases import EAGER, Case, make_tensors, plan, run_cases
from equipoise.attention import PooledAttention
from equipoise.groups import PoolGroups
from ranks import run_ranks
from test_attention import STRATEGIES, assert_equal_to_dense

attention_forward = torch.ops.equipoise.attention_forward
ALONE = PoolGroups("", "", pool=0, member=0, ranks=(0,), replica=0, cp_rank=0)  # one member needs no group


def run_and_compare(world, cases):
    by_rank = run_ranks(world, run_cases, cases)
    for index, case in enumerate(cases):
        assert_equal_to_dense(case, [results[index] for results in by_rank])
    return by_rank


def test_A1_seven_tokens_on_two_ranks_equal_one_rank():
    run_and_compare(2, [Case((7,), strategy, cp=2) for strategy in STRATEGIES])


def test_A4_28_query_heads_of_7_groups_run_on_two_ranks():
    run_and_compare(2, [Case((40, 9), strategy, cp=2, heads=(28, 7, 8)) for strategy in STRATEGIES])


def test_A4_ulysses_gives_rank_0_three_whole_groups_and_half_of_the_fourth():
    [micro] = Case((40, 9), "ulysses", cp=2, heads=(28, 7, 8)).micro_steps(0, 0)
    heads = set()
    for _mask, _replica, _segment, _begin, _length, head_begin, count, member, _round in micro.drawing()["tiles"]:
        if member == 0:
            heads.update(range(head_begin, head_begin + count))
    assert heads == set(range(14))


def test_A4_12_query_heads_are_no_multiple_of_8():
    with pytest.raises(ValueError, match="12.*8.*: "):
        Case((40,), heads=(12, 8, 8)).inputs()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_A5_a_rank_without_rows_joins_and_returns_empty_tensors(strategy):
    """One document, two sequences: a rank without rows computes tiles of the other where they are pooled."""
    pooled = Case((50,), strategy, dp=2, heads=(8, 4, 8), window=50, options={"hardware": EAGER})
    one_token = Case((1,), strategy, cp=2, heads=(8, 4, 8), window=2)
    for by_case in run_and_compare(2, [pooled, one_token]):
        assert all(tensor is not None for [[four]] in by_case for tensor in four)
    assert [micro.rows for [micro] in plan(pooled)] == [50, 0]
    assert sorted(micro.rows for [micro] in plan(one_token)) == [0, 1]
    moves = [micro.exchange(mask=0).rounds > 1 for [micro] in plan(pooled)]
    assert moves == [strategy in ("libra", "equipoise")] * 2


def test_A6_positions_follow_the_sharding():
    whole = [micro.positions.tolist() for [micro] in plan(Case((4, 4), "plain", cp=2))]
    assert whole == [[0, 1, 2, 3], [2, 3, 0, 1]]
    by_document = [micro.positions.tolist() for [micro] in plan(Case((4, 4), "allgather", cp=2))]
    assert by_document == [[0, 3, 0, 3], [1, 2, 1, 2]]


def test_A7_nan_in_padding_rows_reaches_nobody():
    cases = [
        Case((21, 30, 2), strategy, dp=2, cp=2, pool=2, window=40, options={"align": 8, "hardware": EAGER})
        for strategy in STRATEGIES
    ]
    by_rank = run_and_compare(4, cases)
    padding = 0
    for index, case in enumerate(cases):
        for results, [micro] in zip(by_rank, plan(case), strict=True):
            padding += micro.rows - micro.owned_rows
            [[four]] = results[index]
            for tensor in four:
                assert not tensor.isnan().any()
                assert not tensor[micro.owned_rows :].any()
    assert padding > 0


@pytest.mark.parametrize("strategy", ["libra", "equipoise"])
@pytest.mark.parametrize("mesh", [(8, 1), (1, 8)])
def test_A8_no_key_travels_where_each_rank_owns_a_document(strategy, mesh):
    for hardware in ("h100", EAGER):
        case = Case((1000,) * 8, strategy, *mesh, options={"hardware": hardware})
        for [micro] in plan(case):
            assert set(micro.documents.tolist()) == {int(micro.documents[0])}
            exchange = micro.exchange(mask=0)
            assert (exchange.rounds, exchange.sent_bytes, exchange.received_bytes) == (1, 0, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_meta_kernels_and_autograd_agree_with_the_kernels(dtype):
    case = Case((20, 3), dtype=dtype, options={"align": 4})
    [micro] = case.micro_steps(0, 0)
    q, k, v, _ = make_tensors(case, micro, 0)
    inputs = [tensor.nan_to_num().requires_grad_() for tensor in (q, k, v)]
    torch.library.opcheck(attention_forward, (*inputs, torch.from_numpy(micro.exchange(mask=0).program), "", "", 0.25))


def test_compiled_with_symbolic_shapes_it_gives_the_same_result_and_gradients():
    attention = PooledAttention(ALONE)

    def layer(q, k, v, program):
        return attention(q * 2, k, v, program).square()

    compiled = torch.compile(layer, dynamic=True, fullgraph=True, backend="aot_eager")
    for lengths in ((20, 3), (31,), (5, 6, 7)):
        case = Case(lengths)
        [micro] = case.micro_steps(0, 0)
        *qkv, grad_out = make_tensors(case, micro, 0)
        inputs = [tensor.requires_grad_() for tensor in qkv]
        program = torch.from_numpy(micro.exchange(mask=0).program)
        plain, traced = layer(*inputs, program), compiled(*inputs, program)
        assert torch.equal(plain, traced)
        for a, b in zip(*(torch.autograd.grad(out, inputs, grad_out) for out in (plain, traced)), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-13)


def good_call():
    case = Case((20, 3))
    [micro] = case.micro_steps(0, 0)
    q, k, v, _ = make_tensors(case, micro, 0)
    return {"q": q, "k": k, "v": v, "program": torch.from_numpy(micro.exchange(mask=0).program.copy())}


def changed_word(index, value):
    program = good_call()["program"]
    program[index] = value
    return program


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": torch.zeros(22, 4, 16).double()}, r"q has shape \[22, 4, 16\] where the plan needs \[23, 4, 16\]"),
        ({"q": torch.zeros(23, 64).double()}, r"q has shape \[23, 64\]"),
        ({"q": torch.zeros(23, 4, 16)}, "k is Double on cpu where q is Float on cpu"),
        ({"q": torch.zeros(23, 4, 16).half()}, "q is Half"),
        ({"v": torch.zeros(23, 2, 8).double()}, r"v has shape \[23, 2, 8\] where k has \[23, 2, 16\]"),
        ({"k": torch.zeros(23, 4, 16).double(), "v": torch.zeros(23, 4, 16).double()}, r"k has shape \[23, 4, 16\]"),
        ({"program": torch.zeros(5)}, r"program is Float \[5\] on cpu"),
        ({"program": torch.zeros(5, dtype=torch.int64)}, "magic"),
        ({"program": changed_word(1, 7)}, "version 7 is not 2"),
        ({"program": good_call()["program"][:-1]}, "end"),
        ({"program": changed_word(-1, 1000)}, "broken program"),
    ],
)
def test_wrong_arguments_are_value_errors_with_a_remedy(change, message):
    with pytest.raises(ValueError, match=f"{message}.*, .*: "):
        attention_forward(**(good_call() | change), dispatch_group="", return_group="", scale=1.0)


def test_a_program_of_two_members_needs_their_groups():
    case = Case((20, 3), cp=2)
    [micro] = case.micro_steps(0, 1)
    q, k, v, _ = make_tensors(case, micro, 1)
    with pytest.raises(
        ValueError, match="no process group has the name 'nowhere', .*: make groups with equipoise.pool_groups"
    ):
        attention_forward(q, k, v, torch.from_numpy(micro.exchange(mask=0).program), "nowhere", "nowhere", 1.0)


def test_any_word_of_a_program_may_be_wrong_and_nothing_breaks():
    """A mutated program is refused, or it is a valid one whose places are all in range."""
    call = good_call()
    rng = np.random.default_rng(0)
    refused = 0
    for index in range(2, len(call["program"])):
        for value in (-1, 0, 1, 3, 10**6, 2**62, int(rng.integers(2**63 - 1))):
            program = call["program"].clone()
            program[index] = value
            try:
                attention_forward(**(call | {"program": program}), dispatch_group="", return_group="", scale=1.0)
            except ValueError:
                refused += 1
    assert refused > 3 * len(call["program"])


def test_replica_and_cp_rank_must_be_those_of_the_groups():
    groups = replace(ALONE, replica=3, cp_rank=1)
    assert eq.PooledAttention(groups, replica=3, cp_rank=1).groups is groups
    with pytest.raises(ValueError, match="replica 2 where the groups have 3, equipoise.PooledAttention: give"):
        eq.PooledAttention(groups, replica=2, cp_rank=1)


def test_cuda_kernels_refuse_a_type_that_they_do_not_have():
    call = good_call() | {"dispatch_group": "", "return_group": "", "scale": 1.0}
    cuda = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
    with pytest.raises(
        ValueError, match="q is Double on cpu, attention of member 0 of pool 0, step 0: give float16 or bfloat16"
    ):
        attention_forward.default.redispatch(cuda, *call.values())


ROWS = torch.zeros(7, 4, 8)


@pytest.mark.parametrize(
    ("q", "k", "program", "message"),
    [
        (ROWS, ROWS, None, r"exchange is NoneType, .*: give micro.exchange\(mask\)"),
        (ROWS[0, 0, 0], ROWS, torch.zeros(1), r"q has shape \[\], equipoise.PooledAttention: give q as a tensor"),
        (ROWS[..., :0], ROWS, torch.zeros(1), r"q has shape \[7, 4, 0\], equipoise.PooledAttention: "),
        (ROWS.numpy(), ROWS, torch.zeros(1), "q is ndarray, equipoise.PooledAttention: "),
        (ROWS, ROWS.numpy(), torch.zeros(1), "k is ndarray, equipoise.PooledAttention: give k as a tensor"),
    ],
)
def test_what_is_no_tensor_or_exchange_is_refused(q, k, program, message):
    with pytest.raises(ValueError, match=message):
        PooledAttention(ALONE)(q, k, k, program)
