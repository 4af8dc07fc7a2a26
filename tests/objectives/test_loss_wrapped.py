"""Networks and losses inside what PyTorch wraps around modules: compiled, or data-parallel."""

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import posterity as pt
from posterity.core.errors import UsageError

X = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
Y = torch.arange(12) % 2
COMPILING = pytest.mark.filterwarnings("ignore")  # PyTorch's compiler warns of what it does itself


def step(net):
    loss = pt.negative_elbo(net, pt.Categorical(), X, Y, num_data=40)
    loss.backward()
    return loss


def gradient(net):
    return torch.cat([p.grad for p in net.posterior.parameters()])


@pytest.fixture
def alone(tmp_path):
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Objective(nn.Module):
    """The loss as a module's forward, which DistributedDataParallel can be put around."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, y):
        return pt.negative_elbo(self.net, pt.Categorical(), x, y, num_data=40)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("options", [{}, {"find_unused_parameters": True}, {"static_graph": True}], ids=str)
def test_the_objective_in_distributed_data_parallel(network, options):
    net, twin = network(), network()
    wrapped = DistributedDataParallel(Objective(net), **options)
    for _ in range(2):
        net.zero_grad()
        twin.zero_grad()
        loss = wrapped(X, Y)
        loss.backward()
        torch.testing.assert_close(loss.item(), step(twin).item())
        torch.testing.assert_close(gradient(net), gradient(twin))


@pytest.mark.usefixtures("alone")
def test_a_network_in_distributed_data_parallel_is_refused_with_advice(network):
    with pytest.raises(UsageError, match="fit within process_group"):
        step(DistributedDataParallel(network()))


@COMPILING
def test_a_compiled_network_draws_new_weights(network):
    net, twin = network(), network()
    compiled = torch.compile(net, backend="eager")
    outputs = [compiled(X) for _ in range(3)]
    torch.testing.assert_close(outputs, [twin(X) for _ in range(3)])
    assert not torch.equal(outputs[0], outputs[1])


@COMPILING
def test_a_compiled_step(network):
    net, twin = network(), network()
    compiled = torch.compile(step, backend="eager")
    for _ in range(2):
        net.zero_grad()
        twin.zero_grad()
        torch.testing.assert_close(compiled(net).item(), step(twin).item())
        torch.testing.assert_close(gradient(net), gradient(twin))


@COMPILING
def test_a_compiled_module_made_bayesian(module):
    plain = pt.bayesian(module(), rho=-2.0, seed=1)
    compiled = pt.bayesian(torch.compile(module(), backend="eager"), rho=-2.0, seed=1)
    torch.testing.assert_close(step(compiled).item(), step(plain).item())
    torch.testing.assert_close(gradient(compiled), gradient(plain))
