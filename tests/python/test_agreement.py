"""Ranks that would train different plans stop before they exchange anything, all with the same words."""

import pytest

import agreement_cases as cases
import equipoise as eq
from agreement_cases import LENGTHS
from ranks import run_ranks

TIMEOUT = 20


def outcomes(world: int, function, *arguments) -> str:
    """The one outcome that all ranks have."""
    results = run_ranks(world, function, *arguments, timeout=TIMEOUT)
    assert len(set(results)) == 1, results
    return results[0]


@pytest.mark.parametrize("world", [2, 4])
def test_ranks_with_equal_inputs_agree_on_every_step(world: int) -> None:
    assert outcomes(world, cases.agree, {}) == "agreed"


@pytest.mark.parametrize(
    ("world", "by_rank", "message"),
    [
        (2, {1: {"sampler": {"seed": 1}}}, "seed is 0 on rank 0 and 1 on rank 1, field seed: "),
        (4, {2: {"inputs": {"window": 65}}}, "window is 64 on rank 0 and 65 on rank 2, field window: "),
        (2, {0: {"inputs": {"strategy": "plain"}}}, "strategy is plain on rank 0 and equipoise on rank 1, "),
        (2, {1: {"lengths": LENGTHS[:-1]}}, "documents is 32 on rank 0 and 31 on rank 1, field documents: "),
        (2, {1: {"lengths": [*LENGTHS[:-1], 34]}}, "field lengths: start all ranks with the same arguments"),
        (2, {1: {"sampler": {"shuffle": False}}}, "shuffle is true on rank 0 and false on rank 1, field shuffle: "),
        # Two fields differ, on two ranks: the first field, and the first rank where it does.
        (
            4,
            {1: {"inputs": {"window": 65}}, 3: {"sampler": {"seed": 5}}},
            "seed is 0 on rank 0 and 5 on rank 3, field seed: ",
        ),
    ],
)
def test_every_rank_names_the_first_input_that_differs(world: int, by_rank: dict, message: str) -> None:
    assert message in outcomes(world, cases.agree, by_rank)


@pytest.mark.parametrize("changed", [{"hash": 1}, {"step": 7}, {"pool_hash": 2**64 - 1}])
def test_every_rank_sees_a_plan_that_differs_though_inputs_agree(changed: dict) -> None:
    outcome = outcomes(4, cases.agree_on_changed_step, {3: changed})
    assert "have different plans from equal inputs, step 1 and step" in outcome
    assert "and 3 have" in outcome


def test_pools_may_have_different_buckets() -> None:
    first, second = (make_pool_hash(replica) for replica in (0, 3))
    assert first != second
    assert make_pool_hash(1) == first


def make_pool_hash(replica: int) -> int:
    return next(iter(cases.make_sampler({"sampler": {"replica": replica}}))).pool_hash


def test_a_group_of_some_ranks_agrees_alone() -> None:
    assert "seed is 0 on rank 0 and 1 on rank 2" in outcomes(4, cases.agree_in_subgroups)


def test_one_process_agrees_with_itself() -> None:
    sampler = cases.make_sampler({})
    eq.agreement.check(sampler)
    for step in sampler:
        eq.agreement.check_step(sampler, step)
