"""Build the site of the documentation.

``./run docs`` builds it into ``site/``, ``./run docs DIRECTORY`` elsewhere; ``./run docs serve`` shows it
while you write. Everything that the site needs is in the project and its dependencies: no network is used. A
warning is an error, so a link or an anchor that leads nowhere ends the build with exit code 1.
"""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parent
SITE = DOCS.parent / "site"


def paths(site: Path) -> list[str]:
    """What Sphinx is given: where it keeps parsed pages, the source, and the site."""
    return ["-d", str(site.with_name(f".{site.name}-doctrees")), str(DOCS), str(site)]


def build(site: Path) -> int:
    """Build the site; return the exit code."""
    from sphinx.cmd.build import build_main

    return build_main(["--quiet", "--fail-on-warning", "--keep-going", *paths(site)])


def serve(arguments: list[str]) -> None:
    """Serve the site on this machine, and build it again when a page or a docstring changes."""
    from sphinx_autobuild.__main__ import main

    watched = ["--watch", str(DOCS.parent / "src"), "--watch", str(DOCS.parent / "CHANGELOG.md")]
    main([*watched, *paths(SITE), *arguments])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", *arguments]:
            serve(arguments)
        case [] | [_]:
            target = Path(*sys.argv[1:]) if sys.argv[1:] else SITE
            if code := build(target):
                sys.exit(code)
            print(target / "index.html")
        case _:
            sys.exit("usage: ./run docs [DIRECTORY | serve [--port PORT]]")
