"""For MkDocs: pages from outside docs/ (READMEs of studies, CONTRIBUTING, CHANGELOG, the notebook), and anchors."""

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel
from pymdownx.slugs import slugify

ROOT = Path(__file__).parents[1]
PAGES = ("CONTRIBUTING.md", "CHANGELOG.md")
"""Pages at the root of the repository."""
OUTSIDE = "|".join(("studies/", *map(re.escape, PAGES)))


def on_config(config: Any) -> Any:
    """Anchors as on GitHub, which keeps letters such as λ."""
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages, and the figures, scripts and outputs that they link to."""
    patterns = ("studies/*.md", "studies/*/*.md", "studies/*/figures/*.svg", "studies/*/*.py", "studies/*/*.txt")
    paths = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
    for path in [ROOT / name for name in PAGES] + paths:
        file = File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path))
        file.inclusion = InclusionLevel.INCLUDED
        files.append(file)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Make the notebook a page, and let links to pages outside docs/ work in a clone and on the site."""
    markdown = re.sub(r"\]\(((?:\.\./)*)docs/", r"](\1", markdown)
    markdown = re.sub(rf"\]\(\.\./((?:\.\./)*(?:{OUTSIDE}))", r"](\1", markdown)
    if page.file.src_uri != "notebook.md":
        return markdown
    notebook = json.loads((Path(__file__).parent / "notebook.ipynb").read_text(encoding="utf-8"))
    parts = [part for cell in notebook["cells"] for part in _parts(cell)]
    return "\n\n".join([parts[0], "[The notebook as a file](notebook.ipynb)", *parts[1:]])


def _parts(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    found = [f"```python\n{source}\n```"]
    for output in cell["outputs"]:
        if "text" in output:
            found.append(f"```text\n{''.join(output['text'])}\n```")
        elif "image/png" in output["data"]:
            found.append(f'<img alt="output of the cell" src="data:image/png;base64,{output["data"]["image/png"]}">')
    return found
