"""pyarrow, loaded when it is first used: with NumPy beside it, its import takes longer than all of Lode's."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["pa", "pc", "pt"]


class _Lazy:
    """A module that is imported on first use. Each name is looked up once."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        module = sys.modules.get(self._module)
        # What another thread is still importing lacks names: import_module waits for it.
        if module is None or module.__spec__ is None or getattr(module.__spec__, "_initializing", False):
            module = import_module(self._module)
        value = getattr(module, name)
        setattr(self, name, value)
        return value


# Its functions take expressions as well as arrays, which the stubs do not say.
pc: Any = _Lazy("pyarrow.compute")

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.types as pt
else:
    pa = _Lazy("pyarrow")
    pt = _Lazy("pyarrow.types")
