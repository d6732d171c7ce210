"""Functions of the modules in a project's folder."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lode.errors import InvalidOptionError
from lode.pipeline.step import reference

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

# The folders of all projects of this process.
_folders: Final[set[Path]] = set()


def function_in(folder: Path, given: str | Callable[..., Any], what: str) -> Callable[..., Any]:
    """The function that ``module:function`` names; modules of the folder come first.

    Raises:
        InvalidOptionError: There is none.
    """
    if callable(given):
        return given
    found = reference(given) if isinstance(given, str) else None
    if found is None:
        raise InvalidOptionError(f"{what} is 'module:function' or a function, got {given!r}")
    name, attribute = found
    try:
        function = getattr(_module(folder, name), attribute)
    except (Exception, SystemExit) as error:  # a module may do anything when it is imported
        reason = str(error) if isinstance(error, ImportError | AttributeError | SyntaxError) else repr(error)
        raise InvalidOptionError(f"{what} {given.strip()} cannot be loaded: {reason}") from error
    if not callable(function):
        raise InvalidOptionError(f"{what} {given.strip()} is a {type(function).__name__}, not a function")
    return function  # type: ignore[no-any-return]


def _module(folder: Path, name: str) -> ModuleType:
    """Import a module.

    Tasks get functions of the folder's modules by value, because executors cannot import them.
    """
    from pyspark import cloudpickle

    if sys.path[:1] != [str(folder)]:
        sys.path.insert(0, str(folder))
    _forget_others(folder)
    importlib.invalidate_caches()
    module = importlib.import_module(name)
    for each in list(sys.modules.values()):
        file = _file_of(each)
        if file is not None and file.is_relative_to(folder) and "site-packages" not in file.parts:
            cloudpickle.register_pickle_by_value(each)  # type: ignore[no-untyped-call]
    return module


def _forget_others(folder: Path) -> None:
    """Forget the modules of other projects that have the names of modules of this one."""
    _folders.add(folder)
    for name, module in list(sys.modules.items()):
        file = _file_of(module)
        if file is None or file.is_relative_to(folder):
            continue
        own = folder.joinpath(*name.split("."))
        if any(file.is_relative_to(other) for other in _folders) and (
            own.with_suffix(".py").is_file() or own.is_dir()
        ):
            del sys.modules[name]


def _file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file) if isinstance(file, str) else None
