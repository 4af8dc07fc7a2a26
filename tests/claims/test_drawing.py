"""Numbers in the claims' tables."""

import math

import pytest

from posterity.claims.drawing import with_error


@pytest.mark.parametrize(
    ("mean", "error", "words"),
    [
        (0.68, 0.0289, "0.680 ± 0.029"),
        (-1.73649, 0.0815, "-1.736 ± 0.082"),
        (464_400.4, 96.75, "464400 ± 97"),
        (326_512.0, 1485.0, "326512 ± 1485"),
        (0.99991, 4.189e-5, "0.999910 ± 0.000042"),
        (0.0, 0.012, "0.000 ± 0.012"),
        (2.507e-6, 2.383e-7, "2.507e-06 ± 2.4e-07"),  # zeros would hide it
        (3.2e9, 1.25e8, "3.2e+09 ± 1.2e+08"),
        (0.5, 0.0, "0.5 ± 0"),  # all the same: no digit is in doubt
        (0.123456, math.nan, "0.1235"),  # one run has no error
    ],
)
def test_a_mean_has_the_digits_that_its_error_leaves(mean, error, words):
    assert with_error(mean, error) == words
