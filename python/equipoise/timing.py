"""Time inside attention, forward and backward. The forward is a call; the backward is a node of the autograd graph,
timed by what runs before and after it. Two clocks: the wall, which also sees a rank wait for others inside an
exchange, and the thread's own time, which is its share of the work.
"""

import time
from dataclasses import dataclass
from typing import Any

from torch import Tensor


def imbalance(loads: list[float]) -> float:
    """The heaviest over the mean."""
    return max(loads) * len(loads) / sum(loads) if sum(loads) else 1.0


@dataclass(frozen=True)
class Moment:
    wall_ns: int
    thread_ns: int

    @classmethod
    def now(cls) -> "Moment":
        return cls(time.perf_counter_ns(), time.thread_time_ns())

    @property
    def seconds(self) -> tuple[float, float]:
        return self.wall_ns / 1e9, self.thread_ns / 1e9

    def __add__(self, other: "Moment") -> "Moment":
        return Moment(self.wall_ns + other.wall_ns, self.thread_ns + other.thread_ns)

    def __sub__(self, other: "Moment") -> "Moment":
        return Moment(self.wall_ns - other.wall_ns, self.thread_ns - other.thread_ns)


class TimedAttention:
    """Calls `attend` and adds up what its forward and its backward take until `take` asks for the sum."""

    def __init__(self, attend: Any) -> None:
        self.attend = attend
        self.spent = Moment(0, 0)
        self.began = Moment(0, 0)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, exchange: Any) -> Tensor:
        self.start()
        out = self.attend(q, k, v, exchange)
        self.stop()
        if out.grad_fn is not None:
            out.grad_fn.register_prehook(self.start)
            out.grad_fn.register_hook(self.stop)
        return out

    def take(self) -> Moment:
        spent, self.spent = self.spent, Moment(0, 0)
        return spent

    def start(self, *_: Any) -> None:
        self.began = Moment.now()

    def stop(self, *_: Any) -> None:
        self.spent = self.spent + (Moment.now() - self.began)
