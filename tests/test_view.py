"""What the network gets of a frame, and that everything comes back to the camera's pixels."""

from __future__ import annotations

import itertools

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.errors import EdgeInferError
from edge_infer.findings import Anomaly, Detections, Findings, Grid
from edge_infer.geometry import PixelBox
from edge_infer.lens import Lens
from edge_infer.view import Flip, Rotate, View

WIDTH, HEIGHT = 401, 300
MARK = (250, 120, 290, 140)
"""Of another shape than its mirror images and turned copies in place: x1, y1, x2, y2."""
ALL: list[tuple[Rotate, Flip]] = list(
    itertools.product((0, 90, 180, 270), ("none", "horizontal", "vertical"))
)
WHOLE, PART = (0, 0, WIDTH, HEIGHT), (200, 60, 381, 270)

barrel = Lens(
    np.array([[300.0, 0, 200], [0, 305, 148], [0, 0, 1]]),
    np.array([-0.25, 0.06, 0.001, -0.002, 0]),
    WIDTH,
    HEIGHT,
)
fisheye = Lens(
    np.array([[260.0, 0, 199], [0, 258, 151], [0, 0, 1]]),
    np.array([-0.02, 0.004, 0, 0]),
    WIDTH,
    HEIGHT,
    fisheye=True,
)


def frame() -> NDArray[np.uint8]:
    """A bright mark on black; its upper left quarter is brighter."""
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    x1, y1, x2, y2 = MARK
    pixels[y1:y2, x1:x2] = 150
    pixels[y1 : (y1 + y2) // 2, x1 : (x1 + x2) // 2] = 250
    return pixels


def bright(picture: NDArray[np.uint8], above: int = 75) -> NDArray[np.float32]:
    """(4,) the box around everything bright, as a network would find it."""
    ys, xs = np.nonzero(picture[:, :, 0] > above)
    return np.array([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1], np.float32)


def found(box: NDArray[np.float32], **more: object) -> Findings:
    return Findings(
        detections=Detections(box[None], np.ones(1, np.float32), np.zeros(1, np.int32), ("mark",), **more)  # type: ignore[arg-type]
    )


def boxes(view: View, findings: Findings) -> NDArray[np.float32]:
    back = view.to_frame(findings).detections
    assert back is not None
    return back.boxes


@pytest.mark.parametrize(("rotate", "flip"), ALL)
@pytest.mark.parametrize("region", [WHOLE, PART])
def test_a_box_in_the_turned_picture_comes_back_to_its_place_in_the_frame(
    rotate: Rotate, flip: Flip, region: PixelBox
) -> None:
    view = View(region, rotate, flip, None)
    picture = view.picture(frame())
    for above in (75, 200):
        np.testing.assert_array_equal(boxes(view, found(bright(picture, above)))[0], bright(frame(), above))


@pytest.mark.parametrize(("rotate", "flip"), ALL)
def test_the_picture_is_turned_clockwise_and_then_mirrored(rotate: Rotate, flip: Flip) -> None:
    picture = View(PART, rotate, flip, None).picture(frame())
    x1, y1, x2, y2 = PART
    expected = np.rot90(frame()[y1:y2, x1:x2], -rotate // 90)
    expected = {"none": expected, "horizontal": expected[:, ::-1], "vertical": expected[::-1]}[flip]
    np.testing.assert_array_equal(picture, expected)


@pytest.mark.parametrize(("rotate", "flip"), ALL)
@pytest.mark.parametrize("region", [WHOLE, PART])
@pytest.mark.parametrize("lens", [barrel, fisheye], ids=["barrel", "fisheye"])
def test_a_box_in_the_straight_picture_comes_back_to_its_place_in_the_bent_frame(
    rotate: Rotate, flip: Flip, region: PixelBox, lens: Lens
) -> None:
    view = View(region, rotate, flip, lens)
    # a box around a bent thing is a little larger than the thing
    np.testing.assert_allclose(boxes(view, found(bright(view.picture(frame()))))[0], MARK, atol=2.5)


def test_a_straight_picture_is_what_opencv_makes_of_the_whole_frame() -> None:
    expected = cv2.undistort(frame(), barrel.matrix, barrel.coefficients)
    picture = View(WHOLE, 0, "none", barrel).picture(frame())
    assert np.abs(picture.astype(int) - expected).max() <= 2
    assert np.abs(picture.astype(int) - frame()).max() > 100


@pytest.mark.parametrize(("rotate", "flip"), ALL)
@pytest.mark.parametrize("lens", [None, barrel], ids=["straight", "barrel"])
def test_masks_and_heat_maps_come_back_to_their_place(rotate: Rotate, flip: Flip, lens: Lens | None) -> None:
    view = View(PART, rotate, flip, lens)
    picture = view.picture(frame())
    # at half the picture's size, as networks give them
    values = cv2.resize(
        picture[:, :, 0].astype(np.float32), None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA
    )
    scale_x, scale_y = values.shape[1] / picture.shape[1], values.shape[0] / picture.shape[0]
    inside = (0.0, 0.0, float(picture.shape[1]), float(picture.shape[0]))
    mask = Grid((values - 75).astype(np.float32), scale_x, scale_y, 0, 0, inside)
    back = view.to_frame(found(bright(picture), masks=(mask,))).detections
    assert back is not None
    assert back.masks is not None
    np.testing.assert_allclose(
        bright(back.masks[0].on_frame(WIDTH, HEIGHT, -1)[:, :, None].clip(-1, 1).astype(np.float32), 0),
        MARK,
        atol=2.5,
    )
    area = (MARK[2] - MARK[0]) * (MARK[3] - MARK[1])
    assert back.areas[0] == pytest.approx(area, rel=0.15)
    heat = view.to_frame(
        Findings(anomaly=Anomaly(0.9, hot_box=tuple(bright(picture).tolist()), heat_map=mask))
    ).anomaly
    assert heat is not None
    assert heat.hot_box == pytest.approx(MARK, abs=2.5)
    assert heat.heat_map is not None
    spread = heat.heat_map.on_frame(WIDTH, HEIGHT, -75)
    ys, xs = np.nonzero(spread > 100)
    assert (xs.min(), ys.min()) == pytest.approx(MARK[:2], abs=2.5)


@pytest.mark.parametrize(("rotate", "flip"), ALL)
def test_oriented_boxes_and_key_points_come_back_turned(rotate: Rotate, flip: Flip) -> None:
    view = View(WHOLE, rotate, flip, None)
    corners = np.array([[[100, 50], [160, 80], [150, 100], [90, 70]]], np.float64)
    picture = view._to_picture(corners[0])
    keypoints = np.array([[[100, 50, 0.5], [0, 0, 0]]], np.float32)
    keypoints[0, :, :2] = view._to_picture(keypoints[0, :, :2].astype(np.float64))
    back = view.to_frame(
        found(
            np.array([0, 0, 10, 10], np.float32),
            corners=picture[None].astype(np.float32),
            angles=np.zeros(1, np.float32),
            keypoints=keypoints,
        )
    ).detections
    assert back is not None
    assert back.corners is not None
    assert back.keypoints is not None
    assert back.angles is not None
    np.testing.assert_allclose(back.corners, corners, atol=1e-3)
    assert back.angles[0] == pytest.approx(np.arctan2(30, 60), abs=1e-4)
    np.testing.assert_allclose(back.keypoints[0], np.array([[100, 50, 0.5], [0, 0, 0]]), atol=1e-3)


@pytest.mark.parametrize(("rotate", "flip"), ALL)
def test_what_was_seen_is_told_in_the_frames_pixels(rotate: Rotate, flip: Flip) -> None:
    view = View(PART, rotate, flip, None)
    assert view.seen(None) == PART
    box = tuple(int(side) for side in bright(view.picture(frame())))
    assert view.seen((box[0], box[1], box[2], box[3])) == MARK


def test_nothing_is_found_where_nothing_is_found() -> None:
    for lens in (None, barrel, fisheye):
        back = View(PART, 90, "horizontal", lens).to_frame(Findings(detections=Detections.none()))
        assert back.detections is not None
        assert len(back.detections) == 0
    assert View(PART, 90, "none", None).to_frame(Findings()) == Findings()


def test_a_lens_of_another_picture_size_is_not_used() -> None:
    with pytest.raises(EdgeInferError, match="401x300, the camera gives 200x100"):
        View((0, 0, 200, 100), 0, "none", barrel).picture(np.zeros((100, 200, 3), np.uint8))


def test_nobody_writes_to_the_frame() -> None:
    pixels = frame()
    pixels.flags.writeable = False
    for rotate, flip in ALL:
        for lens in (None, barrel):
            View(PART, rotate, flip, lens).picture(pixels)
    np.testing.assert_array_equal(pixels, frame())
