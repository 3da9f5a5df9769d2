"""From the rows of a plan to tensors: `DataLoader(PackedDataset(documents), batch_sampler=sampler, num_workers=4)`.

A data set of documents must be random access on every replica, because plans move sequences between replicas. Each
batch is one optimizer step of this rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset
from torch.utils.data._utils.collate import default_collate_fn_map

if TYPE_CHECKING:
    from equipoise.micro_step import MicroStep
    from equipoise.sampler import Step


class PackedMicroBatch(NamedTuple):
    """Rows of one micro-step, int64 [T] each, in the order of the plan."""

    tokens: torch.Tensor  # 0 in padding rows
    labels: torch.Tensor  # the next token, or the ignored index
    positions: torch.Tensor  # in the segment


class PackedStep:
    """One optimizer step of this rank: the plan, and a batch for each of its micro-steps."""

    def __init__(self, plan: Step, micro_batches: list[PackedMicroBatch]) -> None:
        self.plan = plan
        self.micro_batches = micro_batches

    def pin_memory(self) -> PackedStep:
        pinned = [PackedMicroBatch(*(rows.pin_memory() for rows in batch)) for batch in self.micro_batches]
        return PackedStep(self.plan, pinned)


# A step is one batch already: the loader's default collation passes it on.
default_collate_fn_map[PackedStep] = lambda batch, *, collate_fn_map=None: batch[0]


class PackedDataset(Dataset):
    """dataset[id] gives the tokens of a document: a tensor, an array or a list of whole numbers, as long as planned.

    Errors: ValueError for a document that is missing, is no such thing, or is not as long as planned.
    """

    def __init__(self, dataset: Any, ignore_index: int = -100) -> None:
        self.dataset = dataset
        self.ignore_index = ignore_index

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, step: Step) -> PackedStep:
        return PackedStep(step, [self._load(micro) for micro in step.micro_steps])

    def __getitems__(self, step: Step) -> list[PackedStep]:
        return [self[step]]

    def _load(self, micro: MicroStep) -> PackedMicroBatch:
        tokens = np.zeros(micro.rows, np.int64)
        labels = np.full(micro.rows, self.ignore_index, np.int64)
        # Rows of one document together, so that each document is read once.
        order = np.argsort(micro.documents[: micro.owned_rows], kind="stable")
        documents, firsts = np.unique(micro.documents[order], return_index=True)
        for document, rows in zip(documents, np.split(order, firsts)[1:], strict=True):
            text = self._read(int(document), micro.lengths[int(document)])
            tokens[rows] = text[micro.tokens[rows]]
            with_target = rows[micro.label_tokens[rows] >= 0]
            labels[with_target] = text[micro.label_tokens[with_target]]
        return PackedMicroBatch(
            torch.from_numpy(tokens), torch.from_numpy(labels), torch.from_numpy(micro.positions.copy())
        )

    def _read(self, document: int, planned: int) -> np.ndarray:
        try:
            given = self.dataset[document]
            text = np.asarray(given)
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(
                f"document {document} cannot be read ({type(error).__name__}: {error}), PackedDataset: "
                "give a data set that holds the tokens of every planned document"
            ) from error
        if text.ndim != 1 or (text.size and text.dtype.kind not in "iu"):
            raise ValueError(
                f"document {document} is {type(given).__name__} of shape {text.shape} and type {text.dtype}, "
                "PackedDataset: give its tokens as a list, array or tensor of whole numbers"
            )
        if len(text) != planned:
            raise ValueError(
                f"document {document} has {len(text)} tokens where {planned} are planned, PackedDataset: "
                "give the sampler the lengths of this data set"
            )
        if text.dtype.kind == "u" and text.max() > np.iinfo(np.int64).max:
            raise ValueError(f"document {document} has token {text.max()}, PackedDataset: give tokens that fit int64")
        return text
