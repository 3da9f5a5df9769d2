"""The operator on 1 to 8 ranks equals dense attention on one: forward and gradients, every preset, mask and mesh."""

import random

import pytest
import torch

import equipoise.attention  # noqa: F401, loads the operator
from attention_cases import NAMES, Case, dense_case, make_tensors, plan, run_case, run_cases
from dense import error, with_gradients
from ranks import run_ranks

STRATEGIES = ["plain", "allgather", "ulysses", "libra", "equipoise"]
MESHES = [
    (1, 1),
    (2, 1),
    (1, 2),
    (3, 1),
    (1, 3),
    (2, 2),
    (4, 1),
    (1, 4),
    (2, 3),
    (6, 1),
    (2, 4),
    (4, 2),
    (8, 1),
    (1, 8),
]


def assert_equal_to_dense(case, by_rank, tolerance=1e-10):
    """by_rank: what run_case returned on each rank."""
    for rank, (micro_steps, exact) in enumerate(zip(by_rank, dense_case(case), strict=True)):
        for index, masks in enumerate(zip(micro_steps, exact, strict=True)):
            for mask, (results, expected) in enumerate(zip(*masks, strict=True)):
                for name, result, wanted in zip(NAMES, results, expected, strict=True):
                    place = f"{name} of rank {rank}, micro-step {index}, mask {mask}, {case}"
                    torch.testing.assert_close(
                        result, wanted, rtol=0, atol=tolerance, msg=lambda text, place=place: f"{place}: {text}"
                    )


def random_case(rng, strategy, mesh):
    """Heavy-tailed lengths that divide nothing; sometimes fewer documents than sequences, padding, several rounds."""
    dp, cp = mesh
    micro_steps = rng.choice([1, 1, 2])
    count = rng.choice([1, dp * micro_steps, 3 * dp * micro_steps])
    lengths = [rng.choice([1, 2, 5, 17, 40, 90]) + rng.randrange(9) for _ in range(count)]
    lengths[rng.randrange(count)] += rng.randrange(30 * dp)
    group = rng.choice([1, 2, 3])
    kv = cp * rng.choice([1, 2]) if strategy == "ulysses" else rng.choice([1, 2, 3])
    masks = [("causal", 0), rng.choice([("full", 0), ("sliding_window", rng.choice([1, 7, 30]))])]
    options = {"micro_steps": micro_steps, "align": rng.choice([1, 1, 4])}
    pool = rng.choice([size for size in range(1, dp + 1) if dp % size == 0])
    heads = (group * kv, kv, rng.choice([3, 8, 16]))
    seed = rng.randrange(10**6)
    return Case(tuple(lengths), strategy, dp, cp, pool, heads, tuple(masks), options=options, seed=seed)


@pytest.mark.parametrize("mesh", MESHES, ids=lambda mesh: f"dp{mesh[0]}cp{mesh[1]}")
def test_equals_dense_attention_in_float64(mesh):
    rng = random.Random(f"mesh {mesh}")
    cases = [random_case(rng, strategy, mesh) for strategy in STRATEGIES for _ in range(2)]
    by_rank = run_ranks(mesh[0] * mesh[1], run_cases, cases)
    for index, case in enumerate(cases):
        assert_equal_to_dense(case, [results[index] for results in by_rank])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_is_as_exact_as_the_same_kernel_on_one_rank(dtype):
    """One long document and short ones, so that rows, heads and partial gradients travel."""
    lengths = (600, 150, 70, 33, 210, 5)
    many = [
        Case(lengths, strategy, 2, 2, heads=(4, 2, 32), masks=(mask,), window=600, dtype=dtype)
        for strategy in STRATEGIES
        for mask in (("causal", 0), ("sliding_window", 150))
    ]
    by_rank = run_ranks(4, run_cases, many)
    for index, case in enumerate(many):
        exact = dense_case(case)
        spread = [results[index] for results in by_rank]
        alone = errors_on_one_rank(case, exact)
        for part, name in enumerate(NAMES):
            got = error(rows(spread, part), rows(exact, part))
            assert 0 < got <= 2 * alone[part], f"{name}: {got} where one rank has {alone[part]}, {case}"


def rows(by_rank, part):
    """One of (out, dq, dk, dv) of the first micro-step and mask, all ranks."""
    return torch.cat([micro_steps[0][0][part].double() for micro_steps in by_rank])


def errors_on_one_rank(case, exact):
    """The error of each result where the local kernel computes whole segments, from the same rows as all ranks."""
    micros = [micro_steps[0] for micro_steps in plan(case)]
    parts = [make_tensors(case, micro, rank) for rank, micro in enumerate(micros)]
    tensors = [torch.cat(part) for part in zip(*parts, strict=True)]
    keys = torch.cat([torch.from_numpy(micro.documents) for micro in micros]) * 10**6
    positions = torch.cat([torch.from_numpy(micro.positions) for micro in micros])
    begins = torch.cat([torch.from_numpy(micro.tokens) for micro in micros]) - positions
    order = torch.argsort(keys + begins * 10**3 + positions)
    lengths = torch.unique(keys + begins, return_counts=True)[1]
    cumulative = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    mask, scale = case.masks[0], case.heads[2] ** -0.5
    local = torch.ops.equipoise.local_attention_forward
    results = with_gradients(
        lambda q, k, v: local(q, k, v, cumulative, cumulative, *mask, scale)[0], *[t[order] for t in tensors]
    )
    return [error(result, rows(exact, part)[order]) for part, result in enumerate(results)]


def test_equals_dense_attention_where_a_cap_makes_several_rounds():
    """Keys that one round sends and a later one uses again; two rounds' buffers at a time."""
    lengths = (200,) + (10,) * 40
    cases = [
        Case(lengths, "libra", dp=3, heads=(8, 4, 16), window=200, options={"exchange_bytes": cap})
        for cap in range(750_000, 250_000, -50_000)
    ]
    most = max(cases, key=lambda case: case.micro_steps(0, 0)[0].exchange(mask=0).rounds)
    assert most.micro_steps(0, 0)[0].exchange(mask=0).rounds >= 3
    assert_equal_to_dense(most, run_ranks(3, run_case, most))
