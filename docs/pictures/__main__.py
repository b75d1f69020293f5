"""Makes the pictures of the README: `python docs/pictures` runs its commands and takes what they show.

terminal.svg is what training, evaluation and prediction write to a terminal; report.png is the page of
that run in a browser (chromium), wide and on a phone. The commands are the README's first `sh` block.
"""

from __future__ import annotations

import argparse
import io
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile

from PIL import Image
from rich.console import Console
from rich.text import Text

HERE = pathlib.Path(__file__).resolve().parent
README = HERE.parents[1] / "README.md"
WIDTH = 118
SHOWN = ("train", "eval", "predict")  # commands whose output is in the picture
_CODES = re.compile(r"(\x1b\[[0-9;?]*[A-Za-z])")
# rich's own frame fetches a font from the web; this one takes the reader's.
_FRAME = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {terminal_width} {terminal_height}">
<style>
.{unique_id}-matrix {{ font: {char_height}px Menlo, Consolas, "DejaVu Sans Mono", monospace; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
<rect fill="#1c2027" width="{terminal_width}" height="{terminal_height}" rx="8" />
<g transform="translate(9, 9) scale(0.98)" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""
_PAGE = """\
<body style="margin:0;display:flex;gap:24px;padding:24px;background:#c9d1dc">
<iframe src="{page}" style="width:1120px;height:1840px;border:0;border-radius:10px"></iframe>
<iframe src="{page}" style="width:390px;height:1840px;border:0;border-radius:24px"></iframe>
</body>
"""


def main() -> None:
    """Writes both pictures; with --folder the runs are made there, and taken from there if they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", help="where the commands run; a temporary folder by default")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(parser.parse_args().folder or temporary)
        folder.mkdir(exist_ok=True)
        draw_terminal([(words, on_a_terminal(words, folder)) for words in commands()])
        draw_report(folder)


def commands() -> list[str]:
    """The lines of the README's first block that is marked `sh`."""
    text = README.read_text().partition("```sh\n")[2].partition("```")[0]
    return re.sub(r"\s+#.*$", "", text.replace("\\\n", ""), flags=re.MULTILINE).strip().splitlines()


def on_a_terminal(command: str, folder: pathlib.Path) -> list[str]:
    """The lines that stand on a terminal once the command has ended, with their colours."""
    ours, theirs = pty.openpty()
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TERM": "xterm-256color", "COLUMNS": str(WIDTH), "LINES": "40"}
    process = subprocess.Popen(
        ["bash", "-c", command], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment
    )
    os.close(theirs)
    shown = b""
    while piece := _read(ours):
        shown += piece
    os.close(ours)
    if process.wait():
        sys.exit(f"{command}\n{shown.decode()}")
    return screen(shown.decode())


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux's way to say that the other end is closed
        return b""


def screen(written: str) -> list[str]:
    """What is left of a stream in which bars were drawn over and over; knows up, line ends and clearing."""
    lines, row = [""], 0
    for part in _CODES.split(written):
        if part.endswith("A") and part.startswith("\x1b["):
            row -= int(part[2:-1] or 1)
        elif part in ("\x1b[2K", "\x1b[K"):
            lines[row] = ""
        elif part.startswith("\x1b[") and not part.endswith("m"):
            continue
        else:
            for piece in re.split(r"(\r\n|\n|\r)", part):
                row += piece.endswith("\n")
                lines += [""] * (row + 1 - len(lines))
                lines[row] = lines[row] if piece[:1] in ("\r", "\n") else lines[row] + piece
    return lines


def draw_terminal(runs: list[tuple[str, list[str]]]) -> None:
    """terminal.svg."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for command, lines in runs:
        if command.split()[1] not in SHOWN:
            continue
        words = re.sub(r"\s+", " ", command)
        console.print(Text(f"$ {words}", style="bold green"), soft_wrap=False)
        for line in filter(None, lines):
            console.print(Text.from_ansi(line), no_wrap=True, overflow="ellipsis")
        console.print()
    svg = console.export_svg(title="", code_format=_FRAME, unique_id="t")
    (HERE / "terminal.svg").write_text(re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE))


def draw_report(folder: pathlib.Path) -> None:
    """report.png."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit("report.png needs a browser: apt-get install chromium")
    (folder / "around.html").write_text(_PAGE.format(page="runs/moe/eval/report.html"))
    picture = folder / "report.png"
    flags = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--window-size=1606,1888",
        "--force-device-scale-factor=0.7",
    ]
    words = [browser, *flags, f"--screenshot={picture}", f"file://{(folder / 'around.html').resolve()}"]
    subprocess.run(words, check=True, capture_output=True)
    small = Image.open(picture).convert("RGB").quantize(colors=48, dither=Image.Dither.NONE)
    small.save(HERE / "report.png", optimize=True)


if __name__ == "__main__":
    main()
