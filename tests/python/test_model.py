"""The model: rows are independent but for attention, positions count, and weights are the same on every rank."""

import torch
import torch.nn.functional as F

import equipoise as eq
from equipoise.model import Transformer, initialise, rotary_table, rotate

SHAPE = eq.ModelShape(name="tiny", layers=2, hidden=32, query_heads=4, kv_heads=2, head_size=8, ffn=48, vocabulary=50)


def dense(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """Causal attention within each document of a sequence whose rows are in order."""
    parts = []
    for part in zip(*(x.split(lengths) for x in (q, k, v)), strict=True):
        heads_first = [x.transpose(0, 1)[None] for x in part]
        out = F.scaled_dot_product_attention(*heads_first, is_causal=True, enable_gqa=True)
        parts.append(out[0].transpose(0, 1))
    return torch.cat(parts)


def make_model(seed: int = 0) -> Transformer:
    model = Transformer(SHAPE, dense)
    initialise(model, seed)
    return model


def test_a_document_gives_the_same_logits_alone_and_packed_with_others() -> None:
    model, tokens = make_model(), torch.randint(0, 50, (12,))
    positions = torch.cat([torch.arange(5), torch.arange(7)])
    packed = model(tokens, positions, [5, 7])
    alone = model(tokens[5:], torch.arange(7), [7])
    torch.testing.assert_close(packed[5:], alone)


def test_positions_and_not_the_order_of_rows_turn_queries_and_keys() -> None:
    x, order = torch.randn(6, 4, 8), torch.tensor([3, 0, 5, 1, 2, 4])
    turned = rotate(x, rotary_table(torch.arange(6), 8, x.dtype))
    shuffled = rotate(x[order], rotary_table(order, 8, x.dtype))
    torch.testing.assert_close(shuffled, turned[order])


def test_scores_depend_on_the_distance_of_positions_only() -> None:
    q, k = torch.randn(2, 1, 8, dtype=torch.float64)

    def score(at: int) -> torch.Tensor:
        table = rotary_table(torch.tensor([at, at + 3]), 8, torch.float64)
        first, second = rotate(torch.stack([q, k]), table)
        return (first * second).sum()

    # Angles are made in fp32.
    torch.testing.assert_close(score(0), score(1000), rtol=1e-3, atol=1e-3)
    assert not torch.allclose(score(0), (q * k).sum(), rtol=1e-3)


def test_the_seed_alone_decides_the_first_weights() -> None:
    torch.manual_seed(1)
    first = make_model(seed=7).state_dict()
    torch.manual_seed(2)
    again, other = make_model(seed=7).state_dict(), make_model(seed=8).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["embedding.weight"], other["embedding.weight"])


def test_a_rank_without_rows_gives_no_logits_and_gradients_of_zero() -> None:
    model = make_model()
    none = torch.zeros(0, dtype=torch.int64)
    logits = model(none, none, [0])
    assert logits.shape == (0, 50)
    logits.sum().backward()
    assert all(weight.grad is not None and not weight.grad.any() for weight in model.parameters())
