import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from posterity.core.errors import UnknownNameError, UsageError
from posterity.core.hosting import slots
from posterity.core.layout import Entry, Layout, select_parameters

shapes = st.lists(st.lists(st.integers(1, 4), min_size=0, max_size=5).map(tuple), min_size=1, max_size=5)


def layout_of(shapes):
    return Layout(tuple(Entry(f"w{i}", shape, 1, 1) for i, shape in enumerate(shapes)))


def convolutional():
    return nn.Sequential(nn.Conv2d(3, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(4, 2))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5)
        self.head.weight = self.embedding.weight


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.again = self.first


@settings(deadline=None, max_examples=60)
@given(shapes, st.sampled_from([(), (1,), (3,), (2, 2)]))
def test_flatten_inverts_views(shapes, lead):
    layout = layout_of(shapes)
    vector = torch.randn(*lead, layout.num_weights)
    views = layout.views(vector)
    assert [tuple(v.shape) for v in views.values()] == [lead + s for s in shapes]
    assert torch.equal(layout.flatten(views), vector)


@settings(deadline=None, max_examples=60)
@given(shapes)
def test_views_invert_flatten(shapes):
    layout = layout_of(shapes)
    tensors = {e.name: torch.randn(e.shape) for e in layout.entries}
    views = layout.views(layout.flatten(tensors))
    assert all(torch.equal(views[name], tensors[name]) for name in tensors)


@settings(deadline=None, max_examples=60)
@given(shapes)
def test_views_share_storage_and_cover_the_vector(shapes):
    layout = layout_of(shapes)
    vector = torch.zeros(layout.num_weights)
    for i, view in enumerate(layout.views(vector).values()):
        assert view.untyped_storage().data_ptr() == vector.untyped_storage().data_ptr()
        view += i + 1
    counts = [(vector == i + 1).sum() for i in range(len(shapes))]
    assert counts == layout.sizes


def test_four_dimensional_views_are_channels_last():
    layout = Layout.of(nn.Conv2d(3, 5, 2))
    view = layout.views(torch.arange(65.0))["weight"]
    assert view.is_contiguous(memory_format=torch.channels_last)
    # Stored as (out, height, width, in).
    assert view[0, :, 0, 0].tolist() == [0, 1, 2]
    assert view[0, 0, 0, 1] == 3
    assert view[0, 0, 1, 0] == 6
    assert view[1, 0, 0, 0] == 12


def test_other_views_are_contiguous():
    layout = layout_of([(2, 3), (2, 3, 4), (2, 1, 2, 1, 2)])
    assert all(v.is_contiguous() for v in layout.views(torch.zeros(layout.num_weights)).values())


def test_gradient_of_views_is_one_vector():
    layout = Layout.of(convolutional())
    vector = torch.randn(layout.num_weights, dtype=torch.float64, requires_grad=True)
    sum((i + 1) * v.sum() for i, v in enumerate(layout.views(vector).values())).backward()
    expected = layout.flatten({e.name: torch.full(e.shape, i + 1.0).double() for i, e in enumerate(layout.entries)})
    assert torch.equal(vector.grad, expected)


def test_names_sizes_and_places():
    layout = Layout.of(convolutional())
    assert layout.names == ["0.weight", "0.bias", "3.weight", "3.bias"]
    assert layout.sizes == [48, 4, 8, 2]
    assert layout.num_weights == 62
    assert [e.layer for e in layout.entries] == ["0", "0", "3", "3"]
    assert [layout.weight_at(i) for i in (0, 47, 48, 52, 61)] == [
        "0.weight", "0.weight", "0.bias", "3.weight", "3.bias",
    ]  # fmt: skip
    with pytest.raises(IndexError):
        layout.weight_at(62)


def test_fill_and_sum_by_layer():
    layout = Layout.of(convolutional())
    vector = layout.fill([1, 2, 3, 4])
    assert torch.equal(vector[48:52], torch.full((4,), 2.0))
    assert {n: s.item() for n, s in layout.sum_by_layer(vector).items()} == {"0": 56, "3": 32}
    top = Layout.of(nn.Linear(2, 1))
    assert top.sum_by_layer(torch.tensor([1.0, 2.0, 4.0])) == {"weight": 3, "bias": 4}


def test_tied_weights_have_one_place():
    model = Tied()
    layout = Layout.of(model)
    assert layout.names == ["embedding.weight", "head.bias"]
    assert layout.num_weights == 20
    places = slots(model, [model.embedding.weight, model.head.bias])
    assert places == [[(model.embedding, "weight"), (model.head, "weight")], [(model.head, "bias")]]


def test_shared_module_has_one_place():
    layout = Layout.of(Shared())
    assert layout.names == ["first.weight", "first.bias"]


def test_selection():
    model = convolutional()
    assert Layout.of(model, "3.*").names == ["3.weight", "3.bias"]
    assert Layout.of(model, ["*.bias", "0.*"]).names == ["0.weight", "0.bias", "3.bias"]
    assert Layout.of(model, lambda name, p: p.dim() == 2).names == ["3.weight"]
    model[0].weight.requires_grad_(False)
    assert Layout.of(model).names == ["0.bias", "3.weight", "3.bias"]
    assert Layout.of(model, "0.weight").names == ["0.weight"]


def test_pattern_without_match_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match=r"weight pattern '3\.wieght'.*Did you mean '3\.weight'"):
        Layout.of(convolutional(), ["0.*", "3.wieght"])


def test_nothing_selected():
    with pytest.raises(UsageError, match=r"no weight was selected.*0\.weight"):
        Layout.of(convolutional(), lambda name, p: False)
    with pytest.raises(UsageError, match="none"):
        Layout.of(nn.ReLU())


def test_mixed_dtypes_are_refused():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())
    with pytest.raises(UsageError, match="one real floating dtype"):
        Layout.of(model)
    assert Layout.of(model, "1.*").num_weights == 6


def test_complex_weights_are_refused():
    with pytest.raises(UsageError, match="real floating dtype"):
        Layout.of(nn.Linear(2, 2, dtype=torch.complex64))


def test_lazy_layers_are_refused():
    with pytest.raises(UsageError, match="lazy layers"):
        select_parameters(nn.Sequential(nn.LazyLinear(3)))


def test_vectors_and_tensors_that_do_not_fit():
    layout = Layout.of(convolutional())
    with pytest.raises(UsageError, match="61 weights does not fit a layout of 62"):
        layout.views(torch.zeros(61))
    tensors = layout.views(torch.zeros(62))
    with pytest.raises(UsageError, match=r"no weights given for 3\.bias"):
        layout.flatten({n: t for n, t in tensors.items() if n != "3.bias"})
    with pytest.raises(UsageError, match=r"3\.bias have shape \(3,\); expected \(2,\)"):
        layout.flatten({**tensors, "3.bias": torch.zeros(3)})


def test_an_embedding_that_changes_its_weights_is_refused_unless_it_stays_deterministic():
    model = nn.Sequential(nn.Embedding(3, 2, max_norm=1.0), nn.Linear(2, 2))
    with pytest.raises(UsageError, match="an embedding with max_norm"):
        Layout.of(model)
    assert Layout.of(model, "1.*").num_weights == 6


def test_consecutive_layers():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2, bias=False))
    assert Layout.of(model).layer_sizes == [16, 8, 8]
    assert Layout.of(model, "*.bias").layer_sizes == [4, 4]
    assert Layout.of(nn.Linear(3, 2)).layer_sizes == [6, 2]  # at the top level each is a layer, as in sum_by_layer
