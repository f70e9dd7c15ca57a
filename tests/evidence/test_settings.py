from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from edge_infer.evidence.settings import EvidenceSettings

PAGE = Path(__file__).parents[2] / "docs/evidence.md"


def test_the_defaults_are_those_of_the_page() -> None:
    (written,) = re.findall(r"```yaml\nevidence: (.*)\n```", PAGE.read_text(encoding="utf-8"))
    told = EvidenceSettings.model_validate_json(_as_json(written))
    assert told.model_copy(update={"publish": ()}) == EvidenceSettings()
    assert told.publish == ("drawn",)


@pytest.mark.parametrize(
    "written",
    [
        "{ok_every: 0}",
        "{per_minute: -1}",
        "{max_age_days: 0}",
        "{max_bytes: much}",
        "{publish: [thumb]}",
        "{q: 1}",
    ],
)
def test_what_makes_no_sense_is_refused(written: str) -> None:
    with pytest.raises(ValidationError):
        EvidenceSettings.model_validate_json(_as_json(written))


def test_settings_need_no_opencv() -> None:
    code = (
        "import sys, edge_infer.evidence.settings; sys.exit('cv2' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0


def _as_json(written: str) -> str:
    return json.dumps(yaml.safe_load(written))
