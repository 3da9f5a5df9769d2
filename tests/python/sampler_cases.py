"""Inputs and lengths that the tests of the sampler share."""

import numpy as np

import equipoise as eq

TINY = eq.ModelShape("tiny", layers=3, hidden=64, query_heads=8, kv_heads=2, head_size=16, ffn=128, vocabulary=100)
LENGTHS = [min(1500, int(n)) for n in np.random.default_rng(1).pareto(0.9, 300) * 30 + 1] + [0, 5000]


def inputs_for(**changes) -> eq.PlanInputs:
    sound = {"mesh": eq.Mesh(dp=4, cp=2), "pool": 2, "window": 512, "micro_steps": 2, "model": TINY}
    return eq.PlanInputs(**(sound | changes))


def ranks_of(inputs: eq.PlanInputs, **arguments) -> list[list]:
    """All steps of all ranks of dp x cp."""
    places = [(replica, cp_rank) for replica in range(inputs.mesh.dp) for cp_rank in range(inputs.mesh.cp)]
    return [list(eq.StepSampler(LENGTHS, inputs, replica=r, cp_rank=c, **arguments)) for r, c in places]


def as_bytes(step) -> bytes:
    """Everything of a step that a rank reads."""
    parts = [step.hash, step.pool_hash, step.loss_tokens, step.state_after]
    for micro in step.micro_steps:
        rows = (micro.documents, micro.tokens, micro.positions, micro.label_tokens, micro.cu_seqlens)
        parts += [[array.tobytes() for array in rows], micro.items, micro.exchange().program.tobytes(), micro.loads()]
    return repr(parts).encode()
