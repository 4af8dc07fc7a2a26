"""The way of one `posterity train` to its first step: which files are visited, and how often the way leads to another.

    python benchmarks/walk.py [--list]

A visit is a call of a function in a file of the library, after all imports; a hop is a visit to another file than that
of the last one. A reader who follows the calls turns as many pages.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import posterity
from posterity.cli.app import app

ROOT = str(Path(posterity.__file__).parent) + "/"
FIRST_STEP = "train_step"


class Arrived(BaseException):
    """The first step begins."""


def walk(arguments: list[str]) -> list[str]:
    """The files on the way, in order, each as often as the way leads into it from another."""
    way: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(ROOT):
            return
        if frame.f_code.co_name == FIRST_STEP:
            raise Arrived
        if not way or way[-1] != name.removeprefix(ROOT):
            way.append(name.removeprefix(ROOT))

    sys.setprofile(note)
    try:
        app(arguments)
    except Arrived:
        return way
    finally:
        sys.setprofile(None)
    raise RuntimeError("no step was taken")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the way itself")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        way = walk(["train", "--dataset", "digits", "--model", "lenet5", "--out", f"{folder}/run"])
    if args.list:
        print("\n".join(way))
    print(f"{len(way)} hops, {len(set(way))} files")


if __name__ == "__main__":
    main()
