"""Downloads against a real server on this machine, with and without ranges, breaking off at will."""

from __future__ import annotations

import http.server
import re
import threading

import pytest

from posterity.core.errors import FetchError
from posterity.data import download as module
from posterity.data.download import download
from posterity.data.progress import Reporter

CONTENT = bytes(range(256)) * 4000
QUIET = Reporter(False)


class Server(http.server.ThreadingHTTPServer):
    """Serves CONTENT; `stops` are the numbers of bytes after which the next answers break off."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.ranges, self.tell_length, self.wrong_range = True, True, False
        self.stops, self.asked = [], []
        self.status = 200

    def handle_error(self, request, client_address):
        """A client that hangs up is what these tests are about."""

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/data.bin"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        asked = self.headers.get("Range")
        server.asked.append(asked)
        start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked and server.ranges else 0
        if server.status != 200:
            return self.send_error(server.status)
        if start >= len(CONTENT):
            return self.send_error(416)
        self.send_response(206 if asked and server.ranges else 200)
        if server.tell_length:
            self.send_header("Content-Length", str(len(CONTENT) - start))
        if asked and server.ranges:
            first = start + 1 if server.wrong_range else start
            self.send_header("Content-Range", f"bytes {first}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.end_headers()
        length = server.stops.pop(0) if server.stops else len(CONTENT)
        self.wfile.write(CONTENT[start : start + length])
        self.close_connection = True
        return None

    def log_message(self, *args):
        pass


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def server():
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_a_file_arrives_whole_and_is_not_fetched_twice(server, tmp_path):
    target = tmp_path / "new" / "data.bin"
    assert download(server.url, target, QUIET).read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["data.bin"]
    download(server.url, target, QUIET)
    assert server.asked == [None]


def test_what_broke_off_is_resumed_where_it_stopped(server, tmp_path):
    server.stops = [300_000, 400_000]
    assert download(server.url, tmp_path / "data.bin", QUIET).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-", "bytes=700000-"]


def test_a_server_without_ranges_starts_again(server, tmp_path):
    server.ranges, server.stops = False, [300_000]
    assert download(server.url, tmp_path / "data.bin", QUIET).read_bytes() == CONTENT


def test_a_later_fetch_resumes_what_an_earlier_one_left(server, tmp_path):
    server.stops = [100_000] * 4
    with pytest.raises(FetchError, match="broke off 4 times; the next fetch goes on at 400000 bytes"):
        download(server.url, tmp_path / "data.bin", QUIET)
    assert [path.name for path in tmp_path.iterdir()] == ["data.bin.part"]
    assert download(server.url, tmp_path / "data.bin", QUIET).read_bytes() == CONTENT
    assert server.asked[-1] == "bytes=400000-"


@pytest.mark.parametrize("extra", [0, 10])
def test_a_part_as_long_as_the_file_or_longer_is_dropped(server, tmp_path, extra):
    (tmp_path / "data.bin.part").write_bytes(bytes(len(CONTENT) + extra))
    assert download(server.url, tmp_path / "data.bin", QUIET).read_bytes() == CONTENT


def test_a_longer_part_is_cut_by_a_server_without_ranges(server, tmp_path):
    server.ranges = False
    (tmp_path / "data.bin.part").write_bytes(bytes(len(CONTENT) + 10))
    assert download(server.url, tmp_path / "data.bin", QUIET).read_bytes() == CONTENT


def test_a_server_that_does_not_tell_the_length(server, tmp_path):
    server.tell_length = False
    assert download(server.url, tmp_path / "data.bin", QUIET).read_bytes() == CONTENT


def test_an_answer_with_another_range_is_refused_and_not_resumed(server, tmp_path):
    server.wrong_range = True
    part = tmp_path / "data.bin.part"
    part.write_bytes(CONTENT[:10])
    with pytest.raises(FetchError, match="asked for bytes from 10, got 'bytes 11-"):
        download(server.url, tmp_path / "data.bin", QUIET)
    assert not part.exists()


def test_an_error_of_the_server_is_told(server, tmp_path):
    server.status = 404
    with pytest.raises(FetchError, match=r"data\.bin answered 404"):
        download(server.url, tmp_path / "data.bin", QUIET)
    assert len(server.asked) == 1


def test_a_closed_network_is_told(tmp_path):
    with pytest.raises(FetchError, match=r"http://127\.0\.0\.1:9/x: .*refused"):
        download("http://127.0.0.1:9/x", tmp_path / "x", QUIET)


def test_a_server_that_falls_silent_does_not_hold_us(server, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_TIMEOUT", 0.05)
    release = threading.Event()
    monkeypatch.setattr(Handler, "do_GET", lambda handler: release.wait(10))
    try:
        with pytest.raises(FetchError):
            download(server.url, tmp_path / "data.bin", QUIET)
    finally:
        release.set()


def test_progress_is_plain_lines_on_stderr(server, tmp_path, capfd):
    download(server.url, tmp_path / "data.bin", Reporter())
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "downloading data.bin (1.0 MB)\n"


def test_progress_is_a_bar_on_a_terminal(server, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    download(server.url, tmp_path / "data.bin", Reporter())
    out, err = capfd.readouterr()
    assert out == ""
    assert "data.bin" in err
    assert "1.0/1.0 MB" in err
