"""Each line of the unit is in force, seen by a program under the very same settings in a real systemd."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.systemd import Machine
from tests.support.systemd.lines import DROP_INS, PROVED, SHOWN, TESTED, Proof
from tests.support.systemd.probing import BARE, Probing, service_lines

UNIT = Path(__file__).parents[2] / "systemd/edge-infer.service"
Answers = dict[str, dict[str, str]]


def lines(drop_in: str = "") -> list[str]:
    text = UNIT.read_text() if not drop_in else (UNIT.parent / f"drop-ins/{drop_in}.conf").read_text()
    return service_lines(text)


@pytest.fixture(scope="module")
def answers(machine: Machine) -> Answers:
    """Of the whole unit, of nothing, of each entry alone, and of the unit with each drop-in; all at once."""
    probes = sorted({probe for proof in PROVED for probe in proof.probes})
    units: dict[str, tuple[list[str], list[str]]] = {"unit": (lines(), probes), "nothing": ([*BARE], probes)}
    for proof in PROVED:
        bare = [] if "DynamicUser=yes" in (*proof.lines, *proof.given) else [*BARE]
        units[proof.name] = ([*bare, *proof.given, *proof.lines], [*proof.probes])
        if proof.given:
            units[f"without {proof.name}"] = ([*bare, *proof.given], [*proof.probes])
    for name, proofs in DROP_INS.items():
        theirs = sorted({probe for proof in proofs for probe in proof.probes})
        units[f"unit with {name}"] = ([*lines(), *lines(name)], theirs)
        units[f"unit without {name}"] = (lines(), theirs)
    return Probing(machine).look(units)


@pytest.mark.parametrize("proof", PROVED, ids=lambda proof: proof.name)
def test_a_line_keeps_out_what_it_says(answers: Answers, proof: Proof) -> None:
    assert {probe: answers["unit"][probe] for probe in proof.probes} == {
        probe: under for probe, (under, _) in proof.probes.items()
    }
    # and it is this line that does, not another one of the unit
    assert answers[proof.name] == {probe: under for probe, (under, _) in proof.probes.items()}
    without = answers[f"without {proof.name}" if proof.given else "nothing"]
    assert {probe: without[probe] for probe in proof.probes} == {
        probe: free for probe, (_, free) in proof.probes.items()
    }


@pytest.mark.parametrize("name", DROP_INS)
def test_a_drop_in_opens_what_it_says(answers: Answers, name: str) -> None:
    for proof in DROP_INS[name]:
        for probe, expected in proof.probes.items():
            seen = (answers[f"unit with {name}"][probe], answers[f"unit without {name}"][probe])
            assert (probe, *seen) == (probe, *expected)


@pytest.mark.parametrize(("line", "shown"), SHOWN.items())
def test_systemd_took_over_a_limit(machine: Machine, line: str, shown: tuple[str, str]) -> None:
    assert line in lines()
    assert machine.show("edge-infer", shown[0]) == shown[1]


def test_each_line_of_the_unit_is_shown_to_be_in_force() -> None:
    known = {line for proof in PROVED for line in proof.lines} | {*SHOWN, *TESTED}
    own = {line if line in known else line.partition("=")[0] + "=" for line in lines()}
    assert own == known


@pytest.mark.parametrize("name", DROP_INS)
def test_each_line_of_a_drop_in_is_shown_to_be_in_force(name: str) -> None:
    assert set(lines(name)) == {line for proof in DROP_INS[name] for line in proof.lines}


def test_the_tests_that_lines_are_promised_by_exist() -> None:
    there = "".join(one.read_text() for one in Path(__file__).parent.glob("test_*.py"))
    assert set(TESTED.values()) <= set(re.findall(r"^def (test_\w+)", there, re.MULTILINE))
