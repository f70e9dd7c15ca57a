"""Trains the bundled detector from nothing and writes model.onnx.

    python -m venv /tmp/train && /tmp/train/bin/pip install torch numpy opencv-python-headless onnx
    PYTHONPATH=. nice -n 15 /tmp/train/bin/python models/bottles/train.py

Everything is drawn from --seed and the line seeds; torch is needed only here.
"""

from __future__ import annotations

import argparse
import queue
import threading
import time
from collections.abc import Iterator
from functools import lru_cache
from itertools import cycle
from pathlib import Path

import numpy as np
import onnx
import torch
from data import INPUT_HEIGHT, INPUT_WIDTH, LABELS, NARROW, Picture, augment, render
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody uses

STRIDES = (8, 16)
VISIBLE = 0.55
"""Objects of which less is in the view are neither right nor wrong."""


class Conv(nn.Sequential):
    """Convolution, batch norm, ReLU."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, dilation: int = 1
    ) -> None:
        padding = dilation * (kernel // 2)
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        )


class Residual(nn.Module):
    """Two convolutions beside a straight way."""

    def __init__(self, channels: int, dilation: int = 1) -> None:
        super().__init__()
        self.way = nn.Sequential(Conv(channels, channels), Conv(channels, channels, dilation=dilation))

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        return x + self.way(x)


class Detector(nn.Module):
    """(B, 3, 240, 320) RGB 0..1 -> (B, 4 + classes, 1500): cx, cy, w, h in input pixels, class logits.

    Bottles are found at stride 16, everything smaller at stride 8.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fine = nn.Sequential(
            Conv(3, 16, stride=2), Conv(16, 24, stride=2), Residual(24), Conv(24, 48, stride=2), Residual(48)
        )
        self.coarse = nn.Sequential(Conv(48, 64, stride=2), Residual(64), Residual(64, dilation=2))
        self.bridge = Conv(64 + 48, 48, kernel=1)
        self.heads = nn.ModuleList(
            [
                nn.Sequential(Conv(48, 48), Conv(48, 48), nn.Conv2d(48, 4 + len(LABELS), 1)),
                nn.Sequential(Conv(64, 48), nn.Conv2d(48, 4 + len(LABELS), 1)),
            ]
        )
        for head in self.heads:
            nn.init.constant_(head[-1].bias[4:], -4.5)

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        fine = self.fine(x)
        coarse = self.coarse(fine)
        up = F.interpolate(coarse, scale_factor=2.0, mode="nearest")
        fine = self.bridge(torch.cat([up, fine], 1))
        flat = [head(level).flatten(2) for head, level in zip(self.heads, (fine, coarse), strict=True)]
        raw = torch.cat(flat, 2)
        # distances to the four sides
        centers, strides = cells(x.shape[3])
        sides = F.softplus(raw[:, :4]) * strides
        low, high = centers - sides[:, :2], centers + sides[:, 2:]
        return torch.cat([(low + high) / 2, high - low, raw[:, 4:]], 1)


@lru_cache
def cells(width: int) -> tuple[Tensor, Tensor]:
    """Where the cells of a view of this width are: centres (2, N) x, y in pixels, strides (N,)."""
    centers, strides = [], []
    for stride in STRIDES:
        rows, columns = torch.arange(INPUT_HEIGHT // stride), torch.arange(width // stride)
        y, x = torch.meshgrid(rows, columns, indexing="ij")
        centers.append((torch.stack([x, y]).float().flatten(1) + 0.5) * stride)
        strides.append(torch.full((centers[-1].shape[1],), float(stride)))
    return torch.cat(centers, 1), torch.cat(strides)


class Exported(nn.Module):
    """Scores instead of logits."""

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, x: Tensor) -> Tensor:
        """The head's layout that Ultralytics exports for YOLOv8."""
        out = self.detector(x)
        return torch.cat([out[:, :4], out[:, 4:].sigmoid()], 1)


class Targets:
    """What every cell should say about a view of this width."""

    def __init__(self, width: int) -> None:
        self.centers, self.strides = (plane.numpy() for plane in cells(width))
        self.bottles = self.strides == STRIDES[1]

    def of(self, objects: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Class targets (N, classes) with -1 for "either", boxes (N, 4) xyxy, which cells have one (N,)."""
        count = self.strides.size
        classes = np.zeros((count, len(LABELS)), np.float32)
        boxes, owner = np.zeros((count, 4), np.float32), np.zeros(count, bool)
        x, y = self.centers
        # large ones first, so that the small ones have the last word
        area = (objects[:, 3] - objects[:, 1]) * (objects[:, 4] - objects[:, 2])
        for row in objects[np.argsort(-area)]:
            label, x1, y1, x2, y2, visible = int(row[0]), *row[1:6]
            level = self.bottles if label == 0 else ~self.bottles
            if visible < 0.02:
                continue
            if visible < VISIBLE:
                near = level & (x > x1 - 8) & (x < x2 + 8) & (y > y1 - 8) & (y < y2 + 8)
                classes[near, label] = np.where(classes[near, label] == 1, 1, -1)
                continue
            reach = 1.25 * self.strides
            cx, cy = (x1 + x2) / 2, (y1 + y2) / 2
            mine = level & (np.abs(x - cx) < reach) & (np.abs(y - cy) < reach)
            mine &= (x > x1 - 2) & (x < x2 + 2) & (y > y1 - 2) & (y < y2 + 2)
            classes[mine, label] = 1
            boxes[mine], owner[mine] = (x1, y1, x2, y2), True
        return classes, boxes, owner


def loss(out: Tensor, classes: Tensor, boxes: Tensor, owner: Tensor) -> tuple[Tensor, Tensor]:
    """Cross entropy over all cells, generalised IoU over those that own a box."""
    logits = out[:, 4:].transpose(1, 2)
    counted = classes >= 0
    target = classes.clamp(min=0)
    found = owner.sum().clamp(min=1)
    score_loss = (
        F.binary_cross_entropy_with_logits(logits, target, reduction="none") * counted
    ).sum() / found
    got, want = out[:, :4].transpose(1, 2)[owner], boxes[owner]
    low, high = got[:, :2] - got[:, 2:] / 2, got[:, :2] + got[:, 2:] / 2
    both = (torch.minimum(high, want[:, 2:]) - torch.maximum(low, want[:, :2])).clamp(min=0).prod(1)
    around = (torch.maximum(high, want[:, 2:]) - torch.minimum(low, want[:, :2])).prod(1).clamp(min=1e-3)
    union = (high - low).prod(1) + (want[:, 2:] - want[:, :2]).prod(1) - both
    giou = both / union.clamp(min=1e-3) - (around - union) / around
    return score_loss, (1 - giou).sum() / found


def batches(pictures: list[Picture], size: int, seed: int) -> Iterator[tuple[Tensor, ...]]:
    """Endless augmented batches: two of narrow views, one of whole pictures, in turn."""
    draw = np.random.default_rng([seed, 7])
    targets = {width: Targets(width) for width in (NARROW, INPUT_WIDTH)}
    widths = cycle([NARROW, NARROW, INPUT_WIDTH])
    while True:
        order = draw.permutation(len(pictures))
        for start in range(0, len(order) - size + 1, size):
            width = next(widths)
            views = [augment(pictures[i], width, draw) for i in order[start : start + size]]
            x = np.stack([v.pixels[..., ::-1].transpose(2, 0, 1) for v in views]).astype(np.float32) / 255
            t = [targets[width].of(v.objects) for v in views]
            yield torch.from_numpy(x), *(torch.from_numpy(np.stack(part)) for part in zip(*t, strict=True))


def ahead(feed: Iterator[tuple[Tensor, ...]]) -> Iterator[tuple[Tensor, ...]]:
    """The same, drawn by a thread of its own while the network learns."""
    ready: queue.Queue[tuple[Tensor, ...]] = queue.Queue(maxsize=4)

    def work() -> None:
        for batch in feed:
            ready.put(batch)

    threading.Thread(target=work, name="batches", daemon=True).start()
    while True:
        yield ready.get()


def train(arguments: argparse.Namespace) -> Detector:
    """The weights' running mean after the last step."""
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(arguments.threads)
    began = time.monotonic()
    seeds = range(arguments.first_line, arguments.first_line + arguments.lines)
    pictures = render(seeds, arguments.frames, defect_rate=0.7)
    print(f"{len(pictures)} pictures drawn in {time.monotonic() - began:.0f} s", flush=True)
    net = Detector()
    mean = torch.optim.swa_utils.AveragedModel(
        net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.998), use_buffers=True
    )
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=3e-3, total_steps=arguments.steps, pct_start=0.08
    )
    feed = ahead(batches(pictures, arguments.batch, arguments.seed))
    total = np.zeros(2)
    for step in range(1, arguments.steps + 1):
        x, classes, boxes, owner = next(feed)
        score_loss, box_loss = loss(net(x), classes, boxes, owner)
        optimizer.zero_grad()
        (score_loss + 0.7 * box_loss).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        optimizer.step()
        schedule.step()
        mean.update_parameters(net)
        total += score_loss.item(), box_loss.item()
        if step % 100 == 0:
            print(f"step {step}: scores {total[0] / 100:.4f} boxes {total[1] / 100:.4f} "
                  f"({time.monotonic() - began:.0f} s)", flush=True)  # fmt: skip
            total[:] = 0
    return mean.module


def export(net: Detector, path: Path) -> None:
    """One fp32 ONNX file, batch norm folded into the convolutions."""
    net.eval()
    for module in net.modules():
        if isinstance(module, Conv):
            module[0] = nn.utils.fuse_conv_bn_eval(module[0], module[1])
            module[1] = nn.Identity()
    picture = torch.zeros(1, 3, INPUT_HEIGHT, INPUT_WIDTH)
    torch.onnx.export(
        Exported(net).eval(), (picture,), str(path), input_names=["images"], output_names=["output0"],
        opset_version=17, dynamo=False,
    )  # fmt: skip
    onnx.checker.check_model(onnx.load(path), full_check=True)


def main() -> None:
    """Train and export."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("model.onnx"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first-line", type=int, default=100_000, help="line seeds from here on")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--frames", type=int, default=7, help="of each line")
    parser.add_argument("--steps", type=int, default=4200)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    export(train(arguments), arguments.out)
    print(f"{arguments.out}: {arguments.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
