"""Code that opens a dataset or a snapshot: in Python, on the command line, in SQL and in Spark.

Names come from the store and are not trusted. Each is quoted for its language, and invisible characters are
escaped.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from lode.codec.protocol import takes_any_record
from lode.read.define import Foreign, components_named
from lode.read.which import is_id

if TYPE_CHECKING:
    from typing import Any

# Blobs have no rows. JSON records without declared columns may differ in their fields. A foreign codec is not
# known here.
Kind: TypeAlias = Literal["blobs", "records", "rows", "foreign"]

_MEMORY: Final = "memory://"
_OBJECTS: Final = ("s3://", "gs://", "az://")


class SnippetTarget(NamedTuple):
    """The dataset to open, or one snapshot of it."""

    url: str
    dataset: str
    kind: Kind
    snapshot: str | None = None
    number: int | None = None


def kind_of(codec: str | None, *, has_columns: bool) -> Kind:
    """The kind of data in files of this codec."""
    if codec is None:
        return "blobs"
    found = components_named(codec, "noop", None).codec
    if isinstance(found, Foreign):
        return "foreign"
    return "records" if takes_any_record(found) and not has_columns else "rows"


def snippets(target: SnippetTarget) -> dict[str, Any]:
    """The snippets by language, and a note on their requirements."""
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
    """The command that checks a dataset."""
    return _lode("verify", url, [], [dataset])


def doctor_command(url: str) -> str:
    """The command that probes a store."""
    return f"lode doctor --root {shell_text(url)}"


def shell_text(text: str) -> str:
    """One word for sh, bash and zsh. Text with invisible characters becomes ``$'…'``, for bash and zsh."""
    if text.isprintable():
        # zsh expands a word that begins with "=" to the path of a command.
        return f"'{text}'" if text.startswith("=") and shlex.quote(text) == text else shlex.quote(text)
    return f"$'{''.join(map(_escaped, text))}'"


def _escaped(char: str) -> str:
    # Also "!", since the history expansion of an interactive shell ignores this kind of quotes.
    if char.isprintable() and char not in "\\'!":
        return char
    # As bytes, since the meaning of a code point depends on the locale.
    return "".join(f"\\x{byte:02x}" for byte in char.encode())


def _lode(command: str, url: str, options: list[str], arguments: list[str]) -> str:
    words = ["lode", command, "--root", shell_text(url), *options]
    if any(argument.startswith("-") for argument in arguments):
        words.append("--")
    return " ".join([*words, *map(shell_text, arguments)])


def _reference(target: SnippetTarget) -> str | None:
    """The id of the snapshot, or its number if the id would be read as another reference."""
    if target.snapshot is None or is_id(target.snapshot):
        return target.snapshot
    return str(target.number)


def _python(target: SnippetTarget) -> str:
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
                "    for record in dataset.read(each):  # as this snapshot added it",
                "        print(record)",
            ]
        case "rows" if whole:
            lines += ["table = dataset.scan().read_all()", "print(table)"]
        case "rows":
            lines += [
                "added = dataset.read(snapshot)  # the rows of this snapshot",
                "table = dataset.scan(as_of=snapshot).read_all()  # all rows up to it",
                "print(table)",
            ]
        case "foreign":
            lines.append("print(dataset.latest())" if whole else "print(snapshot)")
    return "\n".join(lines)


def _cli(target: SnippetTarget) -> str:
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


def _sql(target: SnippetTarget) -> str | None:
    """None if a query of ``lode sql`` cannot name the dataset, since ``@`` separates the snapshot."""
    reference = _reference(target)
    if target.kind not in ("records", "rows") or "@" in target.dataset:
        return None
    if reference is not None and ('"' in target.dataset or '"' in reference or "@" in reference):
        return None
    name = target.dataset if reference is None else f"{target.dataset}@{reference}"
    quoted = name.replace('"', '""')
    query = shell_text(f'SELECT * FROM "{quoted}" LIMIT 10')
    # lode sql does not find a name with a quote in the query, so an option names it too.
    also = f" --dataset={shell_text(target.dataset)}" if '"' in target.dataset else ""
    return f"lode sql --root {shell_text(target.url)}{also} {query}"


def _spark(target: SnippetTarget) -> str | None:
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


def _note(target: SnippetTarget) -> str | None:
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
