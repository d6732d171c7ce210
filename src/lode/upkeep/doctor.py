"""Check whether a store keeps its promises.

Some servers accept a conditional write and ignore the condition. There, two writers can both win.
"""

from __future__ import annotations

import secrets
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Barrier
from typing import TYPE_CHECKING

from lode.errors import LodeError, OutcomeUnknownError, PathExistsError, PermissionDeniedError
from lode.store.object_errors import status_of
from lode.store.protocol import SupportsCompareAndSwap, SupportsLocalPath

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.store.protocol import Store

_RACERS = 8
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """One promise, and whether it was kept."""

    promise: str
    kept: bool
    detail: str = ""

    def __str__(self) -> str:
        return (
            f"{'ok' if self.kept else 'BROKEN'}: {self.promise}{f' ({self.detail})' if self.detail else ''}"
        )


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of probing one store.

    ``unreachable`` is the reason why the store could not be probed. Then nothing is known about its promises.
    """

    url: str
    findings: tuple[Finding, ...]
    unreachable: str | None = None

    @property
    def healthy(self) -> bool:
        """Whether concurrent writers are safe on this store, as far as the probes can tell."""
        return self.unreachable is None and all(finding.kept for finding in self.findings)

    def __str__(self) -> str:
        if self.unreachable is not None:
            return f"{self.url}: cannot be reached ({self.unreachable})"
        verdict = "safe for concurrent writers" if self.healthy else "NOT safe for concurrent writers"
        return "\n".join([f"{self.url}: {verdict}", *(f"  {finding}" for finding in self.findings)])


def diagnose(store: Store, progress: Callable[[int, int | None], None] | None = None) -> Diagnosis:
    """Probe a store with a few small objects below ``.lode-doctor-…/``, which are removed again.

    Args:
        store: The store.
        progress: Called with (probes done, probes in all) after each.
    """
    folder = f".lode-doctor-{secrets.token_hex(8)}"
    unreachable = _try_to_reach(store, f"{folder}/")
    if unreachable is not None:
        return Diagnosis(store.url, (), unreachable)
    probes: list[tuple[str, Callable[[Store, str], str]]] = [
        ("what is put is read back and listed", _round_trip),
        ("put never replaces an object", _put_creates_only),
        ("of racing puts exactly one wins", _racing_puts),
        ("a pointer is swapped only from what it is", _swaps_compare),
        ("of racing swaps exactly one wins", _racing_swaps),
    ]
    try:
        findings = []
        for number, (promise, probe) in enumerate(probes):
            findings.append(_examine(store, f"{folder}/{number}", promise, probe))
            if progress is not None:
                progress(number + 1, len(probes))
    finally:
        _clean_up(store, folder)
    return Diagnosis(store.url, tuple(findings))


def _try_to_reach(store: Store, folder: str) -> str | None:
    """Why the store cannot be probed; None if it can.

    A server that answers may still reject every conditional write. The probes detect that.
    """
    try:
        next(store.list(folder), None)
    except LodeError as error:
        return str(error)
    try:
        store.put(f"{folder}knock", b"knock")
    except PermissionDeniedError as error:
        return str(error)
    except LodeError as error:
        answered = isinstance(error, OutcomeUnknownError) or status_of(error) is not None
        return None if answered else str(error)
    return None


def _examine(store: Store, path: str, promise: str, probe: Callable[[Store, str], str]) -> Finding:
    try:
        fault = probe(store, path)
    except LodeError as error:
        fault = f"{type(error).__name__}: {error}"
    return Finding(promise, not fault, fault)


def _round_trip(store: Store, path: str) -> str:
    store.put(path, b"probe")
    if store.get(path) != b"probe":
        return "other bytes came back"
    if [info.path for info in store.list(path)] != [path]:
        return "the object is not in the listing"
    return ""


def _put_creates_only(store: Store, path: str) -> str:
    store.put(path, b"first")
    with suppress(PathExistsError):
        store.put(path, b"second")
        return "a second put was accepted"
    return "" if store.get(path) == b"first" else "a refused put replaced the object"


def _racing_puts(store: Store, path: str) -> str:
    def attempt(target: str, content: bytes) -> bool:
        try:
            store.put(target, content)
        except PathExistsError:
            return False
        return True

    return _race(store, path, attempt)


def _swaps_compare(store: Store, path: str) -> str:
    if not isinstance(store, SupportsCompareAndSwap):
        return "the store has no compare_and_swap"
    if not store.compare_and_swap(path, None, b"1"):
        return "a pointer could not be created"
    if store.compare_and_swap(path, None, b"2"):
        return "a pointer was created over another"
    if store.compare_and_swap(path, b"0", b"2"):
        return "a swap from other content was accepted"
    if not store.compare_and_swap(path, b"1", b"2") or store.get(path) != b"2":
        return "a swap from the right content did not take effect"
    return ""


def _racing_swaps(store: Store, path: str) -> str:
    if not isinstance(store, SupportsCompareAndSwap):
        return "the store has no compare_and_swap"
    swap = store.compare_and_swap
    for number in range(_ROUNDS):
        swap(f"{path}-{number}", None, b"start")
    return _race(store, path, lambda target, content: swap(target, b"start", content))


def _race(store: Store, path: str, attempt: Callable[[str, bytes], bool]) -> str:
    """Let threads race a few times. Returns what was wrong with the winners."""
    contents = [b"racer %d" % number for number in range(_RACERS)]
    with ThreadPoolExecutor(_RACERS) as pool:
        for number in range(_ROUNDS):
            target = f"{path}-{number}"
            barrier = Barrier(_RACERS)

            def start(content: bytes, target: str = target, barrier: Barrier = barrier) -> bool:
                barrier.wait()
                return attempt(target, content)

            won = list(pool.map(start, contents))
            if won.count(True) != 1:
                return f"{won.count(True)} of {_RACERS} won"
            if store.get(target) != contents[won.index(True)]:
                return "the winner's content is not there"
    return ""


def _clean_up(store: Store, folder: str) -> None:
    with suppress(LodeError):
        for info in list(store.list(f"{folder}/")):
            store.delete(info.path)
    if isinstance(store, SupportsLocalPath):  # swaps leave lock files, which are no objects
        shutil.rmtree(store.root / folder, ignore_errors=True)
