"""Groups: their rates, and who moves in a step."""

import pytest
import torch
from torch import nn

from posterity.core.errors import UsageError
from posterity.optim import build_schedule
from posterity.training.groups import ParameterGroup, step_groups


def group(name="mean", schedule="constant", optimizer=None, index=0, lr=0.5):
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    if optimizer is None:
        optimizer = torch.optim.SGD([weight], lr=lr)
    else:
        optimizer.add_param_group({"params": [weight], "lr": lr})
    return ParameterGroup(name, optimizer, build_schedule(schedule), index)


def test_a_groups_rate_is_its_base_times_the_schedules_factor():
    one, other = group(schedule="cosine"), group("sd", lr=0.25)
    step_groups([one, other], 0.5, rows=3)
    assert (one.lr, other.lr) == (0.25, 0.25)
    for moved in (one, other):
        torch.testing.assert_close(moved.parameters[0].detach(), torch.full((3,), 0.75))
    assert (one.base_lr, other.base_lr) == (0.5, 0.25)


def test_who_is_not_named_stands_still():
    one, other = group(), group("sd")
    step_groups([other], 0.0, rows=3)
    assert torch.equal(one.parameters[0].detach(), torch.ones(3))
    assert torch.equal(other.parameters[0].detach(), torch.full((3,), 0.5))


def test_a_shared_optimiser_steps_once_and_knows_who_stands_still():
    steps = []

    class Shared(torch.optim.SGD):
        def step(self, closure=None):
            steps.append([settings["still"] for settings in self.param_groups])

    first = nn.Parameter(torch.ones(3))
    shared = Shared([first], lr=0.5)
    one = ParameterGroup("mean", shared, build_schedule("constant"))
    other = group("sd", optimizer=shared, index=1)
    step_groups([one, other], 0.0, rows=3)
    step_groups([other], 0.0, rows=3)
    assert steps == [[False, False], [True, False]]


def test_an_optimiser_that_counts_rows_is_told_them():
    one = group()
    one.optimizer.rows = None
    step_groups([one], 0.0, rows=7)
    assert one.optimizer.rows == 7


def test_a_group_takes_back_its_own_state_alone(same):
    one, other = group(schedule="plateau"), group(schedule="plateau")
    for _ in range(7):
        one.schedule.observe({"nll": 1.0})
    step_groups([one], 0.0, rows=3)
    assert one.lr < other.lr
    other.restore(one.state())
    assert same(other.state(), one.state())
    with pytest.raises(UsageError, match="'mean' where this network has 'sd'"):
        group("sd").restore(one.state())


def test_restored_moments_lie_as_their_parameter_does():
    weight = nn.Parameter(torch.randn(4, 3, 2, 2).to(memory_format=torch.channels_last))
    weight.grad = torch.randn_like(weight)
    adam = torch.optim.Adam([weight])
    adam.step()
    one = ParameterGroup("deterministic", adam, build_schedule("constant"))
    state = one.state()
    moments = state["optimizer"]["state"][0]
    moments["exp_avg"] = moments["exp_avg"].contiguous()  # as they come from a file
    one.restore(state)
    assert adam.state[weight]["exp_avg"].stride() == weight.stride()
