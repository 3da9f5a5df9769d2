"""Attention written down densely in float64: what the operator is compared with."""

import torch


def visible(mask: str, window: int, rows: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """[rows, keys]: whether a row at one position of a segment sees a key at another."""
    distance = rows[:, None] - keys[None, :]
    if mask == "full":
        return torch.ones_like(distance, dtype=torch.bool)
    return (distance >= 0) & (distance < window if mask == "sliding_window" else True)


def dense_attention(q, k, v, seen, scale=None):
    """q [T, Hq, D], k and v [K, Hkv, D], seen [T, K] -> out [T, Hq, D] and lse [T, Hq].

    Rows that see no key get 0 and -inf.
    """
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    group = q.shape[1] // k.shape[1]
    scores = torch.einsum("thd,shd->hts", q, k.repeat_interleave(group, 1)) * scale
    scores = scores.masked_fill(~seen, -torch.inf)
    lse = torch.logsumexp(scores, -1)
    weights = torch.exp(scores - lse.masked_fill(lse.isinf(), 0.0)[..., None])
    return torch.einsum("hts,shd->thd", weights, v.repeat_interleave(group, 1)), lse.T


def with_gradients(attend, q, k, v, grad_out):
    """(out, dq, dk, dv) of attend(q, k, v) -> out, in the type of the inputs."""
    q, k, v = (tensor.detach().clone().requires_grad_() for tensor in (q, k, v))
    out = attend(q, k, v)
    return out.detach(), *torch.autograd.grad(out, (q, k, v), grad_out)


def error(result: torch.Tensor, exact: torch.Tensor) -> float:
    """Root of the mean square of the difference."""
    difference = result.double() - exact.double()
    return float(difference.square().mean().sqrt()) if difference.numel() else 0.0
