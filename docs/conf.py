"""The site of the documentation, for Sphinx. `docs/build.py` builds it.

The pages are plain Markdown that also reads well on a code host. What only the site needs is added here: the
navigation, which is read from the tables of ``docs/README.md``, and pages for the changelog and the examples.
"""

from __future__ import annotations

import builtins
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from docutils import nodes
from sphinx.addnodes import pending_xref

import lode

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parent
ROOT = DOCS.parent

project = "Lode"
author = "the authors of Lode"
version = release = lode.__version__
language = "en"
# Quotes stay as they are written, as on a code host.
smartquotes = False

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["images"]
source_suffix = {".md": "markdown"}

# A code host names headings the same way, so a link works in both places.
myst_heading_anchors = 4
myst_enable_extensions = ["html_image"]

autodoc_default_options = {"members": True, "undoc-members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
# Signatures of thirteen arguments are read as a list.
maximum_signature_line_length = 80
add_module_names = False
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"Lode {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/icon.svg"
html_copy_source = False
html_show_copyright = False
html_theme_options = {
    "sidebar_hide_name": False,
    "top_of_page_buttons": [],
    "light_css_variables": {
        "color-brand-primary": "#0f6e6e",
        "color-brand-content": "#0f6e6e",
        "color-brand-visited": "#0f6e6e",
        "color-api-name": "#0f6e6e",
        "color-api-pre-name": "#0f6e6e",
        "color-background-primary": "#ffffff",
        "color-background-secondary": "#faf9f6",
    },
    "dark_css_variables": {
        "color-brand-primary": "#63c9c1",
        "color-brand-content": "#63c9c1",
        "color-brand-visited": "#63c9c1",
        "color-api-name": "#63c9c1",
        "color-api-pre-name": "#63c9c1",
        "color-background-primary": "#14171a",
        "color-background-secondary": "#1a1e22",
    },
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
copybutton_exclude = ".linenos, .gp, .go"

SECTION = re.compile(r"^## ([^\n:]+)[^\n]*\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
PAGE = re.compile(r"\]\(((?!\.\./)[\w/-]+)\.md\)")
EXAMPLE = re.compile(r"\]\(\.\./examples/(\w+)\.py\)")


def navigation(overview: str) -> dict[str, list[str]]:
    """Return the pages of each section of the overview: those that its tables link to, in that order."""
    sections: dict[str, list[str]] = {}
    for title, text in SECTION.findall(overview):
        rows = "\n".join(line for line in text.splitlines() if line.startswith("|"))
        sections[title] = [page for page in PAGE.findall(rows) if page != "index"]
    return {title: pages for title, pages in sections.items() if pages}


def toctree(pages: list[str], caption: str = "") -> str:
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *pages, "```", ""])


def for_the_site(text: str) -> str:
    """Turn links to files beside the documentation into links to their pages on the site."""
    text = text.replace("](../CHANGELOG.md)", "](changelog.md)")
    return EXAMPLE.sub(r"](examples.md#\1)", text)


def add_to_page(_app: Sphinx, page: str, source: list[str]) -> None:
    """Add to the text of a page what only the site has."""
    overview = for_the_site((DOCS / "README.md").read_text())
    if page == "README":
        source[0] = overview
    elif page == "index":
        sections = navigation(overview)
        sections["Start"].append("README")
        source[0] += "".join(toctree(pages, caption) for caption, pages in sections.items())
    elif page == "reference/api":
        pages = sorted(f"python/{found.stem}" for found in DOCS.glob("reference/python/*.md"))
        source[0] += toctree(pages)
    elif page == "changelog":
        source[0] = (ROOT / "CHANGELOG.md").read_text().replace("](docs/", "](")
    elif page == "examples":
        for program in sorted(ROOT.glob("examples/*.py")):
            source[0] += f"\n## {program.stem}\n\n```python\n{program.read_text()}```\n"


def exported() -> dict[str, str]:
    """Map where each public name is defined to the name under which the reference has it."""
    import lode.spark

    return {
        f"{value.__module__}.{value.__qualname__}": f"{module.__name__}.{name}"
        for module in (lode, lode.spark)
        for name in module.__all__
        if hasattr(value := getattr(module, name), "__qualname__")
    }


def hide_signature(
    _app: Sphinx, _kind: str, _name: str, value: Any, _options: Any, signature: str | None, result: str | None
) -> tuple[str | None, str | None]:
    """Hide the constructors of values that Lode returns: callers do not use them."""
    if isinstance(value, type) and (issubclass(value, msgspec.Struct) or value.__module__ == "lode.snapshot"):
        return "", None
    return signature, result


def unlink_builtins(_app: Sphinx, tree: nodes.document) -> None:
    """Take the link from builtin types: Sphinx would lead ``bytes`` to any attribute of that name."""
    for reference in list(tree.findall(pending_xref)):
        if reference.get("refdomain") == "py" and reference["reftarget"] in vars(builtins):
            reference.replace_self(nodes.Text(reference["reftarget"]))


def link_to_exported(app: Sphinx, env: Any, node: Any, contents: Any) -> Any:
    """Resolve a type in a signature, which is named by its module, to its entry in the reference."""
    target = app.config.exported_names.get(node.get("reftarget"))
    if target is None or node.get("refdomain") != "py":
        return None
    return env.get_domain("py").resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, contents)


def setup(app: Sphinx) -> None:
    app.add_config_value("exported_names", exported(), "env", dict)
    app.connect("source-read", add_to_page)
    app.connect("autodoc-process-signature", hide_signature)
    app.connect("doctree-read", unlink_builtins)
    app.connect("missing-reference", link_to_exported)
