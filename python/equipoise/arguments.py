"""Values that a caller gives: each as the type that it must have, or a ValueError in the form `what, where: remedy`."""

from __future__ import annotations

from operator import index
from typing import Any


def integer(name: str, value: Any) -> int:
    """The value as an int of 64 bits. Raises ValueError naming the field."""
    try:
        number = index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or not -(2**63) <= number < 2**63:
        raise ValueError(f"{name} {value!r} is not an integer of 64 bits, field {name}: give a whole number")
    return number


def integers(name: str, values: Any) -> list[int]:
    """Any sequence of integers, an array too. Raises ValueError naming the field."""
    return [integer(name, value) for value in items(name, values, "whole numbers")]


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} {value!r} is not True or False, field {name}: give one of them")
    return value


def items(name: str, values: Any, what: str) -> list[Any]:
    try:
        if not isinstance(values, str | bytes | dict):
            return list(values)
    except TypeError:  # no sequence
        pass
    raise ValueError(f"{name} {values!r} is no sequence, field {name}: give a list of {what}")


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} {value!r} is not a text, field {name}: give a name or a path")
    return value
