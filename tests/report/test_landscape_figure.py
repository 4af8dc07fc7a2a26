"""The drawn landscape: a surface, its points, what is laid over it."""

import numpy as np
import pytest
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.contour import QuadContourSet

from posterity.core.errors import UsageError
from posterity.experiments import Results
from posterity.experiments.landscape import landscape
from posterity.experiments.row import DIVERGED, Row
from posterity.optim import robust_rates, stable_rate
from posterity.report import landscape_figure, save


def made(places, *, axes=("lr", "momentum"), **options):
    """nll grows with the distance from (0.3, 0.5); above the line of 0.8 runs diverged."""
    rows = [
        Row("k", {"lr": x, "momentum": y, "seed": 0}, {"nll": (x - 0.3) ** 2 + (y - 0.5) ** 2})
        if x <= 0.8 * (1 - y)
        else Row("k", {"lr": x, "momentum": y, "seed": 0}, {}, DIVERGED)
        for x, y in places
    ]
    return landscape(Results(rows), *axes, "nll", **options)


RANDOM = np.random.default_rng(0).uniform((0.01, 0.0), (1.0, 0.95), (80, 2)).tolist()
GRID = [(x, y) for x in (0.1, 0.2, 0.4, 0.8) for y in (0.0, 0.3, 0.6)]


def kinds(axes):
    return [type(each) for each in axes.collections]


def labels(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_random_places_are_filled_between(tmp_path):
    found = made(RANDOM)
    figure = landscape_figure({"": found}, curvatures=(2.0,), line=True)
    axes = figure.axes[0]
    assert QuadContourSet in kinds(axes)
    points, crosses = [each for each in axes.collections if isinstance(each, PathCollection)][-2:]
    assert len(points.get_offsets()) == len(found.z)
    assert len(crosses.get_offsets()) == len(found.failed_x) > 0
    assert labels(figure) == [
        "run", "diverged or failed", "best", "robust region, curvature 2", f"line of stability, a = {found.line:.3g}",
    ]  # fmt: skip
    assert figure.axes[1].get_ylabel() == "nll (lower is better)"
    save(figure, tmp_path / "landscape.png")
    assert (tmp_path / "landscape.png").stat().st_size > 10_000


def test_the_surface_is_linear_between_runs():
    """The contours' heights are those of the plane that the runs lie on."""
    places = np.random.default_rng(1).uniform(0.1, 0.4, (60, 2))
    rows = [Row("k", {"lr": x, "momentum": y, "seed": 0}, {"nll": x + 2 * y}) for x, y in places.tolist()]
    axes = landscape_figure({"": landscape(Results(rows), "lr", "momentum", "nll", clip=0.0)}).axes[0]
    (surface,) = [each for each in axes.collections if isinstance(each, QuadContourSet)]
    for level, path in zip(surface.levels[1:-1], surface.get_paths()[1:-1], strict=False):
        inside = path.vertices[len(path.vertices) // 4]
        step = surface.levels[1] - surface.levels[0]
        assert abs(inside @ [1, 2] - level) < 2 * step


def test_a_grid_is_cells_and_a_failure_is_empty():
    found = made(GRID)
    figure = landscape_figure({"": found})
    (mesh,) = [each for each in figure.axes[0].collections if isinstance(each, QuadMesh)]
    table = mesh.get_array().reshape(3, 4)
    assert table.mask.sum() == len(found.failed_x) > 0
    assert table[1, 1] == pytest.approx(0.01 + 0.04)  # at lr 0.2, momentum 0.3


@pytest.mark.parametrize("turned", [False, True])
def test_regions_lie_where_theory_says(turned):
    axes = ("momentum", "lr") if turned else ("lr", "momentum")
    found = made(RANDOM, axes=axes)
    figure = landscape_figure({"": found}, curvatures=(4.0,), line=True)
    lines = [line.get_xydata()[:, :: -1 if turned else 1] for line in figure.axes[0].lines if len(line.get_xdata()) > 1]
    low, high, line = lines
    for drawn, bound in ((low, 0), (high, 1)):
        np.testing.assert_allclose(drawn[:, 0], robust_rates(drawn[:, 1], 4.0)[bound])
    np.testing.assert_allclose(line[:, 0], stable_rate(line[:, 1], found.line))
    assert figure.axes[0].get_xlim()[1] < 1.1  # regions do not stretch the axes


def test_logarithmic_axes_and_panels():
    places = [(10**x, y) for x, y in np.random.default_rng(0).uniform((-4, 0), (-1, 0.5), (40, 2)).tolist()]
    found = made(places)
    figure = landscape_figure({"adam": found, "sgd": found})
    assert [axes.get_xscale() for axes in figure.axes[:2]] == ["log", "log"]
    assert figure.axes[0].get_title(loc="left").startswith("adam: best nll")


@pytest.mark.parametrize("places", [[(0.1, 0.2)], [(0.1, 0.2), (0.3, 0.4)], [(0.1 * i, 0.1 * i) for i in range(1, 5)]])
def test_places_that_span_no_area_are_points_alone(places, tmp_path):
    figure = landscape_figure({"": made(places)})
    assert QuadContourSet not in kinds(figure.axes[0])
    save(figure, tmp_path / "points.png")


def test_regions_over_other_settings_are_refused():
    rows = [Row("k", {"lr": 0.1 * i, "rho": 1.0 * i % 3, "seed": 0}, {"nll": 1.0}) for i in range(1, 7)]
    found = landscape(Results(rows), "lr", "rho", "nll")
    with pytest.raises(UsageError, match="regions are drawn over lr and momentum"):
        landscape_figure({"": found}, curvatures=(1.0,))


def test_panels_that_share_nothing_have_axes_and_colours_of_their_own():
    found = {"one": made(RANDOM), "other": made(GRID, clip=0.1), "third": made(GRID)}
    figure = landscape_figure(found, share=False, columns=2, curvatures={"one": (2.0,), "other": (3.0,)}, line=["one"])
    panels, bars = figure.axes[:3], figure.axes[3:]
    assert len(bars) == 3
    assert panels[0].get_xlim() != panels[1].get_xlim()
    for panel, each in zip(panels, found.values(), strict=True):
        points = [part for part in panel.collections if isinstance(part, PathCollection)]
        assert points[0].get_clim() == each.limits
    assert [len(panel.lines) for panel in panels] == [4, 3, 1]  # the best, a region's two edges, a line
    assert panels[0].get_position().y0 > panels[2].get_position().y1
    assert "robust region, curvature 3" in labels(figure)
