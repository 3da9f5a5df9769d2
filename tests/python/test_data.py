"""A DataLoader over a PackedDataset gives this rank's rows as tensors, whatever the number of workers."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import equipoise as eq

TINY = eq.ModelShape("tiny", layers=1, hidden=64, query_heads=4, kv_heads=2, head_size=16, ffn=128, vocabulary=100)
LENGTHS = [int(n) for n in np.random.default_rng(2).integers(0, 90, 60)] + [200]


class Documents:
    """Token t of document d is 1000 d + t; each way of holding tokens is used."""

    def __len__(self) -> int:
        return len(LENGTHS)

    def __getitem__(self, document: int):
        tokens = [1000 * document + token for token in range(LENGTHS[document])]
        return (list, np.array, torch.tensor)[document % 3](tokens)


def sampler_of(replica: int = 0) -> eq.StepSampler:
    inputs = eq.PlanInputs(mesh=eq.Mesh(dp=2, cp=2), window=64, micro_steps=2, model=TINY, align=4)
    return eq.StepSampler(LENGTHS, inputs, replica=replica, cp_rank=1, seed=3)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_rows_are_the_tokens_and_labels_that_the_plan_names(workers: int) -> None:
    loader = DataLoader(PackedDocuments(), batch_sampler=sampler_of(), num_workers=workers)
    steps = list(sampler_of())
    batches = list(loader)
    assert len(batches) == len(steps) > 3
    for step, batch in zip(steps, batches, strict=True):
        assert batch.plan.hash == step.hash
        assert batch.plan.state_after == step.state_after
        for micro, rows in zip(step.micro_steps, batch.micro_batches, strict=True):
            real = micro.documents >= 0
            expected = np.where(real, 1000 * micro.documents + micro.tokens, 0)
            assert rows.tokens.tolist() == expected.tolist()
            labels = np.where(micro.label_tokens >= 0, 1000 * micro.documents + micro.label_tokens, -100)
            assert rows.labels.tolist() == labels.tolist()
            assert rows.positions.tolist() == micro.positions.tolist()
            assert rows.tokens.dtype == rows.labels.dtype == rows.positions.dtype == torch.int64


def PackedDocuments(**arguments) -> torch.utils.data.Dataset:
    return eq.PackedDataset(Documents(), **arguments)


def test_labels_are_the_tokens_that_follow() -> None:
    for batch in DataLoader(PackedDocuments(ignore_index=-1), batch_sampler=sampler_of(replica=1)):
        for rows in batch.micro_batches:
            with_target = rows.labels != -1
            assert torch.equal(rows.labels[with_target], rows.tokens[with_target] + 1)


def test_a_batch_from_a_worker_still_has_its_programs() -> None:
    [first, *_] = DataLoader(PackedDocuments(), batch_sampler=sampler_of(), num_workers=1)
    here = next(iter(sampler_of()))
    for micro, same in zip(first.plan.micro_steps, here.micro_steps, strict=True):
        assert np.array_equal(micro.exchange().program, same.exchange().program)


def test_each_document_is_read_once_for_a_micro_step() -> None:
    reads = []

    class Counted(Documents):
        def __getitem__(self, document: int):
            reads.append(document)
            return super().__getitem__(document)

    step = next(iter(sampler_of()))
    eq.PackedDataset(Counted())[step]
    for micro in step.micro_steps:
        assert len(micro.items) >= len(set(micro.documents[micro.documents >= 0].tolist()))
    assert len(reads) == sum(len(set(m.documents[m.documents >= 0].tolist())) for m in step.micro_steps)


class Corrupt(Documents):
    """Every document goes through a change."""

    def __init__(self, change) -> None:
        self.change = change

    def __getitem__(self, document: int):
        return self.change(list(super().__getitem__(document)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tokens: tokens[:-1], r"has \d+ tokens where \d+ are planned, PackedDataset: give the sampler "),
        (lambda tokens: [*tokens, 1], r"has \d+ tokens where \d+ are planned, PackedDataset: give the sampler "),
        (lambda tokens: [1.7 for _ in tokens], "is list of shape .* and type float64, PackedDataset: give its tokens "),
        (lambda tokens: np.full(len(tokens), np.nan), "is ndarray of shape .* and type float64, PackedDataset: "),
        (lambda tokens: np.full(len(tokens), 2**63 + 5, np.uint64), "has token 9223372036854775813, PackedDataset: "),
        (lambda tokens: [2**70 for _ in tokens], "is list of shape .* and type object, PackedDataset: "),
        (lambda tokens: "a" * len(tokens), "is str of shape .*, PackedDataset: "),
        (lambda tokens: b"a" * len(tokens), "is bytes of shape .*, PackedDataset: "),
        (lambda tokens: {"tokens": 1}, "is dict of shape .*, PackedDataset: "),
        (lambda tokens: None, "is NoneType of shape .*, PackedDataset: "),
        (lambda tokens: 7, "is int of shape .*, PackedDataset: "),
        (lambda tokens: np.ones((len(tokens), 2), int), r"is ndarray of shape \(\d+, 2\) .*, PackedDataset: "),
        (lambda tokens: [[1], [1, 2]], "cannot be read .*, PackedDataset: give a data set "),
    ],
)
def test_documents_that_are_no_tokens_or_not_as_long_as_planned_are_named(change, message: str) -> None:
    with pytest.raises(ValueError, match=r"^document \d+ " + message):
        list(DataLoader(eq.PackedDataset(Corrupt(change)), batch_sampler=sampler_of()))


def test_a_data_set_with_too_few_documents_is_refused() -> None:
    dataset = eq.PackedDataset([[1]][:0])
    with pytest.raises(
        ValueError, match=r"^document \d+ cannot be read \(IndexError: .*\), PackedDataset: give a data "
    ):
        list(DataLoader(dataset, batch_sampler=sampler_of()))
