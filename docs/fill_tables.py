"""Put the tables of `results/` into pages, between `<!-- table: PATH -->` and `<!-- end -->`."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    page for page in (ROOT / "README.md", *sorted(DOCS.rglob("*.md"))) if "<!-- table: " in page.read_text("utf-8")
]


def filled(text: str) -> str:
    """`text` with every marked table as its file has it."""
    pattern = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
    return pattern.sub(lambda m: m[1] + (ROOT / m[2]).read_text(encoding="utf-8") + m[3], text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
