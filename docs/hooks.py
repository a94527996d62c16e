"""For MkDocs: the pages of the studies are their READMEs, and the page of the notebook is the notebook itself."""

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: Any) -> Files:
    """Add the READMEs of the studies and their figures."""
    pages = [*sorted(ROOT.glob("studies/*.md")), *sorted(ROOT.glob("studies/*/*.md"))]
    for path in [*pages, *sorted(ROOT.glob("studies/*/figures/*.svg"))]:
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace the text of notebook.md; links between docs/ and studies/ lead there in a clone and on the site."""
    markdown = re.sub(r"\]\(((?:\.\./)+)docs/", r"](\1", markdown)
    markdown = re.sub(r"\]\(\.\./((?:\.\./)*studies/)", r"](\1", markdown)
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
