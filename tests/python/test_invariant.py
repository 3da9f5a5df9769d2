"""Invariant sums: the same bits whoever computes which grid cell, in pools of any size, on any number of threads."""

import pytest
import torch

import equipoise.attention  # noqa: F401, loads the operator
from attention_cases import Case, dense_case, make_tensors, run_case
from dense import error
from invariant_ranks import compare_dealt, compare_threads, run_dealt
from ranks import run_ranks

LENGTHS = (300, 21, 64, 5, 130, 77, 1, 250, 90, 33)
MASKS = (("causal", 0), ("full", 0), ("sliding_window", 50))
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])


def invariant(dtype, grid_rows=32, **fields):
    options = {"gradient_sum": "invariant", "grid_rows": grid_rows} | fields.pop("options", {})
    return Case(options=options, dtype=dtype, **({"heads": (4, 2, 16), "masks": MASKS} | fields))


def assert_close_to_dense(case, by_rank, tolerance):
    for rank, (exact, found) in enumerate(zip(dense_case(case), by_rank, strict=True)):
        for mask, (wanted, results) in enumerate(zip(exact[0], found, strict=True)):
            for index, result in enumerate(results):
                off = error(result, wanted[index])
                assert off < tolerance, f"result {index} of rank {rank}, mask {mask}: {off}"


@DTYPES
@pytest.mark.parametrize(
    ("mesh", "pools", "strategy"),
    [((8, 1), (1, 2, 4, 8), "plain"), ((4, 2), (1, 2, 4), "allgather"), ((1, 4), (1,), "plain")],
    ids=["dp8", "dp4cp2", "cp4"],
)
def test_bits_do_not_depend_on_who_computes_what(mesh, pools, strategy, dtype):
    """The same sequences, slots and shards throughout; the first assignment leaves all at home."""
    dp, cp = mesh
    case = invariant(dtype, lengths=LENGTHS, strategy=strategy, dp=dp, cp=cp, pool=1, options={"align": 4})
    seeds = (None, *range(8 if len(pools) > 1 else 20))
    by_rank = run_ranks(dp * cp, compare_dealt, case, pools, seeds, timeout=300)
    assert [differ for _, differ in by_rank] == [[]] * (dp * cp)
    assert_close_to_dense(case, [first for first, _ in by_rank], 1e-6 if dtype == torch.float32 else 5e-3)


@DTYPES
def test_bits_do_not_depend_on_who_computes_what_in_a_grid_of_the_default_size(dtype):
    case = invariant(
        dtype, 512, lengths=(1700, 900, 1300), dp=2, pool=1, window=2048, heads=(4, 2, 64), masks=(("causal", 0),)
    )
    by_rank = run_ranks(2, compare_dealt, case, (1, 2), (None, *range(6)), timeout=300)
    assert [differ for _, differ in by_rank] == [[], []]


@DTYPES
def test_bits_do_not_depend_on_the_number_of_threads(dtype):
    case = invariant(dtype, 512, lengths=(1300, 700), dp=2, window=1300, heads=(4, 2, 33))
    assert run_ranks(2, compare_threads, case, 0, (2, 3, 4)) == [[], []]


@DTYPES
def test_fast_sums_give_the_same_bits_again(dtype):
    case = Case((600, 150, 70, 33, 210, 5), "libra", 2, 2, heads=(4, 2, 32), masks=MASKS, window=600, dtype=dtype)
    for first, again in run_ranks(4, run_twice, case):
        for results, repeated in zip(first[0], again[0], strict=True):
            assert all(torch.equal(a, b) for a, b in zip(results, repeated, strict=True))


def run_twice(case):
    return run_case(case), run_case(case)


@pytest.mark.parametrize("strategy", ["plain", "allgather", "ulysses", "libra", "equipoise"])
def test_every_strategy_plans_invariant_sums(strategy):
    case = invariant(torch.float32, lengths=LENGTHS, strategy=strategy, dp=2, cp=2, window=486)
    by_rank = run_ranks(4, run_case, case)
    assert_close_to_dense(case, [results[0] for results in by_rank], 1e-6)


def test_bits_do_not_depend_on_what_is_kept():
    fields = {"lengths": LENGTHS, "strategy": "allgather", "dp": 2, "cp": 2, "window": 486}
    again, kept = (
        run_ranks(
            4, run_dealt, invariant(torch.float32, options={"element_bytes": 4, "keep_received": keep}, **fields), 1
        )
        for keep in (False, True)
    )
    for results, others in zip(again, kept, strict=True):
        for one, other in zip(results, others, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_float64_is_refused_under_invariant_sums():
    case = invariant(torch.float64, lengths=(20, 10), strategy="plain")
    micro = case.micro_steps(0, 0)[0]
    q, k, v, _ = make_tensors(case, micro, 0)
    program = torch.from_numpy(micro.exchange(mask=0).program)
    with pytest.raises(ValueError, match="q is Double on cpu under invariant sums, attention of member 0"):
        torch.ops.equipoise.attention_forward(q, k, v, program, "", "", 0.5, 0)
