"""Throw every bomb at a server, and write a table: ``python -m support.bombs.bench [WORDS]``."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from support.bombs.every import all_bombs
from support.bombs.served import FLAGS, MIB, Served

_HEAD = (
    "| bomb | made | ends after | health | insert / append | server | children (count) | end |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("words", nargs="*", help="only bombs whose id contains one of these")
    options.add_argument("--seconds", type=float, default=25, help="when a bomb counts as endless")
    options.add_argument("--guard", type=int, default=6 << 30, help="bytes at which the server is killed")
    options.add_argument("--out", type=Path, help="also append the table to this file")
    given = options.parse_args()
    served: Served | None = None
    with tempfile.TemporaryDirectory() as folder:
        for number, bomb in enumerate(all_bombs()):
            if given.words and not any(word in bomb.id for word in given.words):
                continue
            made = bomb.make()
            if served is None:
                root = Path(folder, str(number))
                root.mkdir()
                served = Served(root, *FLAGS, guard_bytes=given.guard)
            began = time.monotonic()
            with served.watched() as seen:
                end = bomb.throw(served, made, given.seconds)
                seconds = time.monotonic() - began
            saw = seen[0]
            size = f"{len(made):,} B" if isinstance(made, str | bytes) else ""
            row = (
                f"| {bomb.id} | {size} | {seconds:.1f} s | {saw.health:.2f} s | "
                f"{saw.insert:.2f} s / {saw.append:.2f} s | "
                f"{saw.own // MIB:,} MiB | {saw.children // MIB:,} MiB ({saw.count}) | "
                f"{'**KILLED** ' if saw.killed else ''}{str(end)[:110].replace('|', '/')} |\n"
            )
            sys.stdout.write(row)
            sys.stdout.flush()
            if given.out is not None:
                with given.out.open("a") as out:
                    out.write(row)
            bit = (
                saw.killed
                or end.status == 0
                or max(saw.health, saw.insert, saw.append) > 2
                or saw.own > 800 * MIB
            )
            if bit or not served.is_alive:
                served.close()
                served = None
        if served is not None:
            served.close()


if __name__ == "__main__":
    main()
