"""Starts ranks of the trainer as processes of their own, without torchrun: a test can do to each what it likes."""

import os
import socket
import subprocess
import sys
from pathlib import Path

# A model that trains in no time; documents come from a text file that the test writes.
TINY = ["--model", "layers=2,hidden=32,query_heads=4,kv_heads=2,head_size=8,ffn=48", "--window", "256"]

WORDS = (
    "to",
    "be",
    "or",
    "not",
    "that",
    "is",
    "the",
    "question",
    "whether",
    "nobler",
    "in",
    "mind",
    "suffer",
    "slings",
)


def write_corpus(path: Path, paragraphs: int = 400) -> Path:
    """Documents of 10 to some 700 bytes, the longest over the window of TINY."""
    texts = []
    for n in range(paragraphs):
        count = 3 + (n * 7919) % 60 * (1 + n % 3)
        texts.append(" ".join(WORDS[(n * n + i) % len(WORDS)] for i in range(count)))
    path.write_text("\n\n".join(texts))
    return path


def start(ranks: int, arguments: list[str], by_rank: dict[int, list[str]] | None = None) -> list[subprocess.Popen]:
    """`by_rank` are arguments that one rank has beside those of all."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = []
    for rank in range(ranks):
        where = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        command = [sys.executable, "-m", "equipoise.train", *arguments, *(by_rank or {}).get(rank, [])]
        processes.append(
            subprocess.Popen(
                command,
                env={**os.environ, "OMP_NUM_THREADS": "1", **where},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return processes


def finish(processes: list[subprocess.Popen], timeout: float = 120) -> list[tuple[int, str, str]]:
    """(exit code, stdout, stderr) of each; none is left running."""
    try:
        return [(process.wait(timeout), *process.communicate()) for process in processes]
    finally:
        for process in processes:
            process.kill()
