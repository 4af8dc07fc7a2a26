"""Run by test_faults_kill.py: imports posterity once, then runs its command line in forked processes, which are real.

A request is a line of JSON on stdin, its answer one on stdout:
    {"start": [arguments], "printed": "FILE", "errors": "FILE"}    the process's id
    {"ask": id}                                                    its exit code (-n by signal n), null while it lives
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import sklearn.datasets  # noqa: F401
import torch

from posterity.cli import main


def start(arguments: list[str], printed: str, errors: str) -> int:
    identity = os.fork()
    if identity:
        return identity
    for number, name in ((1, printed), (2, errors)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv = ["posterity", *arguments]
    code: Any = 70
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def ask(identity: int, ended: dict[int, int]) -> int | None:
    if identity not in ended:
        found, status = os.waitpid(identity, os.WNOHANG)
        if found:
            ended[identity] = os.waitstatus_to_exitcode(status)
    return ended.get(identity)


if __name__ == "__main__":
    torch.optim.Adam([torch.zeros(1)])  # imports much on first use
    codes: dict[int, int] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "ask" in request:
            answer = ask(request["ask"], codes)
        else:
            answer = start(request["start"], request["printed"], request["errors"])
        print(json.dumps(answer), flush=True)
