"""The example of a service: a real process, real requests from several threads, and an end."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from sklearn.datasets import load_diabetes, load_iris

SERVICE = Path(__file__).parents[2] / "examples" / "service.py"
WARNINGS = ["-W", "error", "-W", "ignore:the standard deviations have not arrived"]  # 30 epochs are too few
IRIS, DIABETES = load_iris().data.tolist(), load_diabetes(scaled=False).data.tolist()


@contextmanager
def running(*options):
    """The service's process and its address, once it is there."""
    command = [sys.executable, *WARNINGS, str(SERVICE), "--epochs", "30", "--seconds", "60", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        line = process.stdout.readline()
        found = re.search(r"^(.+) at (http://127\.0\.0\.1:\d+)$", line)
        assert found, line + process.communicate(timeout=60)[1]
        yield process, found[2]
    finally:
        process.kill()
        process.communicate(timeout=60)


def ask(address, content, path="/predict"):
    """Status and content of the answer."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(address + path, data=body), timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


MALFORMED = {
    b"": "",
    b"rows": "",
    b"[1, 2]": "expected an object",
    b'{"rows": 3}': "expected an object",
    b'{"rows": []}': "no inputs",
    b'{"rows": [["a", "b", "c", "d"]]}': "numbers",
    b'{"rows": [[1, 2], [1, 2, 3, 4]]}': "regular array",
    b'{"rows": [[1, 2, 3]]}': "4 features",
    b'{"rows": [[1, 2, 3, 4], [1, 2, NaN, 4]]}': "row 1",
    b'{"rows": [[1, 2, 3, 1e400]]}': "row 0",
    b"[" * 100_000: "",
}


def test_classes_from_many_threads_and_malformed_requests():
    count = 80 + len(MALFORMED)
    with running("--task", "classification", "--requests", str(count)) as (process, address):
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(ask, address, {"rows": [IRIS[10 * (n % 15)]]}) for n in range(80)]
            wrong = {body: pool.submit(ask, address, body) for body in list(MALFORMED)[:-1]}
            answers = [each.result() for each in asked]
        assert all(status == 200 for status, _ in answers)
        assert all(answers[n][1] == answers[n % 15][1] for n in range(80))  # frozen draws: the same to the last digit
        first, last = answers[0][1], answers[14][1]
        assert first["classes"] == ["setosa", "versicolor", "virginica"]
        assert (first["name"], last["name"]) == (["setosa"], ["virginica"])
        assert sum(first["mean"][0]) == pytest.approx(1, abs=1e-5)
        assert first["epistemic"][0] >= 0
        for body, each in wrong.items():
            status, content = each.result()
            assert status == 400, body
            assert MALFORMED[body] in content["error"]
        with urllib.request.urlopen(f"{address}/health", timeout=60) as response:
            assert json.load(response)["serves"] == "32 frozen draws of a mean_field posterior (seed 0)"
        assert ask(address, {}, "/other")[0] == 404
        assert ask(address, list(MALFORMED)[-1])[0] == 400  # the last of those it was to answer
        assert process.wait(timeout=60) == 0
        assert process.stdout.read() == "ended\n"
        assert process.stderr.read() == ""


def test_numbers_a_file_and_a_signal(tmp_path):
    kept = ("--task", "regression", "--predictor", str(tmp_path / "predictor.safetensors"))
    rows = {"rows": [DIABETES[0], [value * 10 for value in DIABETES[0]]]}
    found = []
    for _ in range(2):  # trained and saved, then loaded
        with running(*kept) as (process, address):
            status, content = ask(address, rows)
            assert status == 200
            found.append(content)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 0
    assert found[0] == found[1]
    (near,), (far,) = found[0]["epistemic_sd"]
    assert 0 < near < far  # it knows where it has not been
    assert 20 < found[0]["mean"][0][0] < 350
    assert found[0]["sd"][0][0] > near
