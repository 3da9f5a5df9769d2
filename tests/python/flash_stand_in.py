"""A dense stand-in on the CPU for torch's variable-length flash attention, which only exists on CUDA.

It has the rules of the kernel: sequences one after another by cumulative lengths, masks aligned bottom right,
log-sum-exp [H, rows] float, results in the type of the inputs. And it refuses what we promise not to pass. With it the
operator's implementation for CUDA runs on CPU tensors: that checks layout and rules, not CUDA.
"""

from types import SimpleNamespace

import torch

from dense import visible

CUDA = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
calls = []  # arguments of the forward, by name
_library = None


def install():
    """Registers the stand-in in this process, once."""
    global _library
    if _library is not None:
        return
    _library = torch.library.Library("aten", "IMPL")
    for name, function in (("_flash_attention_forward", _forward), ("_flash_attention_backward", _backward)):
        schema = getattr(torch.ops.aten, name).default._schema
        _library.impl(name, lambda *a, s=schema, f=function, **options: f(_by_name(s, a, options)), "CPU")


def on_cuda(name, *arguments):
    """Calls the implementation for CUDA of one of our ops."""
    return getattr(torch.ops.equipoise, name).default.redispatch(CUDA, *arguments)


def _by_name(schema, arguments, options):
    """torch leaves arguments out that equal their defaults."""
    defaults = {argument.name: argument.default_value for argument in schema.arguments}
    given = dict(zip(defaults, arguments, strict=False))
    return SimpleNamespace(**(defaults | given | options))


def _check(a):
    q, k, v = a.query, a.key, a.value
    assert q.dtype == k.dtype == v.dtype
    assert q.dtype in (torch.float16, torch.bfloat16)
    assert q.shape[-1] % 8 == 0
    assert all(tensor.stride(-1) == 1 for tensor in (q, k, v))
    assert k.shape == v.shape
    assert q.shape[1] % k.shape[1] == 0
    assert a.dropout_p == 0.0
    assert len(a.cum_seq_q) == len(a.cum_seq_k) >= 2
    for cumulative, tensor, longest in ((a.cum_seq_q, q, a.max_q), (a.cum_seq_k, k, a.max_k)):
        assert cumulative.dtype == torch.int32
        assert cumulative.is_contiguous()
        assert cumulative[0] == 0
        assert cumulative[-1] == len(tensor)
        assert cumulative.diff().min() > 0
        assert cumulative.diff().max() == longest
    for unused in ("seqused_k", "alibi_slopes", "block_table", "num_splits"):
        assert getattr(a, unused, None) is None


def _mask(a):
    if a.window_size_left is None:
        assert a.window_size_right is None
        return "causal" if a.is_causal else "full", 0
    assert a.window_size_left >= 0
    assert a.window_size_right == 0
    assert not a.is_causal
    return "sliding_window", a.window_size_left + 1


def _sequences(a):
    """(rows, keys, scores [H, rows, keys], k by query heads, v by query heads) of each, after a check of everything."""
    _check(a)
    group = a.query.shape[1] // a.key.shape[1]
    for i in range(len(a.cum_seq_q) - 1):
        rows, keys = slice(a.cum_seq_q[i], a.cum_seq_q[i + 1]), slice(a.cum_seq_k[i], a.cum_seq_k[i + 1])
        row_count, key_count = len(a.query[rows]), len(a.key[keys])
        seen = visible(*_mask(a), torch.arange(row_count) + key_count - row_count, torch.arange(key_count))
        assert seen.any(1).all(), "a row without keys"
        assert seen.any(0).all(), "a key without rows"
        k, v = (tensor[keys].double().repeat_interleave(group, 1) for tensor in (a.key, a.value))
        scores = torch.einsum("thd,shd->hts", a.query[rows].double(), k) * a.scale
        yield rows, keys, scores.masked_fill(~seen, -torch.inf), k, v


def _forward(a):
    assert not a.return_debug_mask
    calls.append(a)
    out, lse = torch.empty(a.query.shape, dtype=a.query.dtype), torch.empty(a.query.shape[1], len(a.query))
    for rows, _, scores, _, v in _sequences(a):
        out[rows] = torch.einsum("hts,shd->thd", scores.softmax(-1), v).to(out.dtype)
        lse[:, rows] = scores.logsumexp(-1).float()
    nothing = torch.empty(0)
    return out, lse, nothing, nothing, nothing


def _backward(a):
    """Exact partial gradients by the given out and log-sum-exp of whole rows."""
    assert a.logsumexp.shape == (a.query.shape[1], len(a.query))
    assert a.logsumexp.dtype == torch.float32
    assert a.logsumexp.is_contiguous()
    assert a.grad_out.shape == a.out.shape == a.query.shape
    results = [torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in (a.query, a.key, a.value)]
    group = a.query.shape[1] // a.key.shape[1]
    for rows, keys, scores, k, v in _sequences(a):
        weights = torch.exp(scores - a.logsumexp[:, rows, None].double())
        given = a.grad_out[rows].double()
        delta = (given * a.out[rows].double()).sum(-1).T[..., None]
        of_scores = weights * (torch.einsum("thd,shd->hts", given, v) - delta) * a.scale
        dk, dv = (
            torch.einsum("hts,thd->shd", weight, by).unflatten(1, (-1, group)).sum(2)
            for weight, by in ((of_scores, a.query[rows].double()), (weights, given))
        )
        dq = torch.einsum("hts,shd->thd", of_scores, k)
        for result, part, place in zip(results, (dq, dk, dv), (rows, keys, keys), strict=True):
            result[place] = part.to(result.dtype)
    return tuple(results)
