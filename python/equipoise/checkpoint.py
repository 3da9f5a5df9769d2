"""Checkpoints: weights and optimizer by torch's distributed format, which another number of ranks can read, and
beside them where the run stood after the last finished step, as small integers.

A checkpoint appears under its name only when it is whole: it is written next to it and renamed.
"""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as torch_checkpoint
from torch.distributed.checkpoint import CheckpointException, FileSystemReader
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from equipoise.corpus import Corpus
from equipoise.faults import RunError, first_line
from equipoise.options import Options
from equipoise.steps import Trainer

VERSION = 1
POSITION = "position.json"


@dataclass(frozen=True)
class Position:
    """After the last finished step. `sampler` is the state_after of its plan; None at the start of an epoch."""

    steps: int = 0
    epoch: int = 0
    sampler: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        numbers = (self.steps, self.epoch)
        if not all(type(number) is int and 0 <= number < 2**62 for number in numbers):
            raise ValueError(f"steps and epoch are {numbers}")
        if not isinstance(self.sampler, dict | None):
            raise TypeError(f"the sampler's state is {self.sampler!r}")


def save(folder: Path, trainer: Trainer, position: Position, identity: dict[str, Any]) -> None:
    """All ranks call it. Makes folder/step-000012."""
    final = folder / f"step-{position.steps:06d}"
    partial = final.with_suffix(".partial")
    try:
        torch_checkpoint.save(state_of(trainer), checkpoint_id=partial)
    except CheckpointException as error:
        raise RunError(f"cannot be written, checkpoint {partial}: make room there ({reason(error)})") from error
    if dist.get_rank() == 0:
        record = {"format": "equipoise.checkpoint", "version": VERSION, **identity, "position": asdict(position)}
        (partial / POSITION).write_text(json.dumps(record) + "\n")
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
    dist.barrier()


def restore(folder: Path, trainer: Trainer) -> None:
    """All ranks call it with the same checkpoint: weights and optimizer as they were, bit for bit."""
    state = state_of(trainer)
    try:
        torch_checkpoint.load(state, checkpoint_id=folder)
    except CheckpointException as error:
        raise RunError(f"cannot be read, checkpoint {folder}: give another --resume ({reason(error)})") from error
    set_state_dict(
        trainer.model, trainer.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )


def reason(error: CheckpointException) -> str:
    """What the first rank that failed says; torch's own message is tracebacks."""
    return next((first_line(failure[0]) for failure in error.failures.values()), first_line(error))


def check_files(folder: Path) -> None:
    """Whether all files of weights are there, each as long as it was written. Errors: ValueError."""
    try:
        parts = FileSystemReader(folder).read_metadata().storage_data.values()
        for part in parts:
            path = folder / part.relative_path
            if path.stat().st_size < part.offset + part.length:
                raise ValueError(f"{path.name} is cut short")
    except Exception as error:  # a broken pickle raises anything
        raise ValueError(f"weights are missing, checkpoint {folder}: give another --resume ({error})") from error


def state_of(trainer: Trainer) -> dict[str, Any]:
    model, optimizer = get_state_dict(trainer.model, trainer.optimizer)
    return {"model": model, "optimizer": optimizer}


def identity(options: Options, corpus: Corpus) -> dict[str, Any]:
    """What a run must share with the checkpoint it goes on from."""
    return {
        "seed": options.seed,
        "model": options.model,
        "documents": len(corpus),
        "corpus": corpus.hash,
        "window": options.window,
    }


def find_checkpoint(folder: Path) -> Path:
    """The folder itself, or the last checkpoint in it. Errors: ValueError if there is none."""
    if (folder / POSITION).is_file():
        return folder
    found = sorted(path.parent for path in folder.glob(f"step-*[0-9]/{POSITION}"))
    if not found:
        raise ValueError(f"no checkpoint, --resume {folder}: give a folder with {POSITION}, or with step-... folders")
    return found[-1]


def read_position(checkpoint: Path, expected: dict[str, Any]) -> Position:
    """Errors: ValueError for a broken or newer record, and for one of another run."""
    path = checkpoint / POSITION
    try:
        record = json.loads(path.read_text())
        version, position = record["version"], Position(**record["position"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"not a checkpoint of this program, {path}: give another --resume ({error})") from error
    if version != VERSION:
        raise ValueError(f"version {version} where {VERSION} is read, {path}: use the equipoise that wrote it")
    for key, value in expected.items():
        if record.get(key) != value:
            raise ValueError(
                f"{key} is {record.get(key)} there and {value} here, {path}: resume with what it was saved with"
            )
    return position
