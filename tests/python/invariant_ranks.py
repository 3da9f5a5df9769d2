"""Attention under invariant sums with grid cells dealt to members at random: what ranks run for test_invariant.py."""

import random
from dataclasses import replace

import torch
import torch.distributed as dist

import equipoise as eq
from attention_cases import make_tensors
from dense import with_gradients
from equipoise import _core
from equipoise.micro_step import MicroExchange


def grid_cells(case, bucket, replica):
    """(owner, segment, q_begin, q_length) of every block of rows that the grid and the shards of a sequence make."""
    core = case.inputs().core
    for cp_rank in range(case.cp):
        pieces, _, _ = _core.member_rows(core, bucket, replica, cp_rank)
        for segment, begin, length in pieces.tolist():
            borders = {begin, begin + length}
            borders |= {row for row in range(0, begin + length, core.grid_rows) if row > begin}
            rows = sorted(borders)
            for first, end in zip(rows, rows[1:], strict=False):
                yield replica * case.cp + cp_rank, segment, first, end - first


def random_tiles(case, bucket, rng):
    """Of all blocks of rows and KV heads some go to random members, in rounds 1 to 3. The same on all ranks."""
    query, kv, _ = case.heads
    group = query // kv
    tiles = []
    for replica in range(case.pool_size):
        for owner, segment, begin, length in sorted(grid_cells(case, bucket, replica)):
            for head in range(kv):
                member = rng.randrange(case.pool_size * case.cp)
                if member != owner:
                    tiles.append((replica, segment, begin, length, head * group, group, member, rng.randint(1, 3)))
    return sorted(tiles)


def dealt_exchange(case, micro, mask, seed):
    """What the operator reads where cells are dealt by this seed; None: all stay at home."""
    core, bucket, replica, place, step = micro._source
    tiles = (
        [] if seed is None else random_tiles(case, bucket, random.Random(f"{seed} {place.replica // case.pool_size}"))
    )
    dealt = _core.with_tiles(core, bucket, mask, tiles)
    program, *memory = _core.rank_program(core, dealt, mask, replica * place.cp + place.cp_rank, step)
    return MicroExchange(program, dealt.rounds(mask), 0, 0, *memory)


def run_dealt(case, seed):
    """On a rank: [masks] of (out, dq, dk, dv)."""
    groups = eq.pool_groups(eq.Mesh(dp=case.dp, cp=case.cp), case.pool_size)
    attention = eq.PooledAttention(groups)
    micro = case.micro_steps(groups.replica, groups.cp_rank)[0]
    tensors = make_tensors(case, micro, dist.get_rank())
    exchanges = [dealt_exchange(case, micro, mask, seed) for mask in range(len(case.masks))]
    return [with_gradients(lambda q, k, v, e=e: attention(q, k, v, e), *tensors) for e in exchanges]


def compare_dealt(case, pools, seeds):
    """On a rank: the results of the first pool and seed, and (pool, seed, mask, result) of those whose bits differ."""
    first, differ = None, []
    for pool in pools:
        for seed in seeds:
            results = run_dealt(replace(case, pool=pool), seed)
            first = first or results
            differ += [
                (pool, seed, mask, index)
                for mask, both in enumerate(zip(results, first, strict=True))
                for index, (got, wanted) in enumerate(zip(*both, strict=True))
                if not torch.equal(got, wanted)
            ]
    return first, differ


def compare_threads(case, seed, threads):
    """On a rank: the numbers of threads with which the bits differ from those of one."""
    results = {}
    for count in (1, *threads):
        torch.set_num_threads(count)
        results[count] = run_dealt(case, seed)
    same = {
        count: all(
            torch.equal(a, b) for mask in zip(found, results[1], strict=True) for a, b in zip(*mask, strict=True)
        )
        for count, found in results.items()
    }
    return [count for count, equal in same.items() if not equal]
