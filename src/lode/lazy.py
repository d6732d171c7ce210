"""pyarrow, loaded when it is first used: with NumPy beside it, its import takes longer than all of Lode's."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["pa", "pc", "pt"]


class _Lazy:
    """Stands for a module; each name is looked up once."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._module), name)
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
