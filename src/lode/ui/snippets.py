"""Lines that open a dataset or a snapshot elsewhere: in Python, on the command line, in SQL and in Spark.

Names come from the store, so anybody who may write there chooses them. Each is quoted for the language that
reads it, and characters that cannot be seen are written as escapes.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from lode.codec.protocol import takes_any_record
from lode.read.define import Foreign, components_named
from lode.read.which import is_id

if TYPE_CHECKING:
    from typing import Any

# Blobs have no rows, JSON records without declared columns need not be alike, and a codec of another program
# is not known here.
Kind: TypeAlias = Literal["blobs", "records", "rows", "foreign"]

_MEMORY: Final = "memory://"
_OBJECTS: Final = ("s3://", "gs://", "az://")


class Target(NamedTuple):
    """What is to be opened: a dataset, or one snapshot of it."""

    url: str
    dataset: str
    kind: Kind
    snapshot: str | None = None
    number: int | None = None


def kind_of(codec: str | None, *, has_columns: bool) -> Kind:
    """What a reader gets from the files of this codec."""
    if codec is None:
        return "blobs"
    found = components_named(codec, "noop", None).codec
    if isinstance(found, Foreign):
        return "foreign"
    return "records" if takes_any_record(found) and not has_columns else "rows"


def snippets(target: Target) -> dict[str, Any]:
    """The lines by language, and a note on what they need."""
    shown = [
        ("Python", _python(target)),
        ("CLI", _cli(target)),
        ("SQL", _sql(target)),
        ("Spark", _spark(target)),
    ]
    return {
        "snippets": [{"label": label, "text": text} for label, text in shown if text is not None],
        "note": _note(target),
    }


def verify_command(url: str, dataset: str) -> str:
    """The command that says what is wrong with a dataset."""
    return _lode("verify", url, [], [dataset])


def doctor_command(url: str) -> str:
    """The command that probes a store with small objects of its own."""
    return f"lode doctor --root {shell_text(url)}"


def shell_text(text: str) -> str:
    """One word for sh, bash and zsh. Text with invisible characters becomes ``$'…'``, for bash and zsh."""
    if text.isprintable():
        # zsh takes a word that begins with "=" for the path of a command.
        return f"'{text}'" if text.startswith("=") and shlex.quote(text) == text else shlex.quote(text)
    return f"$'{''.join(map(_escaped, text))}'"


def _escaped(char: str) -> str:
    # A "!" is escaped too: the history of an interactive shell does not know this kind of quotes.
    if char.isprintable() and char not in "\\'!":
        return char
    # By its bytes: a code point would depend on the locale.
    return "".join(f"\\x{byte:02x}" for byte in char.encode())


def _lode(command: str, url: str, options: list[str], arguments: list[str]) -> str:
    words = ["lode", command, "--root", shell_text(url), *options]
    if any(argument.startswith("-") for argument in arguments):
        words.append("--")
    return " ".join([*words, *map(shell_text, arguments)])


def _reference(target: Target) -> str | None:
    """The snapshot by its id, or by its number if its id means something else as a reference."""
    if target.snapshot is None or is_id(target.snapshot):
        return target.snapshot
    return str(target.number)


def _python(target: Target) -> str:
    lines = ["import lode", "", f"dataset = lode.open_dataset({target.dataset!r}, {target.url!r})"]
    reference = _reference(target)
    whole = reference is None
    if not whole:
        lines.append(f"snapshot = dataset.snapshot({reference!r})")
    match target.kind:
        case "blobs":
            newest = "dataset.latest()" if whole else "snapshot"
            lines += [f"data = dataset.read({newest})", "print(len(data), 'bytes')"]
        case "records":
            history = "dataset.snapshots()" if whole else "[snapshot]"
            lines += [
                f"for each in {history}:",
                "    for record in dataset.read(each):",
                "        print(record)",
            ]
        case "rows" if whole:
            lines += [
                "table = dataset.scan().read_all()",
                "print(table)",
            ]
        case "rows":
            lines += [
                "added = dataset.read(snapshot)  # the rows of this snapshot",
                "table = dataset.scan(as_of=snapshot).read_all()  # all rows up to it",
                "print(table)",
            ]
        case "foreign":
            lines.append("print(dataset.latest())" if whole else "print(snapshot)")
    return "\n".join(lines)


def _cli(target: Target) -> str:
    reference = _reference(target)
    if reference is None:
        which: list[str] = []
        lines = [_lode("log", target.url, ["--number", "10"], [target.dataset])]
    else:
        which = [f"--snapshot={shell_text(reference)}"]
        lines = [_lode("show", target.url, [], [target.dataset, reference])]
    match target.kind:
        case "blobs":
            lines.append(f"{_lode('cat', target.url, which, [target.dataset])} | wc -c")
        case "records" | "rows":
            lines.append(_lode("cat", target.url, [*which, "--limit", "10"], [target.dataset]))
    return "\n".join(lines)


def _sql(target: Target) -> str | None:
    """None where the name cannot be said in a query of ``lode sql``, which reads an @ as a snapshot."""
    reference = _reference(target)
    if target.kind not in ("records", "rows") or "@" in target.dataset:
        return None
    if reference is not None and ('"' in target.dataset or '"' in reference or "@" in reference):
        return None
    name = target.dataset if reference is None else f"{target.dataset}@{reference}"
    quoted = name.replace('"', '""')
    query = shell_text(f'SELECT * FROM "{quoted}" LIMIT 10')
    # A name with a quote is not found in the query, so it is given by itself.
    also = f" --dataset={shell_text(target.dataset)}" if '"' in target.dataset else ""
    return f"lode sql --root {shell_text(target.url)}{also} {query}"


def _spark(target: Target) -> str | None:
    if target.kind not in ("records", "rows"):
        return None
    reference = _reference(target)
    which = "" if reference is None else f", snapshot={reference!r}"
    return "\n".join(
        [
            "import lode.spark",
            "",
            "spark = lode.spark.session()",
            f"frame = lode.spark.read(spark, {target.url!r}, {target.dataset!r}{which})",
            "frame.show(10)",
        ]
    )


def _note(target: Target) -> str | None:
    notes = []
    if target.url.startswith(_MEMORY):
        notes.append("This store is in the memory of the server: no other process can open it.")
    if target.url.startswith(_OBJECTS):
        notes.append("Credentials and options of the store are not part of it.")
    if target.kind == "foreign":
        notes.append("Its rows need the codec of the program that wrote them.")
    if target.kind == "records":
        notes.append("SQL and Spark need records that agree about their columns.")
    return " ".join(notes) or None
