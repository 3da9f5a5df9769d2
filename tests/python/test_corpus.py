"""What is a document, and that every token of every document can be looked up."""

import sysconfig
from pathlib import Path

import numpy as np
import pytest

from equipoise.corpus import build_corpus, look_up, read_corpus, standard_library


def documents(corpus) -> list[bytes]:
    return [corpus[index].tobytes() for index in range(len(corpus))]


def test_a_folder_is_one_document_per_file_in_path_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "1.txt").write_bytes(b"first of b")
    (tmp_path / "a.txt").write_bytes(b"of a")
    (tmp_path / "c.txt").write_bytes(b"")
    assert documents(read_corpus(tmp_path)) == [b"of a", b"first of b", b""]


def test_a_text_file_is_one_document_per_paragraph(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"one\nstill one\n\n  \ntwo\n\n\n\nthree\n")
    assert documents(read_corpus(path)) == [b"one\nstill one", b"two", b"three\n"]


def test_the_standard_library_is_cut_before_definitions_and_loses_no_byte() -> None:
    corpus = standard_library()
    root = Path(sysconfig.get_path("stdlib"))
    whole = b"".join(
        path.read_bytes()
        for path in sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).as_posix())
        if path.relative_to(root).parts[0] not in ("site-packages", "dist-packages")
    )
    assert corpus.text.tobytes() == whole
    starts = {corpus[index].tobytes()[:6] for index in range(1, len(corpus))}
    assert b"class " in starts
    inside = [piece for piece in documents(corpus)[:500] if b"\ndef " in piece or b"\nclass " in piece]
    assert inside == []


def test_a_heavy_tail_is_what_the_standard_library_gives() -> None:
    lengths = standard_library().lengths
    assert 1_000 < lengths.mean() < 4_000
    assert lengths.max() > 100 * lengths.mean()


def test_tokens_are_looked_up_by_document_and_offset() -> None:
    corpus = build_corpus([b"abc", b"", b"de"])
    found = look_up(corpus, np.array([2, 0, 0, -1]), np.array([1, 0, -1, 0]), missing=-7)
    assert found.tolist() == [ord("e"), ord("a"), -7, -7]
    assert found.dtype == np.int64


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda path: None, "No such file or directory"),
        (lambda path: path.write_bytes(b""), "no document of two bytes or more"),
        (lambda path: path.write_bytes(b"a\n\n\nb"), "no document of two bytes or more"),
        (lambda path: path.mkdir(), "no document of two bytes or more"),
    ],
)
def test_what_cannot_be_trained_on_is_refused_with_a_remedy(tmp_path: Path, make, what: str) -> None:
    path = tmp_path / "corpus"
    make(path)
    with pytest.raises(ValueError, match=rf"^{what}, corpus {path}: give "):
        read_corpus(path)


def test_texts_of_equal_lengths_have_other_hashes() -> None:
    texts = [[b"ab", b"cd"], [b"ab", b"ce"], [b"abc", b"d"]]
    assert len({build_corpus(text).hash for text in texts}) == 3
    assert build_corpus(texts[0]).hash == build_corpus(texts[0]).hash
