"""What the environment says of the ranks is checked before they meet."""

import pytest

from equipoise.options import make_parser, parse_options
from equipoise.ranks import read_world

TWO = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}


def set_environment(monkeypatch: pytest.MonkeyPatch, changes: dict[str, str | None]) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    for name, value in (TWO | changes).items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)


def test_two_ranks_and_one_alone_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    set_environment(monkeypatch, {})
    assert (read_world(parse_options([])).rank, read_world(parse_options([])).dp) == (1, 2)
    set_environment(monkeypatch, dict.fromkeys(TWO))
    assert read_world(parse_options([])).size == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MASTER_PORT", None),
        ("MASTER_PORT", "http"),
        ("MASTER_PORT", "65536"),
        ("MASTER_ADDR", None),
        ("RANK", "2"),
        ("RANK", "-1"),
        ("WORLD_SIZE", "two"),
    ],
)
def test_a_wrong_environment_names_the_variable(monkeypatch: pytest.MonkeyPatch, name: str, value: str | None) -> None:
    set_environment(monkeypatch, {name: value})
    with pytest.raises(ValueError, match=rf"^\S.*, environment variables? {name}\b.*: .+$"):
        read_world(parse_options([]))


def test_help_shows_defaults_as_they_are_written() -> None:
    shown = make_parser().format_help()
    assert "None" not in shown
    assert "{" not in shown.replace("{fp32,bf16}", "")
    assert "default: dp=0,cp=1" in shown
