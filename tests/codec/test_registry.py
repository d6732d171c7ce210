"""Codecs, compressors and checksums of installed distributions are used by name alone."""

from __future__ import annotations

import sys
from textwrap import dedent
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lode
from lode.cli import main
from lode.codec.checksum import CHECKSUMS
from lode.codec.components import CODECS
from lode.codec.compress import COMPRESSORS
from lode.store import CountingStore, LocalStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lode.codec.protocol import Codec
    from lode.codec.registry import Registry

    Install = Callable[..., None]

CSV = """
    import pyarrow as pa
    import pyarrow.csv as csv

    from lode.codec import to_batch


    class Csv:
        name = "csv"

        def __init__(self, schema=None):
            self.schema = schema

        def with_schema(self, schema):
            return Csv(schema)

        def encode(self, chunks, sink):
            batches = [to_batch(chunk, self.schema, first_row=0) for chunk in chunks]
            out = pa.BufferOutputStream()
            csv.write_csv(pa.Table.from_batches(batches, self.schema), out)
            sink.write(out.getvalue())

        def decode(self, source):
            yield from csv.read_csv(pa.BufferReader(source.read())).to_batches()

        def file_schema(self, source):
            return csv.read_csv(pa.BufferReader(source.read())).schema
    """
NATIVE = """
        def arrow_format(self):
            import pyarrow.dataset as pads

            return pads.CsvFileFormat()
    """
ROWS = pa.table({"n": [1, 2, 3], "name": ["a", "b", "c"]})


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that installs a distribution of one module with entry points."""

    def installed(name: str, module: str, **entry_points: str) -> None:
        site = tmp_path / f"site-{name}"
        metadata = site / f"{name}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        groups = (f"[lode.{group}]\n{entry}\n" for group, entry in entry_points.items())
        (metadata / "entry_points.txt").write_text("".join(groups))
        (site / f"{name}.py").write_text(dedent(module))
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.syspath_prepend(site)

    return installed


@pytest.mark.parametrize("module", [CSV, CSV + NATIVE], ids=["decoded by the codec", "read by pyarrow"])
@pytest.mark.parametrize("compressor", ["noop", "gzip"])
def test_a_codec_of_a_distribution_works_everywhere_by_its_name(
    install: Install, tmp_path: Path, module: str, compressor: str
) -> None:
    install("lode_csv", module, codecs="csv = lode_csv:Csv")
    store = CountingStore(LocalStore(tmp_path / "lake"))
    written = lode.Dataset("rows", store, codec="csv", compressor=compressor)
    written.write(ROWS)
    written.write(ROWS)
    again = lode.Dataset("rows", store)
    assert again.definition.codec == "csv"
    assert again.definition.schema == ROWS.schema
    assert again.scan().read_all() == pa.concat_tables([ROWS, ROWS])
    assert again.scan(columns=["name"], where=pc.field("n") > 2).read_all()["name"].to_pylist() == ["c", "c"]
    store.reset()
    assert again.scan(where="n = 2").read_all()["name"].to_pylist() == ["b", "b"]
    assert ("open_reader" in store.counts) is not (module is not CSV and compressor == "noop")
    assert lode.verify(again).ok
    again.evolve(add={"score": "float64"})
    again.write([{"n": 4, "name": "d", "score": 0.5}])
    assert again.scan().read_all()["score"].to_pylist() == [None] * 6 + [0.5]


def test_the_columns_of_a_dataset_without_a_definition_come_from_its_files(install: Install) -> None:
    install("lode_csv", CSV, codecs="csv = lode_csv:Csv")
    store = MemoryStore()
    lode.Dataset("rows", store, codec="csv").write(ROWS)
    for info in list(store.list()):
        if "definition" in info.path:
            store.delete(info.path)
        elif info.path.endswith("manifest.json"):
            data = store.get(info.path).replace(b'"definition"', b'"unknown"')
            store.delete(info.path)
            store.put(info.path, data)
    assert lode.Dataset("rows", store).definition.schema == ROWS.schema


def test_the_command_line_takes_every_installed_codec(
    install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create = [
        "--root",
        str(tmp_path / "lake"),
        "create",
        "rows",
        "--codec",
        "csv",
        "--schema",
        '{"n": "int64"}',
    ]
    assert main(create) == 2
    assert "unknown codec 'csv'" in capsys.readouterr().err
    install("lode_csv", CSV, codecs="csv = lode_csv:Csv")
    assert main(create) == 0
    assert lode.Dataset("rows", tmp_path / "lake").definition.codec == "csv"


def test_compressors_and_checksums_have_entry_points_too(install: Install) -> None:
    module = """
        from lode.codec import Gzip, Md5

        class Small(Gzip):
            name = "small"
            extension = ".small"

        class Digest(Md5):
            name = "digest"
        """
    install(
        "lode_small", module, compressors="small = lode_small:Small", checksums="digest = lode_small:Digest"
    )
    store = MemoryStore()
    lode.Dataset("rows", store, codec="jsonl", compressor="small", checksum="digest").write([{"n": 1}])
    again = lode.Dataset("rows", store)
    assert again.read(again.latest().id) == [{"n": 1}]
    assert lode.verify(again).ok


def test_a_codec_that_is_not_installed_hides_only_the_rows(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    with monkeypatch.context() as patched:
        install("lode_csv", CSV, codecs="csv = lode_csv:Csv")
        lode.Dataset("rows", store, codec="csv").write(ROWS)
        patched.setattr(sys, "path", [path for path in sys.path if "site-lode_csv" not in path])
        again = lode.Dataset("rows", store)
        assert again.latest().row_count == 3
        assert lode.verify(again).ok
        with pytest.raises(lode.InvalidFormatError, match="codec 'csv', which no installed distribution has"):
            again.read(again.latest().id)


@pytest.mark.parametrize(
    ("module", "entry", "message"),
    [
        (
            "import nothing_of_this_name",
            "csv = lode_broken:Csv",
            "lode_broken 1.0 cannot be loaded .*nothing_of",
        ),
        ("Csv = 3", "csv = lode_broken:Csv", "cannot be loaded from lode_broken:Csv: TypeError"),
        (CSV, "comma = lode_broken:Csv", "codec 'comma' of lode_broken 1.0 calls itself 'csv'"),
    ],
)
def test_an_entry_point_that_cannot_be_used_is_an_error_with_the_distribution(
    install: Install, module: str, entry: str, message: str
) -> None:
    install("lode_broken", module, codecs=entry)
    name = entry.partition(" ")[0]
    with pytest.raises(lode.InvalidOptionError, match=message):
        lode.Dataset("rows", MemoryStore(), codec=name)


def test_two_distributions_cannot_have_one_codec(install: Install) -> None:
    install("lode_one", CSV, codecs="csv = lode_one:Csv")
    install("lode_two", CSV, codecs="csv = lode_two:Csv")
    with pytest.raises(lode.InvalidOptionError, match=r"lode_one 1\.0 and lode_two 1\.0: uninstall"):
        lode.Dataset("rows", MemoryStore(), codec="csv")


def test_no_distribution_replaces_a_codec_of_lode(install: Install) -> None:
    install("lode_csv", CSV, codecs="jsonl = lode_csv:Csv")
    assert CODECS.get("jsonl") == lode.JSONL()


@pytest.mark.parametrize(
    ("registry", "names"),
    [
        (CODECS, ("parquet", "jsonl", "arrow")),
        (COMPRESSORS, ("noop", "gzip", "zstd")),
        (CHECKSUMS, ("md5", "sha256", "xxh3-128")),
    ],
)
def test_lode_knows_its_own_by_name(registry: Registry[Codec], names: tuple[str, ...]) -> None:
    assert registry.names == names
    assert [registry.get(name).name for name in names] == list(names)
    with pytest.raises(lode.InvalidOptionError, match=f"unknown .*: did you mean '{names[0]}'"):
        registry.get(f"{names[0]}x")
