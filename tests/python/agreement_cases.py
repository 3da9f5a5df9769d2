"""What each rank of the agreement tests does; returns the text of the error that it saw, or "agreed"."""

import torch.distributed as dist

import equipoise as eq

TINY = eq.ModelShape("tiny", layers=1, hidden=64, query_heads=4, kv_heads=2, head_size=16, ffn=128, vocabulary=100)
LENGTHS = [30, 7, 64, 1, 12, 40, 9, 33] * 4


def make_sampler(changes: dict) -> eq.StepSampler:
    """Of this rank; `changes` are those of this rank's inputs, sampler and lengths."""
    world = dist.get_world_size() if dist.is_initialized() else 4
    rank = dist.get_rank() if dist.is_initialized() else 0
    inputs = {"mesh": eq.Mesh(dp=world), "pool": world // 2, "window": 64, "model": TINY} | changes.get("inputs", {})
    sampler = {"replica": rank, "seed": 0} | changes.get("sampler", {})
    return eq.StepSampler(changes.get("lengths", LENGTHS), eq.PlanInputs(**inputs), **sampler)


def agree(by_rank: dict[int, dict]) -> str:
    """Checks the inputs, then every step."""
    sampler = make_sampler(by_rank.get(dist.get_rank(), {}))
    try:
        eq.agreement.check(sampler)
        for step in sampler:
            eq.agreement.check_step(sampler, step)
    except ValueError as error:
        return str(error)
    return "agreed"


def agree_on_changed_step(by_rank: dict[int, dict]) -> str:
    """Ranks whose second step is another than planned, in the named attributes."""
    sampler = make_sampler({})
    try:
        eq.agreement.check(sampler)
        for step in sampler:
            if step.step == 1:
                vars(step).update(by_rank.get(dist.get_rank(), {}))
            eq.agreement.check_step(sampler, step)
    except ValueError as error:
        return str(error)
    return "agreed"


def agree_in_subgroups() -> str:
    """Halves of the ranks with seeds of their own, each half in a group of its own."""
    half, world = dist.get_rank() // 2, dist.get_world_size()
    groups = [dist.new_group([2 * i, 2 * i + 1], backend="gloo") for i in range(world // 2)]
    sampler = make_sampler({"sampler": {"seed": half}})
    eq.agreement.check(sampler, groups[half])
    try:
        eq.agreement.check(sampler)
    except ValueError as error:
        return str(error)
    return "agreed"
