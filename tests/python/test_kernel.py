"""The local kernel wrapper: whole documents at home, by cumulative lengths, masks aligned bottom right."""

import pytest
import torch

from dense import dense_attention, error, visible, with_gradients
from equipoise import attention

local_forward = torch.ops.equipoise.local_attention_forward


def cumulative(lengths):
    return torch.tensor([0, *torch.tensor(lengths, dtype=torch.int64).cumsum(0).tolist()], dtype=torch.int64)


def all_seen(cu_q, cu_k, mask, window):
    """[Tq, Tk] over all documents."""
    seen = torch.zeros(int(cu_q[-1]), int(cu_k[-1]), dtype=torch.bool)
    for i in range(len(cu_q) - 1):
        rows, keys = cu_q[i + 1] - cu_q[i], cu_k[i + 1] - cu_k[i]
        part = visible(mask, window, torch.arange(rows) + keys - rows, torch.arange(keys))
        seen[cu_q[i] : cu_q[i + 1], cu_k[i] : cu_k[i + 1]] = part
    return seen


def run(tensors, cu_q, cu_k, mask, window):
    *qkv, grad_out = tensors
    scale = qkv[0].shape[-1] ** -0.5
    return with_gradients(lambda q, k, v: local_forward(q, k, v, cu_q, cu_k, mask, window, scale)[0], *qkv, grad_out)


def random_tensors(rows, keys, heads, size, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(rows, heads[0], size), (keys, heads[1], size), (keys, heads[1], size), (rows, heads[0], size)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


MASKS = [("causal", 0), ("full", 0), ("sliding_window", 1), ("sliding_window", 37), ("sliding_window", 400)]
CASES = {  # query rows, keys of each document
    "square": ([1, 5, 300, 129, 0, 64], [1, 5, 300, 129, 0, 64]),
    "fewer rows than keys": ([3, 0, 200, 64, 70], [300, 20, 520, 65, 410]),
    "fewer keys than rows": ([300, 20, 70], [3, 0, 64]),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("mask", "window"), MASKS)
def test_equals_dense_attention_in_float64(case, mask, window):
    cu_q, cu_k = map(cumulative, CASES[case])
    tensors = random_tensors(int(cu_q[-1]), int(cu_k[-1]), (6, 2), 24)
    seen = all_seen(cu_q, cu_k, mask, window)
    exact = with_gradients(lambda q, k, v: dense_attention(q, k, v, seen)[0], *tensors)
    for result, expected in zip(run(tensors, cu_q, cu_k, mask, window), exact, strict=True):
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-10)
    out, lse = local_forward(*tensors[:3], cu_q, cu_k, mask, window, 24**-0.5)
    torch.testing.assert_close(lse, dense_attention(*tensors[:3], seen)[1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("mask", "window"), [("causal", 0), ("sliding_window", 100)])
def test_a_document_cut_into_row_blocks_is_as_exact_as_one_call(dtype, mask, window):
    """Row blocks against all their keys make other calls than a whole document."""
    length = 700
    tensors = [tensor.to(dtype) for tensor in random_tensors(length, length, (4, 2), 32)]
    one = cumulative([length])
    exact = with_gradients(
        lambda q, k, v: dense_attention(q, k, v, all_seen(one, one, mask, window))[0],
        *[tensor.double() for tensor in tensors],
    )
    whole = run(tensors, one, one, mask, window)
    q, k, v, grad_out = tensors
    out, dq = torch.empty_like(q), torch.empty_like(q)
    dk, dv = (torch.zeros(k.shape) for _ in range(2))
    for begin, end in [(0, 200), (200, 650), (650, 700)]:
        block = [q[begin:end], k[:end], v[:end], grad_out[begin:end]]
        out[begin:end], dq[begin:end], part_dk, part_dv = run(
            block, cumulative([end - begin]), cumulative([end]), mask, window
        )
        dk[:end] += part_dk
        dv[:end] += part_dv
    for cut, at_once, expected in zip((out, dq, dk, dv), whole, exact, strict=True):
        assert error(cut, expected) <= 2 * error(at_once, expected)


def test_strided_views_are_taken_as_they_are():
    cu = cumulative([50, 100])
    packed = torch.randn(150, 8 * 16, dtype=torch.float64)
    q, k, v = packed[:, :64].view(150, 4, 16), packed[:, 64:96].view(150, 2, 16), packed[:, 96:].view(150, 2, 16)
    strided = local_forward(q, k, v, cu, cu, "causal", 0, 0.25)[0]
    assert torch.equal(strided, local_forward(*(x.contiguous() for x in (q, k, v)), cu, cu, "causal", 0, 0.25)[0])


@pytest.mark.parametrize("mask", ["full", "causal"])
def test_A2_documents_without_query_rows_leave_zero_gradients(mask):
    cu_q = torch.tensor([0, 0, 1208, 2048, 2048])
    cu_k = torch.tensor([0, 2538, 4280, 5120, 8192])
    tensors = [tensor.float() for tensor in random_tensors(2048, 8192, (4, 1), 16)]
    out, dq, dk, dv = run(tensors, cu_q, cu_k, mask, 0)
    assert not any(tensor.isnan().any() for tensor in (out, dq, dk, dv))
    for gradient in (dk, dv):
        assert torch.equal(gradient[:2538], torch.zeros(2538, 1, 16))
        assert torch.equal(gradient[5120:], torch.zeros(3072, 1, 16))
        assert gradient[2538:5120].abs().amax(-1).min() > 0
    seen = all_seen(cu_q, cu_k, mask, 0)
    exact = with_gradients(lambda q, k, v: dense_attention(q, k, v, seen)[0], *[tensor.double() for tensor in tensors])
    for result, expected in zip((out, dq, dk, dv), exact, strict=True):
        torch.testing.assert_close(result.double(), expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("mask", ["full", "causal"])
def test_A3_rows_without_a_key_get_nothing_and_give_nothing(mask):
    cu_q, cu_k = torch.tensor([0, 150, 150, 300]), torch.tensor([0, 100, 200, 300])
    tensors = random_tensors(300, 300, (4, 2), 16)
    out, dq, dk, dv = run(tensors, cu_q, cu_k, mask, 0)
    assert not any(tensor.isnan().any() for tensor in (out, dq, dk, dv))
    assert not dk[100:200].any()
    assert not dv[100:200].any()
    assert dk[:100].abs().amax((1, 2)).min() > 0
    lse = local_forward(*tensors[:3], cu_q, cu_k, mask, 0, 0.25)[1]
    blind = [*range(50), *range(150, 200)] if mask == "causal" else []
    assert lse.isneginf().all(-1).nonzero().flatten().tolist() == blind
    assert not out[blind].any()
    assert not dq[blind].any()


def test_gradients_pass_the_numerical_check():
    cu_q, cu_k = cumulative([4, 3]), cumulative([3, 5])
    *qkv, _ = random_tensors(7, 8, (2, 1), 3)
    inputs = [tensor.requires_grad_() for tensor in qkv]
    assert torch.autograd.gradcheck(lambda q, k, v: local_forward(q, k, v, cu_q, cu_k, "causal", 0, 0.5)[0], inputs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mask": "prefix"}, "'prefix' is no mask"),
        ({"mask": "sliding_window"}, "window 0"),
        ({"q": torch.zeros(7, 3, 8)}, "3 query heads are no multiple of 2 KV heads"),
        ({"q": torch.zeros(7, 32)}, r"q has shape \[7, 32\]"),
        ({"q": torch.zeros(7, 4, 8, dtype=torch.float16)}, "q is Half"),
        ({"k": torch.zeros(7, 2, 8, dtype=torch.float64)}, "k is Double on cpu where q is Float on cpu"),
        ({"v": torch.zeros(7, 2, 4)}, r"v has shape \[7, 2, 4\] where k has \[7, 2, 8\]"),
        ({"cu_q": torch.tensor([0, 5, 4, 7])}, "cu_q does not rise from 0 to 7"),
        ({"cu_k": torch.tensor([0, 6])}, "cu_k does not rise from 0 to 7"),
        ({"cu_k": torch.tensor([0, 3, 5, 7])}, "cu_q and cu_k have 3 and 4 entries"),
        ({"cu_k": torch.tensor([0.0, 7.0])}, "cu_k is Float"),
    ],
)
def test_wrong_arguments_are_value_errors_with_a_remedy(change, message):
    arguments = {
        "q": torch.zeros(7, 4, 8),
        "k": torch.zeros(7, 2, 8),
        "v": torch.zeros(7, 2, 8),
        "cu_q": torch.tensor([0, 3, 7]),
        "cu_k": torch.tensor([0, 3, 7]),
        "mask": "causal",
        "window": 0,
        "scale": 1.0,
    }
    with pytest.raises(ValueError, match=f"{message}.*, local_attention.*: give"):
        local_forward(**(arguments | change))


def test_meta_kernels_and_autograd_agree_with_the_kernels():
    cu = cumulative([5, 9])
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        q, k, v, _ = (tensor.to(dtype) for tensor in random_tensors(14, 14, (4, 2), 8))
        inputs = [tensor.requires_grad_() for tensor in (q, k, v)]
        torch.library.opcheck(local_forward, (*inputs, cu, cu, "causal", 0, 0.3))


def test_the_operator_of_another_torch_is_refused(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libequipoise_torch.so").touch()
    (tmp_path / "_torch_build.txt").write_text("1.0.0\n")
    remedy = "with this torch installed run `pip install"
    with pytest.raises(ImportError, match=rf"built for torch 1\.0\.0 and this is .*, .*: {remedy}"):
        attention.load_operator(tmp_path)
    with pytest.raises(ImportError, match=f"the torch operator is not built, .*: {remedy}"):
        attention.load_operator(tmp_path / "nowhere")
