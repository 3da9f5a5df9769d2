"""Every member makes the same collectives in the same order, whatever it has to do; a lost member is named."""

import os
import signal
from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest
import torch
import torch.distributed as dist

import equipoise as eq
from attention_cases import Case, make_tensors, plan
from contract_ranks import Options, run_options, train_step_alone
from dense import with_gradients
from ranks import run_ranks

# Fewer documents than sequences, so that some rank has an empty one in some micro-step.
WINDOWED = (("causal", 0), ("sliding_window", 13))
CASES = [
    Case((60, 20, 9), "equipoise", dp=2, window=100, options={"micro_steps": 2}),
    Case((50, 3, 30), "libra", dp=2, cp=2, window=100, options={"micro_steps": 2}),
    Case((70, 12), "ulysses", dp=1, cp=2, window=100, masks=WINDOWED, options={"micro_steps": 2}),
    Case((80, 20, 9, 40), "libra", dp=4, pool=2, window=100, masks=WINDOWED, options={"micro_steps": 2}),
    Case((90, 40, 7, 25, 3), "equipoise", dp=4, cp=2, pool=4, window=100, options={"micro_steps": 2, "align": 4}),
    Case((90, 40, 7, 25, 3, 11, 2, 60, 9, 9, 1, 30), "libra", dp=8, pool=4, window=100, options={"micro_steps": 2}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"dp{case.dp}cp{case.cp}-{case.strategy}")
def test_gradients_equal_those_of_one_rank_under_all_schedules(case):
    """With and without checkpointing of each kind, FSDP2, two micro-steps in flight, and received rows kept."""
    rows = [[micro.rows for micro in micro_steps] for micro_steps in plan(case)]
    assert case.strategy == "ulysses" or any(0 in counts for counts in rows)
    loss, gradients = train_step_alone(case)
    every = [Options(*flags) for flags in product(["none", "non_reentrant"], [False, True], [False, True])]
    every += [Options(kind, both, both) for kind in ("reentrant", "selective") for both in (False, True)]
    keeping = replace(case, options=case.options | {"keep_received": True})
    for each in (case, keeping):
        check_options(each, every, loss, gradients)


def check_options(case, every, loss, gradients):
    for rank, results in enumerate(run_ranks(case.dp * case.cp, run_options, case, every)):
        for options, (got_loss, got) in zip(every, results, strict=True):
            assert got_loss == pytest.approx(loss, rel=1e-12)
            assert got.keys() == gradients.keys()
            for name, expected in gradients.items():
                place = f"{name} on rank {rank}, {options}"
                torch.testing.assert_close(
                    got[name], expected, rtol=1e-10, atol=1e-10, msg=lambda text, place=place: f"{place}: {text}"
                )


LOST = Case((90, 40), "plain", cp=4)


def lose_a_rank(lost, how, when):
    """One step after another until the member is lost; returns what a survivor is told."""
    groups = eq.pool_groups(eq.Mesh(dp=1, cp=4), pool=1, timeout=timedelta(seconds=3))
    attention = eq.PooledAttention(groups)
    [micro] = LOST.micro_steps(0, groups.cp_rank)
    *qkv, grad_out = make_tensors(LOST, micro, groups.member)
    with_gradients(lambda q, k, v: attention(q, k, v, micro.exchange(mask=0)), *qkv, grad_out)
    dist.barrier()
    q, k, v = (tensor.requires_grad_() for tensor in qkv)
    if dist.get_rank() == lost and when == "forward":
        os.kill(os.getpid(), how)
    try:
        out = attention(q, k, v, micro.exchange(mask=0))
        if dist.get_rank() == lost:
            os.kill(os.getpid(), how)
        out.backward(grad_out)
    except RuntimeError as error:
        return str(error)
    return "nothing was said"


@pytest.mark.parametrize("when", ["forward", "backward"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_survivors_say_where_a_lost_rank_left_them(how, when):
    """A killed rank is seen by its closed connection, a stopped one by the time-out of the groups."""
    texts = run_ranks(4, lose_a_rank, 2, how, when, timeout=60, dying={2})
    for rank in (0, 1, 3):
        assert f" of attention {when} failed (" in texts[rank]
        assert how == signal.SIGKILL or "failed (Timed out waiting 3000ms" in texts[rank]
        assert ".cc:" not in texts[rank]
        assert f"), rank {rank} = member {rank} of pool 0, step 0, micro-step 0, round 0, peers " in texts[rank]
        assert "2" in texts[rank].split("peers ")[1].split(":")[0]
        assert ": look for the rank that ended first" in texts[rank]
        assert "\n" not in texts[rank]
