"""How a rank ends when it cannot go on: one line in the project's form, and never a hang.

A mistake of the caller is found before the first collective and ends with exit code 2. After that only the
communicator may fail: the line names this rank, the step, the collective and the peers, and the process ends at once,
without waiting for threads of a broken process group, so that the others fail in turn.
"""

import os
import re
import sys
import traceback
from dataclasses import dataclass, field
from types import TracebackType
from typing import NoReturn

# What Gloo and the store say when a peer is gone or silent.
LOST_PEER = ("peer", "timed out", "timeout", "connection", "socket", "broken pipe", "refused", "recv", "send")

WRONG_USE = 2
FAILED = 1


class RunError(Exception):
    """What all ranks find alike and cannot go on from, in the project's form."""


@dataclass
class Place:
    """Where this rank is in the run; the training loop keeps it up to date."""

    rank: int = 0
    peers: list[int] = field(default_factory=list)
    doing: str = "the start"  # "step 3"


def end(message: str, code: int) -> NoReturn:
    """Prints the message and ends the process, whatever its other threads wait for."""
    sys.stdout.flush()
    print(f"equipoise: error: {message}", file=sys.stderr, flush=True)
    os._exit(code)


def end_after(error: BaseException, place: Place) -> NoReturn:
    """Ends a rank whose step failed. A fault that is not the communicator's is ours and shows where it came from."""
    if " of attention " in str(error) and isinstance(error, RuntimeError):
        end(first_line(error), FAILED)  # the operator's own message knows more than a traceback
    collective = failed_collective(error.__traceback__)
    if collective is None or not any(word in str(error).lower() for word in LOST_PEER):
        traceback.print_exception(error)
        end(f"{type(error).__name__}: {first_line(error)}, rank {place.rank} in {place.doing}: report this", FAILED)
    peers = f"rank {place.peers[0]}" if len(place.peers) == 1 else f"one of the ranks {listed(place.peers)}"
    end(
        f"rank {place.rank} lost {peers} in {collective}, {place.doing}: look for the rank that ended first, "
        f"then --resume ({short_reason(error)})",
        FAILED,
    )


def failed_collective(where: TracebackType | None) -> str | None:
    """The name of the collective that raised: the innermost frame of torch.distributed."""
    found = None
    while where is not None:
        code = where.tb_frame.f_code
        path = code.co_filename.replace(os.sep, "/")
        if path.endswith("torch/distributed/distributed_c10d.py"):
            found = code.co_name
        elif "/torch/distributed/fsdp/" in path:
            found = f"FSDP's {code.co_name}"
        where = where.tb_next
    return found


def short_reason(error: BaseException) -> str:
    """The communicator's first sentence, without the places in its own sources."""
    told = first_line(error).split("Exception raised from")[0]
    return re.sub(r"^\[\S+:\d+\] ", "", told).split(". ")[0].strip()


def first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def listed(ranks: list[int]) -> str:
    return ", ".join(str(rank) for rank in ranks)
