"""Temperature rules in training: what each step uses, what the history says, what is refused."""

from __future__ import annotations

import json

import pytest

import posterity as pt
from posterity.core.errors import UsageError


class Watch(pt.Callback):
    """The temperature of every step."""

    def __init__(self):
        self.seen = []

    def on_step(self, training, loss):
        self.seen.append(loss.temperature)


def test_every_step_has_its_own_temperature(make_net, small):
    watch, net = Watch(), make_net()
    rule = pt.warm_up(pt.per_weight(0.5), epochs=2)
    history = pt.fit(net, small, epochs=3, batch_size=16, temperature=rule, callbacks=[watch]).history
    full = 0.5 * 60 / net.num_weights
    assert watch.seen == pytest.approx([full * min(step / 8, 1) for step in range(12)])  # 4 steps an epoch
    # In the record: the value in force in the epoch's last step, in the loss, too.
    assert [r["temperature"] for r in history] == pytest.approx([full * 3 / 8, full * 7 / 8, full])
    for record in history:
        assert record["loss"] == pytest.approx(record["nll"] + record["temperature"] * record["kl"] / 60)


def test_a_rule_is_its_number(make_net, small):
    ruled, plain = make_net(), make_net()
    value = 0.5 * 60 / plain.num_weights
    a = pt.fit(ruled, small, epochs=2, temperature=pt.per_weight(0.5)).history
    b = pt.fit(plain, small, epochs=2, temperature=value).history
    assert [r["loss"] for r in a] == [r["loss"] for r in b]
    c = pt.fit(make_net(), small, epochs=2, temperature="per-neuron").history[-1]["temperature"]
    assert c == 60 / 8


def test_the_warning_of_a_dwarfing_kl_heeds_the_temperature(make_net, small):
    def warnings(temperature):
        return pt.fit(make_net(), small, epochs=1, temperature=temperature).history[-1]["warnings"]

    assert any("dwarfs" in w for w in warnings(1000.0))
    assert not any("dwarfs" in w for w in warnings(pt.warm_up(1000.0, epochs=1e6)))


def test_a_rule_the_network_lacks_is_refused_before_anything_is_written(make_net, small, tmp_path, train):
    with pytest.raises(UsageError, match="one hidden layer"):
        pt.fit(make_net(norm=True), small, temperature=pt.per_neuron(), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    done = train("other", "--temperature", "per-neuron", "--hidden", "8,8")
    assert done.code == 2
    assert "one hidden layer" in done.err
    assert not (tmp_path / "other").exists()


def test_range_test_is_made_at_the_full_temperature(make_net, small):
    options = {"steps": 12, "batch_size": 30}
    ramped = pt.range_test(make_net(), small, temperature=pt.warm_up(0.5, epochs=100), **options)
    assert ramped.losses == pt.range_test(make_net(), small, temperature=0.5, **options).losses


def test_from_the_command_line(train, cli, tmp_path):
    flags = ("--temperature", "per-weight", "--tau", "0.5", "--temperature-warmup", 2)
    done = train("run", *flags, "--temperature-warmup-shape", "cosine", epochs=3)
    assert done.code == 0, done.err
    history = [json.loads(line) for line in (tmp_path / "run/history.jsonl").read_text().splitlines()]
    num_data, num_weights = (
        json.loads((tmp_path / "run/summary.json").read_text())[k] for k in ("num_data", "num_weights")
    )
    assert history[-1]["temperature"] == pytest.approx(0.5 * num_data / num_weights)
    assert history[0]["temperature"] < history[1]["temperature"] < history[2]["temperature"]
    config = (tmp_path / "run/config.toml").read_text()
    assert 'temperature = "per-weight"' in config
    assert cli("train", "--resume", "--out", "run", "--quiet", *flags).code == 0
    changed = cli("train", "--resume", "--out", "run", "--quiet", "--temperature", "per-neuron")
    assert changed.code == 2
    assert "--temperature" in changed.err


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (("--temperature", "per-wieght"), "Did you mean 'per-weight'"),
        (("--temperature", "0.1", "--tau", "2"), "tau (2.0) goes with"),
        (("--temperature", "-1"), "at least 0"),
        (("--temperature", "nan"), "nan"),
        (("--temperature-warmup", "2", "--temperature-warmup-shape", "cosin"), "Did you mean 'cosine'"),
        (("--temperature-warmup", "-2"), "temperature_warmup"),
    ],
)
def test_wrong_flags(train, flags, part, tmp_path):
    done = train("run", *flags)
    assert done.code == 2
    assert part in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_the_mean_field_network_by_name(cli, tmp_path):
    network = ("--dataset", "digits", "--model", "mean-field", "--hidden", "64", "--prior-scale", "0.4472")
    tempered = ("--temperature", "per-neuron", "--tau", "0.01", "--rho", -5)
    rates = ("--optimizer", "adam", "--lr", 0.02, "--lr-sd", 0.02)
    done = cli("train", *network, *tempered, *rates, "--epochs", 8, "--out", "run", "--quiet", "--json")
    assert done.code == 0, done.err
    assert done.json["test"]["accuracy"] > 0.5
