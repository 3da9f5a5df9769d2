"""How long documents wait: the steps that train others, from the one in which a document arrives to its own.

Counted from what a step trains and leaves waiting, added up over a run, and said in words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from equipoise.sampler import Step


class Wait(NamedTuple):
    """Tokens of a document that waited together, or still do."""

    document: int
    tokens: int
    steps: int  # that trained others so far
    since: int = 0  # the step of the run in which it arrived, from 0


@dataclass(frozen=True)
class Delays:
    """What waited in the steps of a run so far."""

    by_delay: dict[int, int] = field(default_factory=dict)  # tokens trained, by the steps that they waited
    longest: Wait | None = None  # of all, trained or not; None: nothing ever waited
    held_documents: int = 0  # that wait after the last step
    held_tokens: int = 0
    oldest: Wait | None = None  # of these

    @property
    def tokens(self) -> int:
        return sum(self.by_delay.values())

    @property
    def delayed_tokens(self) -> int:
        return self.tokens - self.by_delay.get(0, 0)

    @property
    def mean_steps(self) -> float:
        """Over all tokens trained."""
        return sum(delay * tokens for delay, tokens in self.by_delay.items()) / max(1, self.tokens)


def count_delays(step: Step) -> dict[str, Any]:
    """What waited in one step, as JSON holds it. The documents named are those that waited longest, ties by id.

    by_delay: [delay, tokens] of what the step trains; longest: [document, tokens, delay] of these, None: none waited.
    held: number and tokens of the documents that wait after it; oldest: [document, tokens, steps] of these, or None.
    """
    trained = [(int(d), int(n), int(delay)) for (d, _, n), delay in zip(step.segments, step.delays, strict=True)]
    held = [(d, n, step.step + 1 - since) for d, _, n, since, _ in step.state_after["held"]]
    by_delay: dict[int, int] = {}
    for _, tokens, delay in trained:
        by_delay[delay] = by_delay.get(delay, 0) + tokens
    return {
        "by_delay": [list(pair) for pair in sorted(by_delay.items())],
        "longest": longest_wait([piece for piece in trained if piece[2] > 0]),
        "held": [len({document for document, _, _ in held}), sum(tokens for _, tokens, _ in held)],
        "oldest": longest_wait(held),
    }


def longest_wait(pieces: list[tuple[int, int, int]]) -> list[int] | None:
    """[document, tokens, steps] of (document, tokens, steps) of pieces; those of a document arrived together."""
    if not pieces:
        return None
    document, _, steps = max(pieces, key=lambda piece: (piece[2], -piece[0]))
    return [document, sum(tokens for other, tokens, _ in pieces if other == document), steps]


def add_step(delays: Delays, index: int, counts: dict[str, Any]) -> Delays:
    """With one step more, the run's step `index` from 0, of which `counts` are count_delays."""
    by_delay = dict(delays.by_delay)
    for delay, tokens in counts["by_delay"]:
        by_delay[delay] = by_delay.get(delay, 0) + tokens
    trained, oldest = (
        counts[name] and Wait(*counts[name], since=step - counts[name][2])
        for name, step in (("longest", index), ("oldest", index + 1))
    )
    waits = [wait for wait in (delays.longest, trained, oldest) if wait]
    longest = max(waits, key=lambda wait: wait.steps, default=None)
    return Delays(by_delay, longest, *counts["held"], oldest)


def sentences(delays: Delays) -> list[str]:
    """What waited, and what a run that ends here did not train; nothing where nothing waited."""
    if delays.longest is None:
        return []
    said = [
        f"{delays.delayed_tokens:,} of {delays.tokens:,} tokens trained were delayed "
        f"({delays.delayed_tokens / max(1, delays.tokens):.1%}), {delays.mean_steps:.2f} steps in the mean of all",
        f"longest wait: {say(delays.longest)}, {delays.longest.steps} steps",
    ]
    if delays.oldest:
        said.append(
            f"not trained: {delays.held_tokens:,} tokens of {delays.held_documents:,} documents held at the end, "
            f"the oldest {say(delays.oldest)}"
        )
    return said


def say(wait: Wait) -> str:
    return f"document {wait.document} ({wait.tokens:,} tokens) since step {wait.since}"
