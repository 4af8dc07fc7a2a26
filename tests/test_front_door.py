"""`import posterity` is light, and its names are there all the same, in whatever order they are asked for."""

import subprocess
import sys

import pytest

import posterity as pt
from posterity import api

USES = {
    "a name": "import posterity as pt; assert pt.fit is pt.training.fit",
    "from": "from posterity import bayesian, laplace, ensemble; bayesian.__call__, laplace.__call__, ensemble.__call__",
    "a submodule first": "import posterity.training, posterity as pt; pt.bayesian.__call__; pt.ensemble.__call__",
    "a submodule by from": "from posterity import data; assert data.load",
    "star": "from posterity import *; bayesian, fit, sweep, load_run",
    "dir": "import posterity; assert {'fit', 'Gaussian', 'sweep', '__version__'} <= set(dir(posterity))",
    "wrong": "import posterity; assert not hasattr(posterity, 'fitt') and not hasattr(posterity, '__wrong__')",
    "light": "import sys, posterity; posterity.__version__; assert 'torch' not in sys.modules",
}


@pytest.mark.parametrize("use", USES)
def test_names_are_found(use):
    done = subprocess.run([sys.executable, "-c", USES[use]], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", api.__all__)
def test_every_name_is_the_apis(name):
    assert getattr(pt, name) is getattr(api, name)
    assert name in dir(pt)
