"""Pages in one HTML file: text, tables, SVG pictures and folded parts; no script, nothing loaded from elsewhere.

Every function returns HTML and escapes the text that it is given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto; max-width: 54rem;
  padding: 1.5rem 1rem 4rem; overflow-wrap: break-word; }
h1 { font-size: 1.2rem; font-weight: 600; margin: 0 0 .5rem; color: #555; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.answer { font-size: 1.25rem; line-height: 1.4; margin: 0 0 1rem; }
figure { margin: 1rem 0; } figure svg { width: 100%; height: auto; }
figcaption, .note { color: #555; font-size: .9rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #e3e3e3; vertical-align: top; }
td.number, th.number { text-align: right; } td.number { white-space: nowrap; }
tr.first td { font-weight: 600; background: #eef5fa; } tr.apart td { color: #555; }
pre { background: #f5f5f5; padding: .7rem .9rem; overflow-x: auto; font-size: .85rem; white-space: pre-wrap; }
details { margin: 1rem 0; } summary { cursor: pointer; font-weight: 600; }
"""


def page(title: str, *parts: str) -> str:
    """A whole document."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    body = "\n".join(part for part in parts if part)
    top = f'<!doctype html>\n<html lang="en"><head>{head}\n<style>{_STYLE}</style></head>'
    return f"{top}\n<body>\n{body}\n</body></html>\n"


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph. Args: kind: "answer" for the first sentence, "note" for small print."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def code(text: str) -> str:
    """Code, or lines for a shell."""
    return f"<pre><code>{escape(text)}</code></pre>"


def listed(texts: Sequence[str]) -> str:
    """A bulleted list; "" for no texts."""
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>" if texts else ""


def folded(summary: str, *parts: str) -> str:
    """Parts that open at a click; "" for empty parts."""
    body = "\n".join(part for part in parts if part)
    return f"<details><summary>{escape(summary)}</summary>\n{body}\n</details>" if body else ""


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], kinds: Sequence[str] = (), numbers: Sequence[int] = ()
) -> str:
    """A table. Args: kinds: of rows, "first", "apart" or "". numbers: columns that are aligned to the right."""
    places = set(numbers)

    def cell(tag: str, place: int, text: str) -> str:
        return f"<{tag}{' class=number' if place in places else ''}>{escape(text)}</{tag}>"

    head = "".join(cell("th", k, name) for k, name in enumerate(columns))
    body = [
        f'<tr class="{kind}">' + "".join(cell("td", k, text) for k, text in enumerate(row)) + "</tr>"
        for row, kind in zip(rows, kinds or [""] * len(rows), strict=True)
    ]
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{chr(10).join(body)}\n</tbody></table>"


def picture(svg: str, alt: str, caption: str = "") -> str:
    """An SVG document inside the page; names in it get a prefix of their own, so that two pictures do not mix."""
    drawing, own = svg[svg.index("<svg") :], f"p{abs(hash_of(svg)):x}-"
    drawing = re.sub(r'\bid="', f'id="{own}', drawing)
    drawing = re.sub(r'(href="#|url\(#)', rf"\g<1>{own}", drawing)
    drawing = drawing.replace("<svg ", f'<svg role="img" aria-label="{escape(alt, quote=True)}" ', 1)
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure>{drawing}{below}</figure>"


def hash_of(text: str) -> int:
    """A number that depends on the text alone (Python's `hash` changes from process to process)."""
    import zlib

    return zlib.crc32(text.encode())
