"""The course as a static site: `make site`. Lessons as they are saved; nothing is executed or fetched.

Sphinx with myst-nb renders notebooks and Markdown, and builds navigation and search; sphinx-book-theme
has dark, phone and folded cells. latex2mathml turns formulas into MathML, which browsers draw without a
script.
"""

import json
import re
import shutil
import sys
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from helpers.tools.colab import dress_notebook, remote_address  # noqa: E402  (loads no torch)

try:
    REPO = remote_address(ROOT)
except ValueError:  # a copy without a repository on github.com: no Colab links
    REPO = ""

project = "RLHF, by running it"
extensions = ["myst_nb"]
root_doc = "README"
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "notebooks/*.ipynb",
    "notebooks/*.md",
    "docs/*.md",
]
include_patterns += ["*/README.md", "helpers/commands/README.md"]
exclude_patterns = [".*"]
html_theme, html_title = "sphinx_book_theme", project
html_static_path, html_css_files = ["static"], ["site.css"]
html_copy_source, html_show_sphinx, html_math_renderer = False, False, "mathml"
html_theme_options = {
    "home_page_in_toc": True,
    "use_download_button": False,
    "navbar_persistent": [],
}
html_theme_options |= {"repository_url": f"https://github.com/{REPO}"} if REPO else {}
nb_execution_mode = "off"
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
suppress_warnings = [
    "myst.xref_missing",
    "toc.not_included",
]  # links into the source; pages reached by links

SOLUTION = re.compile(r"<details><summary>Solution.*?</details>", re.S)
SETUP = re.compile(r"helpers/tools/colab\.py")  # nothing runs on a site
FOLDS = {"source_hidden": "hide-input", "outputs_hidden": "hide-output"}
LESSONS = "\n\n```{toctree}\n:hidden:\n:glob:\n\nnotebooks/*\ndocs/*\nbenchmarks/README\n```\n"


def prepare_cell(cell: dict) -> None:
    """JupyterLab's folds as tags that myst-nb reads; a solution behind a second fold."""
    if cell["cell_type"] == "markdown":
        twice = "<details><summary>A solution, once yours stands</summary>\n\n{}\n\n</details>"
        cell["source"] = SOLUTION.sub(lambda found: twice.format(found[0]), "".join(cell["source"]))
        return
    source, folds = "".join(cell["source"]), cell["metadata"].get("jupyter", {})
    tags = [tag for fold, tag in FOLDS.items() if folds.get(fold)]
    cell["metadata"]["tags"] = ["hide-cell"] if len(tags) == 2 else tags
    title = re.match(r"# @title (.*)", source)
    prompt = title[1] if title else "Folded: click to see"
    cell["metadata"]["mystnb"] = {"code_prompt_show": prompt, "code_prompt_hide": prompt}


def prepare(app, docname: str, source: list[str]) -> None:
    """A page's text before it is parsed: lessons get folds and their Colab link, README the list of pages."""
    page = r"\[([^][]*)\]\((\.\./)?docs/index\.html\)"  # not among the site's documents
    source[0] = re.sub(page, r"<a href='\2index.html'>\1</a>", source[0])
    if docname == root_doc:
        source[0] += LESSONS
    if app.env.doc2path(docname).suffix != ".ipynb":
        return
    stem = docname.rpartition("/")[2]
    notebook = json.loads(dress_notebook(source[0], stem, REPO) if REPO else source[0])
    notebook["cells"] = [
        cell for cell in notebook["cells"] if not SETUP.search("".join(cell["source"]))
    ]
    for cell in notebook["cells"]:
        prepare_cell(cell)
    source[0] = json.dumps(notebook)


def add_drift_page(app, error: Exception | None) -> None:
    """The drift page is the site's first page; it leads on to the lessons."""
    if error is not None:
        return
    out = Path(app.outdir)
    page = (ROOT / "docs" / "index.html").read_text(encoding="utf-8")
    link = '<p><a href="README.html">The course: fourteen lessons</a></p></header>'
    page = page.replace('href="choosing_beta.md"', 'href="docs/choosing_beta.html"')
    (out / "index.html").write_text(page.replace("</header>", link, 1), encoding="utf-8")
    for folder in ("docs/policies", "notebooks/images"):
        shutil.copytree(ROOT / folder, out / folder.removeprefix("docs/"), dirs_exist_ok=True)


def visit_math(display: str):
    """A formula as MathML; the node has no children."""

    def visit(writer, node) -> None:
        formula = convert(node.astext(), display=display)
        writer.body.append(f'<span class="{display} formula">{formula}</span>')
        raise nodes.SkipNode

    return visit, None


def setup(app) -> None:
    app.connect("source-read", prepare)
    app.connect("build-finished", add_drift_page)
    app.add_html_math_renderer("mathml", visit_math("inline"), visit_math("block"))
