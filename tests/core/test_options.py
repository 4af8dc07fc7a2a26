"""Options by signature: names, defaults, kinds."""

from collections.abc import Callable, Sequence

import pytest

from posterity.core.errors import UnknownNameError, UsageError
from posterity.core.options import Option, check_options, options_of


def thing(
    given: object, *, size: int = 3, rate: float | None = None, needed: float, count=0, fast: bool = False,
    betas: tuple[float, float] = (0.9, 0.99), widths: Sequence[int] = (), scale: float | str | Callable = "kaiming",
    free=None, **rest: int,
) -> None: ...  # fmt: skip


TAKEN = options_of(thing, beside=("given",))


def test_names_defaults_and_kinds():
    assert options_of(thing, beside=("given",)) == {
        "size": Option(3, ("whole",)),
        "rate": Option(None, ("number",)),
        "needed": Option(None, ("number",)),
        "count": Option(0, ("number",)),
        "fast": Option(False, ("truth",)),
        "betas": Option((0.9, 0.99), ("numbers",)),
        "widths": Option((), ("numbers",)),
        "scale": Option("kaiming", ("word", "number")),
        "free": Option(None, ()),
    }


@pytest.mark.parametrize(
    "options",
    [
        {"size": 2}, {"rate": None}, {"rate": 1}, {"count": 0.5}, {"fast": True}, {"betas": [0, 1]}, {"widths": ()},
        {"scale": 0.1}, {"scale": "glorot"}, {"free": object()}, {},
    ],
)  # fmt: skip
def test_what_fits(options):
    check_options("the thing", options, TAKEN)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sise": 3}, r"unknown option of the thing 'sise'\. Did you mean 'size'"),
        ({"size": "3"}, "option size of the thing takes a whole number such as 3, not '3'"),
        ({"size": 2.5}, "takes a whole number such as 3, not 2.5"),
        ({"size": True}, "a whole number such as 3, not True"),
        ({"size": None}, "a whole number such as 3, not None"),
        ({"rate": "high"}, "takes a number, not 'high'"),
        ({"fast": 1}, "takes true or false, such as false, not 1"),
        ({"betas": 0.9}, "takes numbers such as 0.9:0.99, not 0.9"),
        ({"scale": [1]}, "takes a word or a number such as kaiming, not"),
    ],
)
def test_what_does_not(options, message):
    with pytest.raises(UsageError, match=message):
        check_options("the thing", options, TAKEN)


def test_nothing_to_give():
    with pytest.raises(UsageError, match="the thing takes no options, but was given size"):
        check_options("the thing", {"size": 1}, {})
    assert issubclass(UnknownNameError, UsageError)
