"""Run a notebook top to bottom and store what its cells show: `python tools/run_notebook.py docs/notebook.ipynb`.

Enough of Jupyter for plain cells: what is printed, and the last expression as a picture or as text.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def run(notebook: dict[str, Any]) -> None:
    """Execute the code cells in one namespace and replace their outputs."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cell for cell in notebook["cells"] if cell["cell_type"] == "code"):
        code, printed = ast.parse("".join(cell["source"])), io.StringIO()
        shown = ast.Expression(code.body.pop().value) if isinstance(code.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"<cell {number}>", "exec"), namespace)
            value = None if shown is None else eval(compile(shown, f"<cell {number}>", "eval"), namespace)
        outputs = [] if value is None else [_displayed(value)]
        if printed.getvalue():
            outputs.insert(0, {"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(True)})
        cell["outputs"], cell["execution_count"] = outputs, number + 1


def _displayed(value: Any) -> dict[str, Any]:
    """The output of an expression: a figure as PNG, anything else as text."""
    data: dict[str, Any] = {"text/plain": [repr(value)]}
    if hasattr(value, "savefig"):
        buffer = io.BytesIO()
        value.savefig(buffer, format="png", dpi=90)
        data["image/png"] = base64.b64encode(buffer.getvalue()).decode()
    return {"output_type": "display_data", "data": data, "metadata": {}}


if __name__ == "__main__":
    path = Path(sys.argv[1])
    content = json.loads(path.read_text(encoding="utf-8"))
    run(content)
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
