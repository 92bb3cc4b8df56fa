"""Draws the pictures of the pages. Run as `python -m tools.pictures`.

Pictures are dark on white; `docs/_static/site.css` inverts them where the page is dark. They need
no script and nothing from the network.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path

from tools import figures

FOLDER = Path(__file__).parent.parent / "docs" / "_static"
BAR_COLORS = ["#0b6e8a", "#4fa3b8", "#e08a1e"]

#: The rooms of the architecture: the center of each box.
ROOMS = {
    "commands": (510, 30),
    "fx": (120, 90), "export": (375, 90), "distributed": (510, 90),
    "rare": (120, 160), "func": (255, 160), "optim": (375, 160), "checkpoint": (510, 160),
    "distributions": (665, 160),
    "nn": (375, 230),
    "amp": (120, 300), "compile": (265, 300), "sparse": (390, 300), "autograd": (530, 300),
    "ops": (375, 370), "random": (375, 440),
}  # fmt: skip
#: Which room imports which, without imports that follow from others. `core` is the box of FOLDERS.
ARROWS = {
    "commands": ["distributed"],
    "fx": ["rare"], "export": ["func", "checkpoint"], "distributed": ["checkpoint"],
    "rare": ["nn", "amp"], "func": ["nn"], "optim": ["nn"], "checkpoint": ["nn"],
    "distributions": ["autograd"],
    "nn": ["compile", "sparse", "autograd"],
    "amp": ["ops"], "compile": ["ops"], "sparse": ["ops"], "autograd": ["ops"],
    "ops": ["random"], "random": ["core"],
}  # fmt: skip
#: The folders of the core, each of which may import those after it.
FOLDERS = [
    "operators", "tape", "values", "kernels", "fusion", "programs", "devices", "interpreter",
    "support",
]  # fmt: skip


def models_picture(models: dict[str, dict[str, float]]) -> str:
    """Bars for the compiled steps of `tools.figures`, with a line at PyTorch's time."""
    left, scale, top = 200, 400, 44
    parts, y = [], top
    for model, settings in models.items():
        parts.append(_text(left - 70, y + 14, model, "end", "bold"))
        for setting, ratio in settings.items():
            color = BAR_COLORS[[*figures.SETTINGS.values()].index(setting)]
            parts.append(_text(left - 8, y + 14, setting, "end"))
            parts.append(_rect(left, y + 2, round(scale * ratio), 16, color))
            parts.append(_text(left + scale + 12, y + 14, figures.cell(ratio)))
            y += 21
        y += 12
    line = left + scale
    parts.append(f'<path d="M{line} 32V{y - 8}" stroke="#444" stroke-dasharray="4 3"/>')
    parts.append(_text(line, 22, "PyTorch, eager: 1.00", "middle"))
    return _svg(720, y + 4, "Time of a compiled training step, as a ratio to PyTorch eager", parts)


def rooms_picture() -> str:
    """The rooms, an arrow for each import, and the core on top of JAX."""
    parts = [_rect(18, 484, 724, 84, "#eef3f5", "#7b8a90"), _text(34, 504, "core", "start", "bold")]
    for room, (x, y) in ROOMS.items():
        parts.append(_box(x, y, room, 8 * len(room) + 28))
        for below in ARROWS[room]:
            to_x, to_y = (x, 500) if below == "core" else ROOMS[below]
            parts.append(_arrow(x, y + 15, to_x, to_y - 16))
    x = 30
    for number, folder in enumerate(FOLDERS):
        width = 6.4 * len(folder) + 15
        parts.append(_box(x + width / 2, 536, folder, width, 12))
        if number:
            parts.append(_arrow(x - 12, 536, x - 1, 536))
        x += width + 13
    parts += [_arrow(375, 568, 375, 593), _box(375, 609, "JAX", 60)]
    return _svg(760, 632, "The rooms of the package and their imports, from fx down to JAX", parts)


def _svg(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    font = 'font-family="system-ui, sans-serif" font-size="13" fill="#1c1e21"'
    size = f'viewBox="0 0 {width} {height}" width="{width}"'
    tip = 'id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>',
        f"<title>{escape(title)}</title>",
        f'<marker {tip} orient="auto"><path d="M0 0L8 4L0 8z" fill="#555"/></marker>',
        _rect(0, 0, width, height, "#ffffff"),
        *parts,
        "</svg>",
    ]
    return "\n".join([*lines, ""])


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-weight="{weight}"'
    return f"<text {place}>{escape(text)}</text>"


def _rect(x: float, y: float, width: float, height: float, fill: str, line: str = "none") -> str:
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"'
    return f'<rect {place} fill="{fill}" stroke="{line}"/>'


def _box(x: float, y: float, text: str, width: float, size: int = 13) -> str:
    label = f'<g font-size="{size}">{_text(x, y + 5, text, "middle")}</g>'
    return _rect(x - width / 2, y - 15, width, 30, "#ffffff", "#0b6e8a") + label


def _arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<path d="M{x:g} {y:g}L{to_x:g} {to_y:g}" stroke="#555" marker-end="url(#tip)"/>'


def pictures() -> dict[str, str]:
    """The text of each picture, by the name of its file."""
    models = models_picture(figures.compiled_steps())
    return {"models.svg": models, "rooms.svg": rooms_picture()}


if __name__ == "__main__":
    for name, text in pictures().items():
        (FOLDER / name).write_text(text)
