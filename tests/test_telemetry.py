"""Nothing is reported to anybody."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.strangers import strangers_asked

_LOAD = """
from edge_infer.backends.openvino import OpenVino
from edge_infer.model.load import load_model
from edge_infer.network import Network
from pathlib import Path
import sys
Network.open(load_model(Path(sys.argv[1])), OpenVino()).close()
"""


def test_openvino_reports_to_nobody(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    model = Path(__file__).parents[1] / "models/bottles"
    asked = strangers_asked([sys.executable, "-c", _LOAD, str(model)], home, tmp_path / "trace")
    assert asked == []
    assert list(home.iterdir()) == []


def test_the_watch_sees_what_openvino_would_report(tmp_path: Path) -> None:
    """Else the test above would be green for nothing."""
    home = tmp_path / "home"
    home.mkdir()
    strangers_asked([sys.executable, "-c", "import openvino"], home, tmp_path / "trace")
    # where there is no network at all it does not get as far as a socket
    assert [path.name for path in home.iterdir()] == ["intel"]
