"""Text as documents of byte tokens: the vocabulary is 256 and nothing has to be downloaded.

A corpus is one long array of bytes and the places where documents begin, so that any token of any document is one
look-up on every replica: sequences move between replicas, and each loads what its plan tells it to.
"""

import hashlib
import re
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

VOCABULARY = 256

# A line that begins with one of these opens a new piece of a Python file.
PIECE = re.compile(rb"^(?=def |class |async def |@)", re.MULTILINE)
BLANK_LINES = re.compile(rb"\n(?:[ \t\r]*\n)+")


@dataclass(frozen=True)
class Corpus:
    """`text` uint8 [all tokens]; `begins` int64 [documents + 1]: document i is text[begins[i] : begins[i + 1]]."""

    text: np.ndarray
    begins: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each document, int64 [documents]."""
        return np.diff(self.begins)

    @property
    def hash(self) -> str:
        """Of the text and where documents begin: equal where the same tokens are trained on."""
        content = hashlib.blake2b(self.begins.astype("<i8").tobytes(), digest_size=8)
        content.update(np.ascontiguousarray(self.text))
        return content.hexdigest()

    def __len__(self) -> int:
        return len(self.begins) - 1

    def __getitem__(self, document: int) -> np.ndarray:
        """The tokens of one document, uint8 [length]."""
        return self.text[self.begins[document] : self.begins[document + 1]]


def look_up(corpus: Corpus, documents: np.ndarray, offsets: np.ndarray, missing: int) -> np.ndarray:
    """The token at each (document, offset), int64 [T]; `missing` where either is -1."""
    known = (documents >= 0) & (offsets >= 0)
    found = np.full(len(documents), missing, dtype=np.int64)
    found[known] = corpus.text[corpus.begins[documents[known]] + offsets[known]]
    return found


def standard_library() -> Corpus:
    """The `.py` files of the running interpreter's standard library in path order, cut before each line that begins
    with `def `, `class `, `async def ` or `@`; one piece is one document."""
    root = Path(sysconfig.get_path("stdlib"))
    files = [path for path in python_files(root) if not installed(path.relative_to(root))]
    if not files:
        raise ValueError(f"no .py file, standard library {root}: give a text with --corpus")
    return build_corpus(piece for path in files for piece in PIECE.split(read_file(path)) if piece)


def read_corpus(path: Path) -> Corpus:
    """A folder: each file is one document, in path order. A text file: paragraphs between blank lines.

    Errors: ValueError for what is missing, unreadable or without a document of two tokens."""
    if path.is_dir():
        files = sorted((file for file in path.rglob("*") if file.is_file()), key=lambda file: file.as_posix())
        corpus = build_corpus(read_file(file) for file in files)
    else:
        corpus = build_corpus(part for part in BLANK_LINES.split(read_file(path)) if part.strip())
    if not (corpus.lengths > 1).any():
        raise ValueError(f"no document of two bytes or more, corpus {path}: give a text to train on")
    return corpus


def build_corpus(documents: Iterable[bytes]) -> Corpus:
    parts = list(documents)
    begins = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=begins[1:])
    return Corpus(np.frombuffer(b"".join(parts), dtype=np.uint8), begins)


def python_files(root: Path) -> list[Path]:
    return sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).as_posix())


def installed(path: Path) -> bool:
    """Whether a file was installed beside the library and is no part of it."""
    return path.parts[0] in ("site-packages", "dist-packages")


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{error.strerror or error}, corpus {path}: give a folder or a text file to read") from error
