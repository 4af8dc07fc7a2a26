import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import posterity as pt
from posterity.core.errors import UnknownNameError, UsageError
from posterity.models import mean_field, mlp
from posterity.objectives.tempering import AUTO_MOST, AUTO_TAU, as_rule, hidden_neurons, temperature_rule
from posterity.training import Settings


def value(rule, net, num_data, epochs=0.0):
    return as_rule(rule).bind(net, num_data)(epochs)


def test_per_weight_by_hand():
    net = pt.bayesian(mlp((3,), 2, hidden=(4, 5)))  # 16 + 25 + 12 weights
    assert value(pt.per_weight(tau=2.0), net, 106) == 4.0
    assert value(pt.per_weight(), net, 53) == 1.0
    assert value(0.3, net, 53) == 0.3
    last = pt.bayesian(mlp((3,), 2, hidden=(4, 5)), select="5.*")
    assert value(pt.per_weight(), last, 24) == 2.0  # only the Bayesian weights count


def test_per_neuron_by_hand():
    assert value(pt.per_neuron(tau=0.5), pt.bayesian(mean_field((3,), 2, hidden=(10,))), 60) == 3.0
    assert value(pt.per_neuron(), pt.bayesian(mlp((3,), 2, hidden=(8,))), 4) == 0.5


@pytest.mark.parametrize("width", [1, 7, 64])
def test_neurons_and_weights_differ_by_the_weights_of_a_neuron(width):
    net = pt.bayesian(mean_field((5,), 3, hidden=(width,)))
    d = 5 + 3
    assert value(pt.per_neuron(0.7), net, 90) == pytest.approx(value(pt.per_weight(0.7 * d), net, 90))


def test_the_loss_is_nll_and_mean_kl():
    """nll + tau * mean KL of a weight, whatever the numbers of data and weights."""
    torch.manual_seed(0)
    net = pt.bayesian(mean_field((4,), 3, hidden=(6,)), relative_sd=0.5, seed=0)
    x, y = torch.randn(10, 4), torch.randint(3, (10,))
    for num_data in (10, 1000):
        temperature = value(pt.per_weight(0.2), net, num_data)
        loss = pt.negative_elbo(net, pt.Categorical(), x, y, num_data=num_data, temperature=temperature)
        expected = loss.nll + 0.2 * pt.kl_divergence(net.posterior, net.prior) / net.num_weights
        torch.testing.assert_close(loss.total, expected)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(3, 4)


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (nn.Linear(3, 2), "Linear"),
        (mlp((3,), 2, hidden=(4, 4)), "Linear, Linear, Linear"),
        (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)), "BatchNorm1d"),
        (nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(4, 2)), "Conv2d, Linear"),
        (nn.RNN(3, 4), "RNN"),
        (Tied(), "Linear, Linear"),
    ],
)
def test_per_neuron_is_refused_where_it_is_not_defined(model, found):
    with pytest.raises(UsageError, match=rf"one hidden layer.*{found}.*per_weight"):
        hidden_neurons(pt.bayesian(model).model)


def test_ramps_by_hand():
    net = pt.bayesian(nn.Linear(3, 2))
    linear, cosine = pt.warm_up(0.8, epochs=4), pt.warm_up(0.8, epochs=4, shape="cosine")
    assert [value(linear, net, 1, t) for t in (0, 1, 2, 4, 9)] == pytest.approx([0, 0.2, 0.4, 0.8, 0.8])
    quarter = 0.4 * (1 - math.sqrt(0.5))
    assert [value(cosine, net, 1, t) for t in (0, 1, 2, 3, 4, 9)] == pytest.approx(
        [0, quarter, 0.4, 0.8 - quarter, 0.8, 0.8]
    )
    of_rule = pt.warm_up(pt.per_weight(2.0), epochs=2)  # 8 weights
    assert [value(of_rule, net, 12, t) for t in (1, 2)] == pytest.approx([1.5, 3.0])


@settings(deadline=None, max_examples=60)
@given(st.floats(0, 10), st.floats(1e-3, 50), st.sampled_from(["linear", "cosine"]))
def test_ramps_rise_to_the_target_and_stay(target, epochs, shape):
    temperature = pt.warm_up(target, epochs=epochs, shape=shape).bind(pt.bayesian(nn.Linear(1, 1)), 1)
    values = [temperature(epochs * share) for share in (0, 0.1, 0.4, 0.5, 0.9, 1, 1.5)]
    assert values[0] == 0
    assert values == sorted(values)
    assert values[-1] == pytest.approx(target)
    assert values[3] == pytest.approx(target / 2)
    assert temperature(epochs * (1 - 1e-9)) == pytest.approx(target, rel=1e-6)  # no jump at the end


RULES = [
    0.3,
    pt.per_weight(),
    pt.per_neuron(0.5),
    pt.warm_up(0.3, epochs=2),
    pt.warm_up(pt.per_weight(0.1), epochs=2, shape="cosine"),
]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (0.1, {"temperature": 0.1}),
        (pt.per_weight(0.5), {"temperature": "per-weight", "tau": 0.5}),
        (pt.per_neuron(), {"temperature": "per-neuron", "tau": 1.0}),
        (
            pt.warm_up(pt.per_weight(0.1), epochs=2, shape="cosine"),
            {"temperature": "per-weight", "tau": 0.1, "temperature_warmup": 2, "temperature_warmup_shape": "cosine"},
        ),
        (
            pt.warm_up(0.3, epochs=2.5),
            {"temperature": 0.3, "temperature_warmup": 2.5, "temperature_warmup_shape": "linear"},
        ),
    ],
)
def test_as_settings_and_back(rule, expected):
    settings = as_rule(rule).as_settings()
    assert settings == expected == json.loads(json.dumps(settings))
    given = {name.replace("temperature_warmup_", "").replace("temperature_", ""): v for name, v in settings.items()}
    again = temperature_rule(**given)
    assert again.as_settings() == settings
    assert (again.kind, again.settled) == (as_rule(rule).kind, as_rule(rule).settled)


def test_settings_that_do_not_go_together():
    with pytest.raises(
        UsageError, match=r"tau \(0.5\) goes with temperature auto or per-weight or per-neuron, not with 0.1"
    ):
        temperature_rule(0.1, tau=0.5)
    with pytest.raises(UnknownNameError, match="Did you mean 'cosine'"):
        temperature_rule(0.1, shape="cosin")
    assert temperature_rule(pt.per_weight(2.0)) == pt.per_weight(2.0)


TEMPERATURE = ("temperature", "tau", "temperature_warmup", "temperature_warmup_shape")


@pytest.mark.parametrize("rule", RULES)
def test_settings_hold_a_rule_as_plain_values_and_tell_rules_apart(rule):
    told = [{name: Settings(temperature=other).as_dict()[name] for name in TEMPERATURE} for other in RULES]
    settings = Settings(temperature=rule)
    described = {name: settings.as_dict()[name] for name in TEMPERATURE}
    assert json.loads(json.dumps(described)) == described
    assert told.count(described) == 1
    again = Settings(**described).temperature_rule
    assert again.as_settings() == as_rule(rule).as_settings()
    assert again == settings.temperature_rule


def test_names_are_rules():
    assert as_rule("per-weight") == pt.per_weight()
    assert as_rule("per-neuron", tau=0.1) == pt.per_neuron(0.1)
    assert pt.warm_up("per-weight", epochs=3).settled == pt.per_weight()
    assert as_rule(0.5).settled == as_rule(0.5)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: pt.per_weight(-1.0), "tau.*-1.0"),
        (lambda: pt.per_neuron(math.nan), "tau.*nan"),
        (lambda: pt.warm_up(1.0, epochs=0), "positive number of epochs, not 0"),
        (lambda: pt.warm_up(1.0, epochs=math.inf), "inf"),
        (lambda: pt.warm_up(-0.5, epochs=1), "-0.5"),
        (lambda: pt.warm_up(pt.warm_up(1.0, epochs=1), epochs=1), "another warm-up"),
        (lambda: Settings.of(temperature=None), "per-weight"),
        (lambda: Settings.of(temperature=True), "True"),
        (lambda: Settings.of(temperature=math.inf), "inf"),
    ],
)
def test_wrong_values(make, match):
    with pytest.raises(UsageError, match=match):
        make()


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'per-weight'"):
        Settings.of(temperature="per_weights")
    with pytest.raises(UnknownNameError, match="Did you mean 'cosine'"):
        pt.warm_up(1.0, epochs=2, shape="cosin")


def test_auto_by_hand():
    """min(AUTO_MOST, tau p / N)."""
    net = pt.bayesian(mlp((3,), 2, hidden=(4, 5)))  # 53 weights
    assert value(pt.auto(0.02), net, 53) == 0.02
    assert value(pt.auto(0.02), net, 10 * 53) == AUTO_MOST == 0.06
    assert value(pt.auto(), net, 53) == value("auto", net, 53) == AUTO_TAU
    assert temperature_rule("auto", tau=0.3) == pt.auto(0.3)
