"""The history: a line an epoch, cut back to what a checkpoint knows of, refused where it was altered."""

import pytest

from posterity.core.errors import CorruptFileError, PosterityError
from posterity.storage import History, in_short, read_history

RECORDS = [{"epoch": k, "nll": 1 / k, "note": "ü"} for k in (1, 2, 3)]


@pytest.fixture
def path(tmp_path):
    """The file of a history of three records."""
    history = History(tmp_path / "history.jsonl")
    for record in RECORDS:
        history.append(record)
    return history.path


def test_is_a_sequence_and_a_file_of_the_same(path):
    history = History(path)
    history.restore(3)
    assert list(history) == RECORDS == read_history(path)
    assert (len(history), history[0], history[-1], history[1:]) == (3, RECORDS[0], RECORDS[2], RECORDS[1:])
    assert path.read_text(encoding="utf-8").count("\n") == 3


def test_in_memory_there_is_no_file(tmp_path):
    history = History()
    history.append(RECORDS[0])
    history.flush()
    assert list(history) == RECORDS[:1]
    history.restore(0)
    assert list(history) == []
    assert repr(history) == "History(0 records)"


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("lost", [b"", b'{"epoch": 4}\n', b'{"epoch": 4}\n{"epo', b'{"epo'])
def test_goes_back_to_what_a_checkpoint_knows_of(path, count, lost):
    with path.open("ab") as file:
        file.write(lost)
    history = History(path)
    history.restore(count)
    assert list(history) == RECORDS[:count]
    history.append({"epoch": 9})
    assert read_history(path) == [*RECORDS[:count], {"epoch": 9}]


@pytest.mark.parametrize("content", [None, b"", b'{"epoch": 1}\n', b'{"epoch": 1}\n{"epoch": 2}'])
def test_fewer_lines_than_a_checkpoint_counts_on_are_refused(path, content):
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"but the checkpoint was written when it had 2: .*--overwrite"):
        History(path).restore(2)


@pytest.mark.parametrize("content", [b"x\ny\n", b"\xff\n\xff\n"])
def test_what_is_no_json_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match="not a history of JSON lines"):
        History(path).restore(2)


def test_writes_nothing_where_it_is_not_allowed_to(path):
    before = path.read_bytes()

    def refuse():
        raise PosterityError("no longer this run's")

    history = History(path, refuse)
    history.restore(3)
    with pytest.raises(PosterityError, match="no longer"):
        history.append({"epoch": 4})
    with pytest.raises(PosterityError, match="no longer"):
        history.restore(1)
    assert path.read_bytes() == before


def test_a_record_in_short_is_its_losses_and_scores():
    record = {"epoch": 3, "nll": 0.123456, "val_accuracy": 0.9876, "seconds": 2.0, "groups": {}, "temperature": 0.5}
    assert in_short(record) == "training: nll 0.1235  validation: accuracy 98.76%"
