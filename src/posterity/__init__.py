"""Bayesian neural networks by variational inference.

net = posterity.bayesian(model)             any nn.Module
posterity.fit(net, (x, y), epochs=20)
net.predict(x).epistemic

The names are those of `posterity.api`, imported with torch when one is first used: the command line shows its help
without. A submodule with a function of its own name (`bayesian`, `ensemble`, `laplace`) is that function here.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from posterity.api import *  # noqa: F403
else:  # a type checker that saw it would take any name for one of ours

    def __getattr__(name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module 'posterity' has no attribute '{name}'")
        api = import_module("posterity.api")
        found = getattr(api, name, None) or sys.modules.get(f"posterity.{name}")
        if found is None:
            raise AttributeError(f"module 'posterity' has no attribute '{name}'")
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})

    class _Package(ModuleType):
        def __setattr__(self, name: str, value: Any) -> None:
            # The import of a submodule ends with this, whoever imports it.
            own = getattr(value, name, None) if isinstance(value, ModuleType) else None
            super().__setattr__(name, own if callable(own) else value)

    sys.modules[__name__].__class__ = _Package
