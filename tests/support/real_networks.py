"""The real networks that lie beside the checkout, and how each is fed, from its own documentation."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

CARDS = {
    "fastestdet/FastestDet": "decoder: fastestdet\nlabels_file: {shared}/assets/coco80.txt\n",
    "nanodet_m/nanodet_m_320": "decoder: nanodet\nlabels_file: {shared}/assets/coco80.txt\n",
    "nanodet_m/nanodet_m_416": "decoder: nanodet\nlabels_file: {shared}/assets/coco80.txt\n",
    "ultraface/version-RFB-320": "decoder: ultraface\n",
    "ultraface/version-slim-320": "decoder: ultraface\n",
    "yolox_nano/yolox_nano": (
        "decoder: yolox-raw\nlabels_file: {shared}/assets/coco80.txt\n"
        "input: {{align: top_left, color: bgr, scale: 1}}\n"
    ),
    "yunet/yunet_n_320_320": "decoder: yunet\n",
    "yunet/yunet_n_dynamic": "decoder: yunet\ninput: {{size: [320, 416]}}\n",
}
"""Network under ``shared/assets`` -> what its card says beside name and network."""


def write_card(folder: Path, shared: Path, name: str, more: str = "") -> Path:
    """A folder with the card of a network of ``CARDS``."""
    text = CARDS[name].format(shared=shared)
    (folder / "model.yaml").write_text(
        f"format: 1\nname: {Path(name).name}\nnetwork: {shared}/assets/{name}.onnx\n{text}{more}",
        encoding="utf-8",
    )
    return folder


def bundled() -> list[Path]:
    """The folders of the models that are packed into the wheel."""
    root = Path(str(files("edge_infer.bundled").joinpath("")))
    return sorted(card.parent for card in root.glob("*/model.yaml"))
