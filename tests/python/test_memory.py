"""The operator allocates the buffers that the plan counts, once; it refuses types that they are not counted for."""

import random
from dataclasses import replace

import pytest
import torch

import equipoise as eq
from attention_cases import Case, run_case
from memory_ranks import profile_cases
from ranks import run_ranks
from test_attention import STRATEGIES, random_case

ELEMENT_BYTES = {torch.float32: 4, torch.bfloat16: 2}


def planned_for(case, dtype, keep):
    """The case in a type, planned for it."""
    options = case.options | {"element_bytes": ELEMENT_BYTES[dtype], "keep_received": keep}
    return replace(case, dtype=dtype, options=options)


def with_invariant_sums(case):
    return replace(case, options=case.options | {"gradient_sum": "invariant", "grid_rows": 16})


@pytest.mark.parametrize("mesh", [(2, 1), (3, 1), (2, 2), (1, 4)], ids=lambda mesh: f"dp{mesh[0]}cp{mesh[1]}")
def test_the_peak_of_the_operators_buffers_is_the_plans_figure(mesh):
    """Results and what kernels allocate for themselves are not buffers. Gloo's own memory is not torch's."""
    rng = random.Random(f"memory {mesh}")
    cases = [
        planned_for(random_case(rng, strategy, mesh), dtype, keep)
        for strategy in STRATEGIES
        for dtype in ELEMENT_BYTES
        for keep in (False, True)
    ]
    cases += [with_invariant_sums(case) for case in cases if case.strategy in ("allgather", "libra")]
    largest = 0
    for rank, layers in enumerate(run_ranks(mesh[0] * mesh[1], profile_cases, cases)):
        for first, second in layers:
            assert first.peak == first.planned, f"rank {rank}"
            kept = 1 if first.kept else 0
            assert second.count == kept, (
                "buffers are allocated once; what a forward keeps lives as long as its backward"
            )
            largest = max(largest, first.planned)
    assert largest > 10_000


LIMITED = Case((200, 10, 20, 15), "libra", dp=2, window=200, options={"exchange_bytes": 400_000, "element_bytes": 4})


def refusal(case):
    try:
        run_case(case)
    except ValueError as error:
        return str(error)
    return "it ran"


def test_all_members_refuse_another_type_than_the_limit_was_counted_for():
    wrong = replace(LIMITED, dtype=torch.float64)
    for text in run_ranks(2, refusal, wrong):
        assert text.startswith(
            "q has 8 bytes an element where the plan's exchange memory counts 4, attention of member "
        )
        assert text.endswith(": plan with element_bytes=8")
    assert run_ranks(2, refusal, replace(LIMITED, dtype=torch.float32)) == ["it ran"] * 2


def test_a_plan_above_its_limit_is_refused_with_the_reason():
    lengths = (200, 10, 20, 15)
    case = Case(lengths, "allgather", dp=1, cp=2, window=200, options={"exchange_bytes": 1000, "element_bytes": 2})
    with pytest.raises(
        ValueError, match=r"^exchange_bytes 1000 is too small, micro-step 0, pool 0, where a member needs "
    ):
        case.micro_steps(0, 0)


def test_element_bytes_are_those_of_a_number():
    with pytest.raises(
        ValueError, match="element_bytes 3 is no size of a number, field element_bytes: give one of 1, 2"
    ):
        eq.PlanInputs(element_bytes=3)
    with pytest.raises(ValueError, match="keep_received 1 is not True or False, field keep_received: "):
        eq.PlanInputs(keep_received=1)


def span_names(case):
    """What torch.profiler shows of the operator on this rank."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        run_case(case)
    return {event.name for event in prof.events() if event.name.startswith("equipoise::")}


def test_the_profiler_shows_what_each_round_does_and_waits_for():
    names = run_ranks(2, span_names, replace(LIMITED, dtype=torch.float32))
    for name in ("dispatch", "wait_dispatch", "compute", "return", "wait_return"):
        assert f"equipoise::{name} round 1" in names[0]
    assert {name.split(" round ")[0] for name in names[0]} == {name.split(" round ")[0] for name in names[1]}


def test_keeping_received_rows_changes_no_bit():
    lengths = (600, 150, 70, 33, 210, 5)
    for dtype in ELEMENT_BYTES:
        case = Case(lengths, "libra", 2, 2, heads=(4, 2, 32), window=600, masks=(("causal", 0), ("full", 0)))
        again, kept = (run_ranks(4, run_case, planned_for(case, dtype, keep)) for keep in (False, True))
        for rank in range(4):
            for masks in zip(again[rank][0], kept[rank][0], strict=True):
                assert all(torch.equal(a, b) for a, b in zip(*masks, strict=True))
