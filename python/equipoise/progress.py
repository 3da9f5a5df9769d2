"""One line on how training goes: rewritten in place on a terminal, a line every few seconds in a pipe."""

import sys
import time

BAR = 24
PIPE_SECONDS = 5.0


class Progress:
    def __init__(self, total: int | None) -> None:
        self.total = total
        self.shown = -PIPE_SECONDS

    def show(self, done: int, text: str) -> None:
        line = f"{self.bar(done)} {text}"
        if sys.stdout.isatty():
            print(f"\r\033[K{line}", end="", flush=True)
        elif time.monotonic() - self.shown >= PIPE_SECONDS or done == self.total:
            print(line, flush=True)
            self.shown = time.monotonic()

    def bar(self, done: int) -> str:
        if self.total is None:
            return f"step {done}"
        filled = BAR * done // max(1, self.total)
        return f"[{'=' * filled}{' ' * (BAR - filled)}] {done}/{self.total}"

    def close(self) -> None:
        if sys.stdout.isatty():
            print()
