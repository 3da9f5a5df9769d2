"""What the operator allocates, as torch's profiler sees it: for each rank, plan and pass."""

from dataclasses import dataclass

import torch
from torch.profiler import ProfilerActivity, profile

import equipoise as eq
from attention_cases import make_tensors

OPERATIONS = ("equipoise::attention_forward", "equipoise::attention_backward")
COMPUTE = "equipoise::compute"


@dataclass
class Allocations:
    """Bytes that one layer's forward and backward allocated outside of the kernel, without its results."""

    peak: int  # live at once
    count: int  # allocations
    kept: int  # bytes from forward to backward
    planned: int  # what the plan says: buffers of a pass, and what a forward keeps


def events_in_operator(nodes, inside=False):
    """Allocations in the operator, kernel calls left out, in order of time: (pointer, bytes; below 0 freed)."""
    for node in nodes:
        inner = inside or node.name in OPERATIONS
        if node.name.startswith(COMPUTE):
            continue
        if node.name == "[memory]" and inner:
            fields = node.extra_fields
            yield node.start_time_ns, fields.ptr, fields.alloc_size
        yield from events_in_operator(node.children, inner)


def freed(nodes):
    """Everything that is freed anywhere: (time, pointer, bytes)."""
    for node in nodes:
        if node.name == "[memory]" and node.extra_fields.alloc_size < 0:
            yield node.start_time_ns, node.extra_fields.ptr, node.extra_fields.alloc_size
        yield from freed(node.children)


def measure(prof, results, exchange):
    tree = prof.profiler.kineto_results.experimental_event_tree()
    own = [event for event in events_in_operator(tree) if event[2] > 0 and event[1] not in results]
    peak = live = 0
    pointers = {}
    for _, pointer, size in sorted([*own, *freed(tree)]):
        if size > 0:
            pointers[pointer] = size
            live += size
        elif pointer in pointers:
            live -= pointers.pop(pointer)
        peak = max(peak, live)
    planned = exchange.buffer_bytes + exchange.kept_bytes
    return Allocations(peak, len(own), exchange.kept_bytes, planned)


def profile_layer(groups, exchange, tensors):
    """One forward and backward; the tensors are contiguous, so that the operator copies none."""
    *qkv, grad_out = tensors
    qkv = [tensor.detach().clone().requires_grad_() for tensor in qkv]
    call = (torch.from_numpy(exchange.program), groups.dispatch, groups.give_back, 0.25, exchange.kept_bytes)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as prof:
        out, lse, _ = torch.ops.equipoise.attention_forward(*qkv, *call)
        grads = torch.autograd.grad(out, qkv, grad_out)
    results = {tensor.data_ptr() for tensor in (out, lse, *grads)}
    return measure(prof, results, exchange)


def profile_cases(cases):
    """On a rank, for each case: the first layer after buffers were freed, and one more."""
    measured = []
    for case in cases:
        groups = eq.pool_groups(eq.Mesh(dp=case.dp, cp=case.cp), case.pool_size)
        for micro in case.micro_steps(groups.replica, groups.cp_rank):
            tensors = make_tensors(case, micro, groups.member)
            torch.ops.equipoise.release_buffers()
            measured.append([profile_layer(groups, micro.exchange(mask=0), tensors) for _ in range(2)])
    return measured
