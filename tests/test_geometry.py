"""From frame to network and back, regions and zones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.errors import EdgeInferError
from edge_infer.geometry import (
    Fit,
    PixelBox,
    Polygon,
    Region,
    Transform,
    Unit,
    Zone,
    center_crop,
    centers,
    letterbox,
    stretch,
)


def _some_fits(count: int) -> list[tuple[str, Fit, PixelBox, int, int]]:
    """Random pictures, regions and networks in every way of resizing, many of odd size."""
    draw = np.random.default_rng(7)
    cases = []
    for _ in range(count):
        width, height = (int(side) for side in draw.integers(17, 4001, 2))
        network_width, network_height = (int(side) for side in draw.integers(32, 1281, 2))
        x1, y1 = int(draw.integers(0, width - 8)), int(draw.integers(0, height - 8))
        x2, y2 = int(draw.integers(x1 + 8, width + 1)), int(draw.integers(y1 + 8, height + 1))
        cover = (network_height + int(draw.integers(0, 64)), network_width + int(draw.integers(0, 64)))
        size = (x2 - x1, y2 - y1, network_width, network_height)
        for name, fit in (
            ("center", letterbox(*size, "center")),
            ("top_left", letterbox(*size, "top_left")),
            ("stretch", stretch(network_width, network_height)),
            ("center_crop", center_crop(x2 - x1, y2 - y1, cover, network_width, network_height)),
        ):
            cases.append((name, fit, (x1, y1, x2, y2), width, height))
    return cases


def _ultralytics_letterbox(width: int, height: int, network_width: int, network_height: int) -> Fit:
    """As its LetterBox computes it, written down again from its documentation."""
    ratio = min(network_height / height, network_width / width)
    new_width, new_height = round(width * ratio), round(height * ratio)
    pad_x, pad_y = (network_width - new_width) / 2, (network_height - new_height) / 2
    top, left = round(pad_y - 0.1), round(pad_x - 0.1)
    bottom, right = round(pad_y + 0.1), round(pad_x + 0.1)
    assert top + new_height + bottom == network_height
    assert left + new_width + right == network_width
    return Fit(new_width, new_height, left, top, network_width, network_height)


def test_a_centred_letterbox_lies_where_ultralytics_puts_it() -> None:
    draw = np.random.default_rng(1)
    for width, height in draw.integers(40, 4000, (500, 2)).tolist():
        size = (width, height, 640, 480)
        assert letterbox(*size, "center") == _ultralytics_letterbox(*size)


def test_the_padding_undone_is_the_padding_applied() -> None:
    fit = letterbox(3775, 1571, 1280, 1280, "center")
    assert (fit.height, fit.top) == (533, 373)
    back = fit.transform((0, 0, 3775, 1571), 3775, 1571).boxes_to_frame(
        np.array([[0, 373, 1280, 373 + 533]], np.float32)
    )
    np.testing.assert_allclose(back, [[0, 0, 3775, 1571]], atol=1e-2)


def test_a_top_left_letterbox_cuts_fractions_off_as_yolox_does() -> None:
    fit = letterbox(1352, 900, 416, 416, "top_left")
    assert (fit.width, fit.height, fit.left, fit.top) == (416, 276, 0, 0)


def test_a_centre_crop_is_sized_as_torchvision_does() -> None:
    # Resize(256), CenterCrop(224): the long side is cut to whole pixels, half a pixel of offset goes to even
    fit = center_crop(1920, 1080, (256, 256), 224, 224)
    assert (fit.width, fit.height, fit.left, fit.top) == (455, 256, -116, -16)
    assert center_crop(1350, 675, (256, 256), 224, 224).width == 512


def test_a_thin_picture_keeps_one_pixel() -> None:
    for align in ("center", "top_left"):
        fit = letterbox(4000, 2, 640, 640, align)
        assert (fit.width, fit.height) == (640, 1)


def test_boxes_come_back_to_where_they_were_whatever_was_done() -> None:
    draw = np.random.default_rng(3)
    for name, fit, picture, width, height in _some_fits(150):
        transform = fit.transform(picture, width, height)
        x1, y1, x2, y2 = transform.seen or (0, 0, width, height)
        corners = draw.uniform((x1, y1, x1, y1), (x2, y2, x2, y2), (20, 4))
        boxes = np.concatenate(
            [np.minimum(corners[:, :2], corners[:, 2:]), np.maximum(corners[:, :2], corners[:, 2:])], 1
        )
        # the other way, written down by itself: cut out, resize, put down
        px1, py1, px2, py2 = picture
        shift = np.array([px1, py1, px1, py1])
        scale = np.array([fit.width / (px2 - px1), fit.height / (py2 - py1)] * 2)
        network = (boxes - shift) * scale + np.array([fit.left, fit.top] * 2)
        back = transform.boxes_to_frame(network.astype(np.float32))
        np.testing.assert_allclose(back, boxes, atol=4000 * 1e-6 / min(scale.min(), 1), err_msg=name)


def test_boxes_are_clipped_to_what_the_network_looked_at() -> None:
    fit = letterbox(100, 50, 100, 100, "center")
    transform = fit.transform((200, 300, 300, 350), 640, 480)
    # the padding above the region is not the frame above it: nobody looked there
    padding = np.array([[10, 0, 90, 20], [-500, -500, 500, 500]], np.float32)
    np.testing.assert_allclose(
        transform.boxes_to_frame(padding), [[210, 300, 290, 300], [200, 300, 300, 350]]
    )
    # with a centre crop nobody looked beside it
    crop = center_crop(1000, 500, (100, 100), 100, 100).transform((0, 0, 1000, 500), 1000, 500)
    assert crop.boxes_to_frame(np.array([[-50, 0, 150, 100]], np.float32)).tolist() == [[250, 0, 750, 500]]


def test_a_frame_seen_whole_has_no_bounds_but_its_own() -> None:
    assert letterbox(641, 333, 640, 640, "center").transform((0, 0, 641, 333), 641, 333).seen is None
    plain = Transform(1, 1, 0, 0, 30, 20)
    assert plain.boxes_to_frame(np.array([[-1, -1, 99, 99]], np.float32)).tolist() == [[0, 0, 30, 20]]


def test_no_boxes_stay_no_boxes() -> None:
    back = Transform(2, 2, 0, 0, 30, 20).boxes_to_frame(np.zeros((0, 4), np.float32))
    assert back.shape == (0, 4)
    assert back.dtype == np.float32


def test_a_region_in_fractions_follows_the_frame() -> None:
    region = Region("fraction", (0, 0.2, 1, 0.8))
    assert region.pixels(1920, 1080) == (0, 216, 1920, 864)
    assert region.pixels(641, 333) == (0, 67, 641, 266)


@pytest.mark.parametrize("box", [(0, 0, 641, 480), (600, 0, 600.3, 480), (700, 0, 800, 480)])
def test_a_region_that_does_not_lie_in_the_frame_is_refused(box: tuple[float, float, float, float]) -> None:
    with pytest.raises(EdgeInferError, match="640x480"):
        Region("pixel", box).pixels(640, 480)


def _crossings(points: tuple[tuple[float, float], ...], x: float, y: float) -> bool:
    """Sum of the angles under which a point sees the edges: full turns inside, none outside."""
    turn = 0.0
    for (x1, y1), (x2, y2) in zip(points, (*points[1:], points[0]), strict=True):
        angle = math.atan2(y2 - y, x2 - x) - math.atan2(y1 - y, x1 - x)
        turn += (angle + math.pi) % (2 * math.pi) - math.pi
    return round(turn / (2 * math.pi)) % 2 == 1


def test_a_polygon_holds_what_lies_inside() -> None:
    draw = np.random.default_rng(5)
    for _ in range(50):
        # a star of random reach: no crossing edges, often concave
        count = int(draw.integers(3, 9))
        turns = np.sort(draw.uniform(0, 2 * math.pi, count))
        reach = draw.uniform(20, 100, count)
        points = tuple(
            zip((100 + reach * np.cos(turns)).tolist(), (80 + reach * np.sin(turns)).tolist(), strict=True)
        )
        polygon = Polygon(points)
        asked = draw.uniform(0, 200, (60, 2))
        expected = [_crossings(points, x, y) for x, y in asked.tolist()]
        assert polygon.contains_points(asked).tolist() == expected
        assert [polygon.contains(x, y) for x, y in asked.tolist()] == expected


def test_the_edge_of_a_polygon_belongs_to_it() -> None:
    square = Polygon(((0, 0), (10, 0), (10, 10), (0, 10)))
    edge = [(0, 0), (10, 10), (10, 0), (0, 10), (5, 0), (10, 5), (5, 10), (0, 5)]
    assert all(square.contains(x, y) for x, y in edge)
    assert not any(square.contains(x, y) for x, y in [(10.01, 5), (-0.01, 5), (5, 10.01), (20, 10), (-3, 0)])


def test_a_polygon_needs_three_points() -> None:
    with pytest.raises(ValueError, match="three"):
        Polygon(((0, 0), (1, 1)))


def test_a_zone_in_fractions_follows_the_frame() -> None:
    zone = Zone("fraction", ((0, 0), (0.5, 0), (0.5, 1)))
    assert zone.polygon(640, 480).points == ((0, 0), (320, 0), (320, 480))
    assert Zone("pixel", ((0, 0), (320, 0), (320, 480))).polygon(640, 480) == zone.polygon(640, 480)


def test_a_zone_outside_the_frame_is_refused() -> None:
    # "at most 0 in it" would hold for ever
    with pytest.raises(EdgeInferError, match="640x480"):
        Zone("pixel", ((700, 0), (900, 0), (900, 400))).polygon(640, 480)


def test_the_centre_of_a_box_is_its_middle() -> None:
    boxes: NDArray[np.float32] = np.array([[0, 0, 10, 4], [5, 5, 5, 5]], np.float32)
    assert centers(boxes).tolist() == [[5, 2], [5, 5]]


@pytest.mark.parametrize("unit", ["fraction", "pixel"])
def test_only_who_says_pixels_is_told_to_say_fractions(unit: Unit) -> None:
    outside = ((8000, 0), (9000, 0), (9000, 9000))
    for part in (Region(unit, (0, 0, 0.2, 0.2)).pixels, Zone(unit, outside).polygon):
        with pytest.raises(EdgeInferError) as refused:
            part(1, 1)
        assert ("use unit: fraction" in str(refused.value)) == (unit == "pixel")
