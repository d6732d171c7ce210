"""Write the input of the project: three days of visits, and the table of pages.

    python examples/project/fill.py

Run it again for more visits; the next ``lode spark run`` reads only those.
"""

from __future__ import annotations

from pathlib import Path

import lode

LAKE = Path(__file__).parent / "lake"


def main() -> None:
    schema = {"day": "string!", "page": "string!", "agent": "string!", "seconds": "int64!"}
    visits = lode.Dataset("visits", LAKE, codec=lode.Parquet(schema))
    for day in ("2026-11-14", "2026-11-15", "2026-11-16"):
        visits.write(
            {"day": day, "page": page, "agent": agent, "seconds": 30}
            for page in ("/", "/docs", "/blog", "/nowhere")
            for agent in ("firefox", "chrome", "somebot/1.0")
        )
    pages = lode.Dataset("pages", LAKE, codec=lode.Parquet({"page": "string!", "section": "string!"}))
    if not pages.exists:
        pages.write(
            {"page": page, "section": section}
            for page, section in (("/", "home"), ("/docs", "help"), ("/blog", "news"))
        )
    print(f"{visits.count():,} visits in {LAKE}")


if __name__ == "__main__":
    main()
