"""Which snapshot: the one grammar in which the library, the command line and Spark name one.

| | |
| --- | --- |
| ``latest``, ``latest~2`` | the newest; two before it |
| ``3``, also as a number | the third of history |
| an id | that snapshot |
| a tag | the snapshot that it names |
| the beginning of an id | that snapshot, if no other id begins so |
| ``2026-11-15T12:00Z``, a ``datetime`` | the newest at that time; a text without a zone is in UTC |
| ``2026-11-15``, a ``date`` | the newest when that day began, at 00:00 UTC |

A text of the first two kinds, or of a date or time, is never taken as an id or a tag. New ones cannot look
like one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias, TypeVar

from lode.errors import InvalidOptionError, InvalidPathError, NoSnapshotsError, NotFoundError
from lode.format.ids import MAX_ID_BYTES, check_id, check_new_id, shortened
from lode.format.manifest import DROP_SUFFIX
from lode.near import near, question
from lode.read.resolve import AnyManifest
from lode.read.tags import SUFFIX, load_tag, missing_target, tag_names
from lode.snapshot import Snapshot
from lode.times import datetime_to_ns, parse_timestamp, rfc3339_to_ns, text_to_date

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lode.read.resolve import Chain

Ref: TypeAlias = str | int | date

M = TypeVar("M", bound=AnyManifest)

_LATEST: Final = re.compile(r"latest(?:~([0-9]{1,12}))?")
# Ids are times in nanoseconds. A number this short is not one.
_NUMBER: Final = re.compile(r"[0-9]{1,12}")
_TIME: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[Tt ]([0-9].*))?")
_CLOCK: Final = re.compile(
    r"([0-9]{2}(?::[0-9]{2}(?::[0-9]{2}(?:[.,]([0-9]{1,18}))?)?)?)([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_EXAMPLES: Final = "an id, a tag, a number from 1, latest, latest~2, or a time such as 2026-11-15T12:00Z"


class ExactId(str):
    """An id that a program has stored. It is never taken for a number, a time or the beginning of an id."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Back:
    """So many snapshots before the newest."""

    steps: int

    def __str__(self) -> str:
        return f"latest~{self.steps}"


@dataclass(frozen=True, slots=True)
class Number:
    """A position in history, the first being 1."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, in nanoseconds since 1970. Snapshots made at it count as made before it."""

    nanoseconds: int
    text: str
    is_day: bool = False

    def includes(self, manifest: AnyManifest) -> bool:
        return rfc3339_to_ns(manifest.created_at) <= self.nanoseconds


# A string is an id, a tag, or the beginning of an id.
SnapshotRef: TypeAlias = Back | Number | Moment | str


class Ancestry(Protocol[M]):
    """What finding a snapshot asks of a history."""

    def back(self, head: M, steps: int) -> M | None:
        """The snapshot so many before ``head``; None if there are fewer."""

    def at(self, head: M, moment: Moment) -> M | None:
        """The newest snapshot up to ``head`` that a moment includes."""

    def ids(self, head: M) -> Sequence[str]:
        """All ids up to ``head``, oldest first."""


class ParentLinks(Generic[M]):
    """The ancestry of a history without segments: one read a snapshot, as far as needed."""

    def __init__(self, chain: Chain[M]) -> None:
        self._chain = chain

    def back(self, head: M, steps: int) -> M | None:
        return next(islice(self._chain.back(head), steps, None), None)

    def at(self, head: M, moment: Moment) -> M | None:
        return next(filter(moment.includes, self._chain.back(head)), None)

    def ids(self, head: M) -> list[str]:
        return [manifest.snapshot_id for manifest in self._chain.back(head)][::-1]


def parsed(ref: Ref) -> SnapshotRef:
    """What a reference says; the store is not asked.

    Raises:
        InvalidOptionError: It has the form of a number, a date or a time, and is none.
        InvalidPathError: It cannot be an id.
    """
    match ref:
        case bool():
            pass
        case int():
            return Number(ref)
        case date():
            return moment_of(ref)
        case ExactId():
            pass
        case str():
            if match := _LATEST.fullmatch(ref):
                return Back(int(match[1] or 0))
            if _NUMBER.fullmatch(ref):
                return Number(int(ref))
            if match := _TIME.fullmatch(ref):
                return _parsed_time(ref, match[1], match[2])
            if ref.startswith("latest~"):
                raise InvalidOptionError(f"{shortened(ref)} is not a snapshot: write latest~2 for two back")
    return check_id(ref, kind="snapshot")  # type: ignore[arg-type]  # refuses what is no text


def is_id(text: str) -> bool:
    """Whether a text that is an id is also taken as one. Ids of other programs may look like a number."""
    try:
        return isinstance(parsed(text), str)
    except (InvalidOptionError, InvalidPathError):
        return False


def as_text(ref: Ref | Snapshot) -> str:
    """A text that names the same snapshot, for options that are text."""
    if isinstance(ref, Snapshot):
        if not is_id(ref.id):
            raise InvalidOptionError(
                f"snapshot id {ref.id!r} means another snapshot as text: name it by its number in lode log"
            )
        return ref.id
    parsed(ref)  # refuses a datetime without a zone, which a text would be in UTC
    return ref.isoformat() if isinstance(ref, date) else str(ref)


def find(wanted: SnapshotRef, chain: Chain[M], ancestry: Ancestry[M], head: Callable[[], M | None]) -> M:
    """The snapshot that a reference names.

    An id is one read. ``head`` is asked for everything else.

    Raises:
        NotFoundError: There is no such snapshot.
        NoSnapshotsError: There was none at that time.
        InvalidOptionError: Several ids begin so.
    """
    if isinstance(wanted, ExactId):
        return chain.require(wanted)
    if isinstance(wanted, str):
        return chain.manifest(wanted) or _tagged(wanted, chain) or _beginning(wanted, chain, ancestry, head())
    newest = head()
    if isinstance(wanted, Moment):
        found = ancestry.at(newest, wanted) if newest is not None else None
        if found is None:
            raise _none_then(wanted, chain, newest, ancestry)
        return found
    if newest is None:
        if isinstance(wanted, Back):
            raise chain.empty()
        raise _missing(chain, str(wanted), "it has none yet")
    length = chain.sequence_of(newest)
    steps = wanted.steps if isinstance(wanted, Back) else length - wanted.value
    found = ancestry.back(newest, steps) if 0 <= steps < length else None
    if found is None:
        first = newest.begins
        count = f"{length - first + 1:,}, numbered from {first:,}"
        raise _missing(chain, str(wanted), f"it has {count}")
    return found


def newer_than(start: Moment | str, newest_first: Iterable[M], chain: Chain[M], end: M | None) -> Iterator[M]:
    """The snapshots of a walk from ``end`` back that come after a time or an id.

    Raises:
        NotFoundError: The walk ends without the id.
    """
    for manifest in newest_first:
        if start.includes(manifest) if isinstance(start, Moment) else manifest.snapshot_id == start:
            return
        yield manifest
    if isinstance(start, str):
        raise NotFoundError(
            f"snapshot {start!r} is not in the history of {chain.name}"
            + (f" up to {end.snapshot_id!r}" if end else ", which is empty")
        )


def check_new_snapshot_id(id: str) -> str:
    """Return an id that a new snapshot may have. One that means something else in this grammar is refused."""
    if check_new_id(id, kind="snapshot").endswith(DROP_SUFFIX):
        raise InvalidPathError(
            f"snapshot id {id!r} ends with {DROP_SUFFIX}, as those of drops: choose another"
        )
    return _check_meaning(id, "snapshot id", f"run-{id}")


def check_new_tag(name: str) -> str:
    """Return a name that a new tag may have. One that means something else in this grammar is refused."""
    _check_meaning(check_new_id(name, kind="tag"), "tag", f"v{name}")
    if len(f"{name}{SUFFIX}".encode()) > MAX_ID_BYTES:
        raise InvalidPathError(
            f"tag {name[:40]!r}… is too long: choose one of {MAX_ID_BYTES - len(SUFFIX)} bytes at most"
        )
    return name


def _check_meaning(name: str, kind: str, example: str) -> str:
    if name == "latest" or name.startswith("latest~") or _NUMBER.fullmatch(name) or _TIME.fullmatch(name):
        raise InvalidPathError(
            f"{kind} {name!r} looks like a number, a date or latest, which name a snapshot by its place: "
            f"choose another, such as {example}"
        )
    return name


def _tagged(name: str, chain: Chain[M]) -> M | None:
    """The snapshot that a tag names; None if there is no such tag."""
    tag = load_tag(chain, name)
    if tag is None:
        return None
    found = chain.manifest(tag.snapshot_id)
    if found is None:
        raise missing_target(chain, tag)
    return found


def _beginning(start: str, chain: Chain[M], ancestry: Ancestry[M], head: M | None) -> M:
    ids = ancestry.ids(head) if head is not None else ()
    found = unique_beginning(start, ids, chain.name)
    if found is None:
        known = ["latest", *islice(tag_names(chain), 499), *islice(reversed(ids), 500)]
        hint = question(near(start, known))
        raise _missing(chain, start, hint or f"name it by {_EXAMPLES}")
    return chain.require(found)


def unique_beginning(start: str, ids: Sequence[str], name: str) -> str | None:
    """The only id that begins so; None if there is none.

    Raises:
        InvalidOptionError: Several ids begin so.
    """
    alike = [id for id in ids if id.startswith(start)]
    if len(alike) > 1:
        shown = ", ".join(alike[:3]) + (", …" if len(alike) > 3 else "")
        raise InvalidOptionError(
            f"{len(alike):,} snapshots of {name} begin with {shortened(start)} ({shown}): give more of the id"
        )
    return alike[0] if alike else None


def _missing(chain: Chain[M], name: str, hint: str) -> NotFoundError:
    return NotFoundError(f"{chain.name} has no snapshot {shortened(name)} in {chain.store.url}: {hint}")


def _none_then(wanted: Moment, chain: Chain[M], head: M | None, ancestry: Ancestry[M]) -> NoSnapshotsError:
    if head is None:
        return NoSnapshotsError(f"{chain.name} in {chain.store.url} had no snapshots at {wanted.text}")
    first = ancestry.back(head, chain.sequence_of(head) - 1)
    day = "; a date means 00:00 UTC, when it begins: name the next day for all of it" if wanted.is_day else ""
    since = f": the first is of {first.created_at}" if first is not None else ""
    return NoSnapshotsError(f"{chain.name} had no snapshots at {wanted.text}{since}{day}")


def moment_of(when: date) -> Moment:
    """A date or a time as a moment."""
    if not isinstance(when, datetime):
        return _at_midnight(when)
    if when.tzinfo is None or when.utcoffset() is None:
        raise InvalidOptionError(
            f"the time {when.isoformat()} has no time zone: give it one, such as tzinfo=UTC"
        )
    # Snapshots have nanoseconds. All of the same microsecond count.
    return Moment(datetime_to_ns(when) // 1000 * 1000 + 999, when.isoformat())


def _at_midnight(day: date) -> Moment:
    began = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return Moment(moment_of(began).nanoseconds, f"{day.isoformat()}T00:00Z", is_day=True)


def _parsed_time(text: str, day: str, clock: str | None) -> Moment:
    try:
        if clock is None:
            return _at_midnight(text_to_date(day))
        found = _CLOCK.fullmatch(clock)
        if found is None:
            raise ValueError(clock)
        digits, zone = found[2] or "", (found[3] or "Z").upper()
        micros = parse_timestamp(f"{day}T{found[1][:8]}{zone}")
    except ValueError:
        raise InvalidOptionError(
            f"{shortened(text)} is not a date or a time: write 2026-11-15, or 2026-11-15T12:00Z"
        ) from None
    # As of a datetime: all of the same microsecond, unless the text says more.
    nanoseconds = int(digits[:9].ljust(9, "0") if len(digits) > 6 else digits.ljust(6, "0") + "999")
    shown = text if found[3] else f"{text}Z"
    return Moment(micros * 1000 + nanoseconds, shown)
