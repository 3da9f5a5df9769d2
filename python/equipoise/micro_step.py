"""One micro-step of one rank: its rows, and what its attention exchanges.

Rows and programs are known at once; what they are compared with and drawings are made when they are asked for, and
before pickling.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from equipoise import _core
from equipoise.arguments import integer


class Place(NamedTuple):
    """Where a rank stands."""

    replica: int
    cp_rank: int
    cp: int


class MicroExchange(NamedTuple):
    """What the attention operator of one member reads."""

    program: np.ndarray  # int64 words
    rounds: int  # the same on all members; 1: nothing travels
    sent_bytes: int  # forward, one layer
    received_bytes: int
    buffer_bytes: int = 0  # memory of its buffers in one layer and pass, given up after it, in the type planned for
    kept_bytes: int = 0  # of received rows that a forward keeps for its backward, one layer


class MicroStep:
    """Rows of this rank in the order of its tensors, padding last.

    documents, tokens, positions, label_tokens: int64 [T]: the document of each row, which of its tokens to load, its
    position in the segment, and the token of the document that is its target, or -1. Padding rows have document -1,
    token 0, position 0 and label -1.
    items: (document, begin, length) to load, in the order of the rows. lengths: tokens of each document of
    the sequence. cu_seqlens: int32, borders of the segments of the whole sequence, for attention without the operator.
    owned_rows: T without padding.
    """

    def __init__(
        self, core: _core.PlanInputs, corpus: _core.Corpus, place: Place, bucket: _core.BucketPlan, step: int
    ) -> None:
        replica_in_pool = place.replica % core.pool
        segments = np.array(bucket.sequences[replica_in_pool], np.int64).reshape(-1, 3)
        pieces, self.owned_rows, padding = _core.member_rows(core, bucket, replica_in_pool, place.cp_rank)
        self.rows: int = self.owned_rows + padding
        self.cu_seqlens = np.concatenate([[0], np.cumsum(segments[:, 2])]).astype(np.int32)
        self.lengths = {int(d): corpus.length(int(d)) for d in segments[:, 0]}
        extents = [_core.admitted_tokens(corpus, core, int(document)) for document in segments[:, 0]]
        self._fill_rows(segments, pieces, np.array(extents, np.int64))
        self._made: dict[Any, Any] = {}
        self._source: tuple[Any, ...] | None = (core, bucket, replica_in_pool, place, step)
        for mask in range(len(core.masks)):
            self.exchange(mask)

    def _fill_rows(self, segments: np.ndarray, pieces: np.ndarray, extents: np.ndarray) -> None:
        segment, begin, length = pieces.T
        first = segments[segment, 1] + begin  # token of the document
        self.items = [(int(d), int(b), int(n)) for d, b, n in zip(segments[segment, 0], first, length, strict=True)]
        # Row i of a piece is i tokens after the piece's first.
        steps = np.arange(self.owned_rows) - np.repeat(np.cumsum(length) - length, length)
        tokens = np.repeat(first, length) + steps
        labels = np.where(tokens + 1 < np.repeat(extents[segment], length), tokens + 1, -1)
        self.documents = self._padded(np.repeat(segments[segment, 0], length), -1)
        self.tokens = self._padded(tokens, 0)
        self.positions = self._padded(np.repeat(begin, length) + steps, 0)
        self.label_tokens = self._padded(labels, -1)

    def _padded(self, values: np.ndarray, filler: int) -> np.ndarray:
        rows = np.full(self.rows, filler, np.int64)
        rows[: self.owned_rows] = values
        return rows

    def exchange(self, mask: int = 0) -> MicroExchange:
        """What PooledAttention reads for the layers of this mask."""
        return self._get("exchange", integer("mask", mask))

    def loads(self, mask: int = 0) -> list[dict[str, Any]]:
        """Predicted load of each pool member in one layer: attention_ns, linear_ns, exchange_ns (forward, backward),
        pairs, sent_bytes and received_bytes (forward)."""
        return self._get("loads", integer("mask", mask))

    def home_loads(self, mask: int = 0) -> list[dict[str, Any]]:
        """The same if every tile had stayed with the owner of its rows."""
        return self._get("home_loads", integer("mask", mask))

    def time_ns(self) -> int:
        """Predicted time of this replica's micro-step through the whole model, forward and backward, waiting for the
        other replicas of its pool included."""
        return self._get("time_ns", None)

    def drawing(self) -> dict[str, Any]:
        """sequences: segments [document, begin, length] by replica in pool; tiles: [mask, replica, segment, q_begin,
        q_length, head_begin, heads, member, round]."""
        return self._get("drawing", None)

    def _get(self, what: str, mask: int | None) -> Any:
        if (what, mask) not in self._made:
            self._made[what, mask] = self._make(what, mask)
        return self._made[what, mask]

    def _make(self, what: str, mask: int | None) -> Any:
        if self._source is None:
            raise IndexError(f"there is no mask {mask}, {what} of a micro-step: give the index of a mask of the inputs")
        inputs, bucket, replica, place, step = self._source
        if mask is not None and not 0 <= mask < len(inputs.masks):
            raise IndexError(f"there is no mask {mask}, {what} of a micro-step: the inputs have {len(inputs.masks)}")
        match what:
            case "exchange":
                member = replica * place.cp + place.cp_rank
                load = self.loads(mask)[member]
                program, *memory = _core.rank_program(inputs, bucket, mask, member, step)
                return MicroExchange(program, bucket.rounds(mask), load["sent_bytes"], load["received_bytes"], *memory)
            case "loads":
                return [as_dict(load) for load in _core.member_loads(inputs, bucket, mask)]
            case "time_ns":
                return _core.replica_times(inputs, bucket)[replica]
            case "home_loads":
                return [as_dict(load) for load in _core.member_loads(inputs, _core.stay_home(inputs, bucket), mask)]
        tiles = [[m, *tile] for m in range(len(inputs.masks)) for tile in bucket.tiles(m)]
        return {"sequences": bucket.sequences, "tiles": tiles}

    def __getstate__(self) -> dict[str, Any]:
        """Everything as plain values: the plan itself stays in the process that made it."""
        if self._source is not None:
            self.drawing(), self.time_ns()
            for mask in range(len(self._source[0].masks)):
                self.exchange(mask), self.loads(mask), self.home_loads(mask)
        return self.__dict__ | {"_source": None}


def as_dict(load: _core.MemberLoad) -> dict[str, Any]:
    return {
        "attention_ns": load.attention_ns,
        "linear_ns": load.linear_ns,
        "exchange_ns": load.exchange_ns,
        "pairs": load.pairs,
        "sent_bytes": load.sent_bytes,
        "received_bytes": load.received_bytes,
    }
