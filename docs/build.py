"""Build the site of the documentation into ``site/``: ``./run docs``; ``./run docs serve`` shows it as you write.

Everything the site needs is in the project and its dependencies: no network is used. A warning is an error, so
a link or an anchor that leads nowhere ends the build with exit code 1.
"""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parent
SITE = DOCS.parent / "site"
DOCTREES = DOCS.parent / ".doctrees"


def build(site: Path = SITE, doctrees: Path = DOCTREES) -> int:
    """Build the site; return the exit code."""
    from sphinx.cmd.build import build_main

    return build_main(
        ["--quiet", "--fail-on-warning", "--keep-going", "-d", str(doctrees), str(DOCS), str(site)]
    )


def serve(arguments: list[str]) -> None:
    """Serve the site on this machine, and build it again when a page or a docstring changes."""
    from sphinx_autobuild.__main__ import main

    watched = ["--watch", str(DOCS.parent / "src"), "--watch", str(DOCS.parent / "CHANGELOG.md")]
    main([*watched, "-d", str(DOCTREES), str(DOCS), str(SITE), *arguments])


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            code = build()
            if code == 0:
                print(f"{SITE / 'index.html'}")
            sys.exit(code)
        case ["serve", *arguments]:
            serve(arguments)
        case _:
            sys.exit("usage: ./run docs [serve [--port PORT]]")
