"""A small HTTP service that answers with its uncertainty: the standard library, a predictor, a thread a request.

POST /predict with JSON {"rows": [[...], ...]}: for each row the mean, its standard deviation and how much of it is
about the weights (epistemic), in the targets' own units; or probabilities and epistemic uncertainty in nats.
What cannot be predicted is answered with 400 and the reason. GET /health says what is served.

    python examples/service.py --task regression --requests 2

It listens on this machine only, prints where, and ends after --requests answers, after --seconds, or on SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import signal
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from sklearn.datasets import load_diabetes, load_iris
from torch import nn

import posterity as pt

LARGEST = 2**20  # bytes of a request that are read


def module(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


def trained(task: str, epochs: int | None) -> pt.Predictor:
    """A network for raw data, with all that a service needs to know inside."""
    data = load_iris() if task == "classification" else load_diabetes(scaled=False)
    labels = list(data.target_names) if task == "classification" else None
    whole = pt.Dataset.from_arrays(data.data, data.target, name=task)
    known = pt.Standardisation.of(whole)
    net = pt.bayesian(module(data.data.shape[1], len(labels) if labels else 1), seed=0)
    pt.fit(net, known.apply(whole), epochs=epochs, seed=0, progress=False)
    return net.predictor(32, seed=0, standardisation=known, labels=labels)


def answer(predictor: pt.Predictor, body: bytes) -> dict[str, Any]:
    """The prediction for a request's body; a ValueError says what is wrong with it."""
    asked = json.loads(body)
    if not isinstance(asked, dict) or not isinstance(asked.get("rows"), list):
        raise ValueError('expected an object {"rows": [[...], ...]}')
    found = predictor(asked["rows"]).to_dict()
    wanted = ("name", "mean", "sd", "epistemic_sd") if "sd" in found else ("name", "mean", "epistemic", "classes")
    return {name: found[name] for name in wanted if name in found}


class Service(ThreadingHTTPServer):
    """Serves one predictor until `limit` predictions were asked for."""

    daemon_threads = False  # an answer that was begun is sent

    def __init__(self, predictor: pt.Predictor, port: int, limit: int | None) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.predictor, self._left, self._lock = predictor, limit, threading.Lock()

    def count(self) -> None:
        with self._lock:
            if self._left is not None:
                self._left -= 1
                if self._left == 0:
                    self.end()

    def end(self, *_: int | FrameType | None) -> None:
        # `shutdown` waits for the loop, which may be the caller's own.
        threading.Thread(target=self.shutdown).start()


class Handler(BaseHTTPRequestHandler):
    server: Service
    timeout = 30  # seconds that a silent client is waited for

    def do_GET(self) -> None:
        if self.path != "/health":
            self.reply(404, {"error": f"there is no {self.path}; POST /predict or GET /health"})
        else:
            self.reply(200, {"serves": self.server.predictor.what, "posterity": pt.__version__})

    def do_POST(self) -> None:
        if self.path != "/predict":
            self.reply(404, {"error": f"there is no {self.path}; POST /predict or GET /health"})
            return
        try:
            self.reply(200, answer(self.server.predictor, self.body()))
        except (ValueError, RecursionError) as error:  # posterity's refusals and JSON's are ValueErrors
            self.reply(400, {"error": str(error)})
        finally:
            self.server.count()

    def body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > LARGEST:
            raise ValueError(f"a Content-Length of at most {LARGEST} bytes is needed, not '{length}'")
        return self.rfile.read(int(length))

    def reply(self, status: int, content: dict[str, Any]) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing for each request."""


def until(seconds: float, end: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    return timer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=["regression", "classification"], default="classification")
    parser.add_argument("--predictor", type=Path, help="where it is kept: loaded from there, or trained and saved")
    parser.add_argument("--epochs", type=int, help="of the training; by rule if not given")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--requests", type=int, help="predictions after which it ends")
    parser.add_argument("--seconds", type=float, default=600, help="after which it ends")
    args = parser.parse_args()
    torch.set_num_threads(1)  # requests are answered beside each other
    if args.predictor is not None and args.predictor.exists():
        inputs, outputs = (4, 3) if args.task == "classification" else (10, 1)
        predictor = pt.load_predictor(args.predictor, module(inputs, outputs))
    else:
        predictor = trained(args.task, args.epochs)
        if args.predictor is not None:
            pt.save_predictor(predictor, args.predictor)
    with Service(predictor, args.port, args.requests) as service:
        signal.signal(signal.SIGTERM, service.end)
        timer = until(args.seconds, service.end)
        print(f"{predictor.what} at http://127.0.0.1:{service.server_port}", flush=True)
        service.serve_forever(poll_interval=0.1)
        timer.cancel()
    print("ended", flush=True)


if __name__ == "__main__":
    main()
