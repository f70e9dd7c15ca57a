"""What the page for people with a network of their own says is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edge_infer.decoders import DECODERS, TASK_DECODERS
from edge_infer.model.card_file import CardFile
from edge_infer.yamlfile import load

PAGE = (Path(__file__).parents[2] / "docs/bring-your-model.md").read_text(encoding="utf-8")
CARDS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("card", CARDS, ids=[card.splitlines()[0] for card in CARDS])
def test_every_card_on_the_page_is_one(tmp_path: Path, card: str) -> None:
    (tmp_path / "model.yaml").write_text(card, encoding="utf-8")
    assert load(tmp_path / "model.yaml").validate(CardFile).name == "caps"


def test_the_page_names_every_decoder_and_task() -> None:
    tasks = {name.partition("/")[2] for name in TASK_DECODERS}
    assert [name for name in (*DECODERS, *tasks) if f"`{name}`" not in PAGE] == []
    assert CARDS
