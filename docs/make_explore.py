"""Draws docs/explore.png, the picture of a page of `dx.explore`, with a Chromium that is installed: run after changes.

python docs/make_explore.py
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

import didax as dx
import didax.numpy as dnp
from didax import nn

# What is pointed at in the picture.
POINT = """<script>window.addEventListener("load", () => {
  const line = panes[0].rows.findIndex((row) => row.text.includes("nn.relu"));
  pin(panes[0].meaning(line), panes[0]);
});</script>"""


def loss(params, images, labels):
    hidden = images
    for layer in params[:-1]:
        hidden = nn.relu(hidden @ layer["w"] + layer["b"])
    logits = hidden @ params[-1]["w"] + params[-1]["b"]
    return -(nn.log_softmax(logits) * nn.one_hot(labels, 10)).sum(-1).mean()


def main() -> None:
    """Write the picture."""
    sizes = [(784, 256), (256, 128), (128, 10)]
    params = [{"w": dnp.ones(size), "b": dnp.zeros(size[1])} for size in sizes]
    page = dx.explore(loss, params, dnp.ones((64, 784)), dnp.zeros(64, int), transform="grad")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("The picture is drawn by Chromium, which is not installed.")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(page.html.replace("</body>", POINT + "</body>"), "utf-8")
        flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-sync",
        ]
        flags += [f"--user-data-dir={folder}/profile", "--window-size=1400,860", "--virtual-time-budget=2000"]
        picture = Path(__file__).with_name("explore.png")
        subprocess.run([chromium, *flags, f"--screenshot={picture}", file.as_uri()], check=True)
    # Few colours are enough, and a third of the bytes.
    Image.open(picture).convert("RGB").quantize(255, kmeans=3).save(picture, optimize=True)


if __name__ == "__main__":
    main()
