"""Planning beside the step: while a step runs, a thread plans the next one, and only the next.

A thread lives for one plan. So a caller who stops early leaves nothing behind that would have to be ended, and between
plans a process forks as if there were no threads.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from threading import Thread
from typing import NamedTuple, TypeVar

T = TypeVar("T")
END = object()


class Planning(NamedTuple):
    """What planning one step cost, in seconds."""

    took_s: float  # on the planning thread
    waited_s: float  # that the caller waited for it: what no step hid


def planned_ahead(steps: Iterable[T]) -> Iterator[tuple[T, Planning]]:
    """The same steps in the same order, each with what planning it cost; the next is made while the caller has one.

    Nothing is made before the first step is asked for. What making a step raises is raised where that step is asked
    for. A caller who stops early has had one step made in vain.
    """
    source = iter(steps)
    began = time.perf_counter()
    upcoming = plan_next(source)
    while True:
        step, took_s = upcoming.result()
        waited_s = time.perf_counter() - began
        if step is END:
            return
        upcoming = plan_next(source)
        yield step, Planning(took_s, waited_s)
        began = time.perf_counter()


def plan_next(source: Iterator[T]) -> Future:
    """Of the step, or END, and the seconds that it took, from a thread that ends with it."""
    upcoming: Future = Future()

    def plan() -> None:
        began = time.perf_counter()
        try:
            step = next(source, END)
        except BaseException as error:  # the caller gets it
            upcoming.set_exception(error)
        else:
            upcoming.set_result((step, time.perf_counter() - began))

    # No daemon: the interpreter waits for a plan in progress before it ends, as the planner needs it to return.
    Thread(target=plan, name="equipoise planner").start()
    return upcoming
