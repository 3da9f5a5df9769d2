"""What pooled attention on one GPU costs beside one plain call of torch's variable-length flash attention.

Protocol: bf16, 32 query and 8 KV heads of 128, causal. A sample is one forward and backward of one layer over the
documents of one sequence, timed with CUDA events; both are measured in turn, in one run, the first turns are not
counted, and ratios of medians are printed. The pool has one rank, so nothing travels: the difference is what the
operator adds by itself (checks, planning of calls, copies of results). Needs a CUDA GPU, and says so where there is
none.

Usage: attention_cuda.py [--turns N]
"""

import argparse
import statistics
import tempfile

import torch
import torch.distributed as dist

import equipoise as eq

QUERY, KV, SIZE = 32, 8, 128
DOCUMENTS = {
    "one of 65536": [65536],
    "512 of 128": [128] * 512,
    "heavy tail": [32768, 8192, 8192, 4096, 4096, 2048, 2048, 1024, 1024, 512, 512, 256, 256] + [128] * 4,
}


def pooled(lengths, tensors, attention):
    model = eq.ModelShape("bench", 1, QUERY * SIZE, QUERY, KV, SIZE, 4 * QUERY * SIZE, 1, 256)
    inputs = eq.PlanInputs(mesh=eq.Mesh(), pool=1, window=sum(lengths), model=model, strategy="plain")
    [micro] = next(iter(eq.StepSampler(lengths, inputs, replica=0, cp_rank=0, shuffle=False))).micro_steps
    (*qkv, grad_out), exchange = tensors, micro.exchange(mask=0)
    return lambda: torch.autograd.grad(attention(*qkv, exchange), qkv, grad_out)


def plain(lengths, tensors, _attention):
    cu = torch.tensor([0, *torch.tensor(lengths).cumsum(0)], dtype=torch.int32, device="cuda")
    q, k, v, grad_out = (tensor.detach() for tensor in tensors)
    call = cu, cu, max(lengths), max(lengths), 0.0, True

    def run():
        out, lse, state, unused, _ = torch.ops.aten._flash_attention_forward(q, k, v, *call, False, scale=SIZE**-0.5)
        torch.ops.aten._flash_attention_backward(grad_out, q, k, v, out, lse, *call, state, unused, scale=SIZE**-0.5)

    return run


def milliseconds(run):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def measure(lengths, turns):
    """Medians in milliseconds: of the operator, of the plain call."""
    attention = eq.PooledAttention(eq.pool_groups(eq.Mesh(), pool=1))
    torch.manual_seed(0)
    tensors = [
        torch.randn(sum(lengths), heads, SIZE, device="cuda", dtype=torch.bfloat16) for heads in (QUERY, KV, KV, QUERY)
    ]
    for tensor in tensors[:3]:
        tensor.requires_grad_()
    runs = [make(lengths, tensors, attention) for make in (pooled, plain)]
    samples = [[milliseconds(run) for run in runs] for _ in range(turns + 3)][3:]
    return [statistics.median(values) for values in zip(*samples, strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=20, help="counted turns")
    turns = parser.parse_args().turns
    if not torch.cuda.is_available():
        print(f"not measured, this machine has no CUDA GPU: forward and backward of {', '.join(DOCUMENTS)} tokens,")
        print("the operator over one plain variable-length call")
        return
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("nccl", store=dist.FileStore(f"{folder}/store", 1), rank=0, world_size=1)
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
        print(f"{'documents':<16}{'plain ms':>10}{'operator':>10}")
        for name, lengths in DOCUMENTS.items():
            ours, theirs = measure(lengths, turns)
            print(f"{name:<16}{theirs:>10.2f}{ours / theirs:>10.3f}")
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
