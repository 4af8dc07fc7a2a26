"""Run by test_distributed.py: imports posterity once; torchrun's own agent then forks real processes from it.

A request is a line of JSON on stdin, its answer one on stdout:
    {"start": FUNCTION, "given": [...], "processes": N, "restarts": K, "errors": FILE}    the launch's id
    {"ask": id}                                                             its exit code, null while it lives

FUNCTION is one of those below, called in each of the N processes. The code is 0 if all of them ended well, else that
of the first that did not, as torchrun reports it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

import posterity as pt
from posterity.cli import main
from posterity.training import process_group

LIMIT = 100  # seconds until a launch ends by itself, whatever happens


class Trap(nn.Linear):
    """A linear map whose gradient, not its value, is infinite for rows that begin with 100."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, trapped = super().forward(x), x[:, :1] == 100
        return torch.where(trapped, (h - h.detach() + ~trapped).sqrt() + h.detach(), h)


def network(**options: Any) -> pt.BayesianModule:
    """A network for three inputs whose weights are the same in every process."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        extra = {"norm": nn.BatchNorm1d(6), "dropout": nn.Dropout(0.3)}
        added = [module for name, module in extra.items() if options.pop(name, False)]
        model = nn.Sequential(nn.Flatten(), Trap(3, 6), *added, nn.Tanh(), nn.Linear(6, options.pop("outputs", 2)))
        start = {} if options.get("posterior") == "point" else {"rho": -3.0}
        return pt.bayesian(model, **{"seed": 0, **start, **options})


def data(rows: int, *, regression: bool = False, images: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Some rows that a network can learn something from."""
    x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(1))
    y = x.sum(1, keepdim=True) * 3 if regression else (x[:, 0] + 0.5 * x[:, 1] > 0).long()
    return x.view(rows, 1, 1, 3) if images else x, y


def fit_case(case: dict[str, Any]) -> pt.FitResult:
    """The training that a case describes: 21 rows in batches of 10, so that the last has one."""
    given = {"epochs": 3, "batch_size": 10, **case.get("settings", {})}
    kind = {"regression": case["network"].get("outputs") == 1, "images": "augmentation" in given}
    x, y = data(case.get("rows", 21), **kind)
    if "trapped" in case:
        x[case["trapped"], 0] = 100
    return pt.fit(network(**case["network"]), (x, y), data(9, **kind) if "patience" in given else None, **given)


def outcome(result: pt.FitResult) -> dict[str, Any]:
    """What must agree between numbers of processes."""
    averaged = {} if result.averaged is None else dict(result.averaged.state_dict())
    return {
        "net": dict(result.net.state_dict()),
        "averaged": averaged,
        "history": [{k: v for k, v in record.items() if k != "seconds"} for record in result.history],
        "stopped": result.stopped,
        "ending": dict(result.ending),
    }


def cases(path: str, folder: str) -> None:
    """Trains each case of the file and stores what came of it, by rank; a refusal's words instead of a result."""
    found = {}
    with process_group() as ranks:
        assert ranks is not None
        for name, case in json.loads(Path(path).read_text()).items():
            try:
                found[name] = outcome(fit_case(case))
            except pt.PosterityError as error:
                found[name] = {"refused": str(error)}
        torch.save(found, Path(folder) / f"{ranks.size}-{ranks.rank}.pt")


def command(*arguments: str) -> None:
    """`posterity` with these arguments; its processes' ids are left beside the run."""
    folder = Path(arguments[arguments.index("--out") + 1])
    name = f"{folder.name}-{os.environ['TORCHELASTIC_RESTART_COUNT']}-{os.environ['RANK']}.pid"
    (folder.parent / name).write_text(str(os.getpid()))
    sys.argv = ["posterity", *arguments]
    main()


def bounded(name: str, *given: str) -> None:
    """In each of the processes: none outlives its time, also when the agent is gone."""
    signal.alarm(LIMIT)
    FUNCTIONS[name](*given)


FUNCTIONS: dict[str, Callable[..., None]] = {"cases": cases, "command": command}


def launch(request: dict[str, Any]) -> int:
    """In a process of its own, of which torchrun's agent is the main thread."""
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=request["processes"],
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        local_addr="127.0.0.1",
        run_id="test",
        max_restarts=request["restarts"],
        monitor_interval=0.05,
        start_method="fork",
    )
    try:
        elastic_launch(config, bounded)(request["start"], *request["given"])
    except ChildFailedError as error:
        return int(error.get_first_failure()[1].exitcode)
    return 0


def start(request: dict[str, Any]) -> int:
    identity = os.fork()
    if identity:
        return identity
    signal.alarm(LIMIT)
    file = os.open(request["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in (1, 2):
        os.dup2(file, number)
    code = 70
    try:
        code = launch(request)
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(code % 256)


if __name__ == "__main__":
    torch.optim.Adam([torch.zeros(1)])  # imports much on first use
    ended: dict[int, int] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "ask" in request:
            identity = request["ask"]
            if identity not in ended:
                done, status = os.waitpid(identity, os.WNOHANG)
                if done:
                    ended[identity] = os.waitstatus_to_exitcode(status)
            answer = ended.get(identity)
        else:
            answer = start(request)
        print(json.dumps(answer), flush=True)
