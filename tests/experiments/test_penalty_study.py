"""What a penalty says in Bayes' terms."""

import pytest

from posterity.experiments.penalty import study_penalty


@pytest.mark.parametrize("d", [1, 2, 3, 30])
def test_the_drawn_density_has_its_mass_and_variance(d):
    study = study_penalty("group_lasso_rows", 100, group_size=d)
    step = study.weights[1] - study.weights[0]
    assert study.density.sum() * step == pytest.approx(1, abs=5e-3)
    variance = (study.density * study.weights**2).sum() * step
    assert variance == pytest.approx(0.01, rel=0.06)
