"""For MkDocs: the page of the notebook is the notebook itself, with the outputs that are stored in it."""

import json
from pathlib import Path
from typing import Any


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace the text of notebook.md."""
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
