"""The colours: text can be read wherever it stands, and slots can be told apart without hue."""

from __future__ import annotations

import itertools

import pytest

from draftscope.base.theme import MIN_TEXT_CONTRAST, PHASES, THEMES, Theme, contrast_ratio, mix, readable

BY_NAME = pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
SURFACES = ("window", "panel", "raised")
N_SLOTS = 16
N_POSITIONS = 8


@BY_NAME
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("token", ["text", "dim", "accent", "ok", "warn", "bad"])
def test_text_can_be_read_on_every_surface(theme: Theme, token: str, surface: str) -> None:
    assert contrast_ratio(getattr(theme, token), getattr(theme, surface)) >= MIN_TEXT_CONTRAST


@BY_NAME
def test_text_can_be_read_on_the_accent_button(theme: Theme) -> None:
    assert contrast_ratio(theme.on_accent, theme.accent) >= MIN_TEXT_CONTRAST


@BY_NAME
def test_token_text_can_be_read_over_every_wash(theme: Theme) -> None:
    washes = [theme.accepted_wash(position) for position in range(1, N_POSITIONS + 1)]
    for wash in (*washes, theme.selection_wash, theme.hover_wash):
        assert contrast_ratio(theme.text, wash) >= MIN_TEXT_CONTRAST


@BY_NAME
def test_a_rejected_token_can_be_read_when_its_round_is_selected(theme: Theme) -> None:
    colour = readable(theme.bad, theme.selection_wash, theme.text)
    assert contrast_ratio(colour, theme.selection_wash) >= MIN_TEXT_CONTRAST


@BY_NAME
def test_the_wash_deepens_with_the_draft_position(theme: Theme) -> None:
    distances = [contrast_ratio(theme.panel, theme.accepted_wash(position)) for position in range(1, 6)]
    assert distances == sorted(distances)
    assert len(set(distances)) == len(distances)


@BY_NAME
def test_names_of_slots_can_be_read_on_a_panel(theme: Theme) -> None:
    for slot in range(N_SLOTS):
        assert contrast_ratio(theme.slot_text(slot), theme.panel) >= MIN_TEXT_CONTRAST


@BY_NAME
def test_marks_of_slots_stand_out_from_a_panel(theme: Theme) -> None:
    for colour in theme.slots:
        assert contrast_ratio(colour, theme.panel) >= 3.0


@BY_NAME
def test_no_two_of_sixteen_slots_look_the_same(theme: Theme) -> None:
    looks = {(theme.slot(slot), theme.slot_dash(slot)) for slot in range(N_SLOTS)}
    assert len(looks) == N_SLOTS


@BY_NAME
def test_phases_stand_out_from_a_panel(theme: Theme) -> None:
    for colour in PHASES.values():
        assert contrast_ratio(colour, theme.panel) >= 1.9


def test_main_phases_have_colours_of_their_own() -> None:
    names = ("draft", "save", "verify", "accept", "restore", "replay", "prompt", "catch_up")
    for first, second in itertools.combinations(names, 2):
        assert PHASES[first] != PHASES[second]


def test_black_on_white_has_the_greatest_contrast() -> None:
    assert contrast_ratio("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast_ratio("#777777", "#777777") == pytest.approx(1.0)


def test_a_mix_goes_from_the_first_colour_to_the_second() -> None:
    assert mix("#102030", "#405060", 0.0) == "#102030"
    assert mix("#102030", "#405060", 1.0) == "#405060"
    assert mix("#000000", "#0000ff", 0.5) == "#000080"


def test_a_colour_that_can_be_read_is_left_as_it_is() -> None:
    assert readable("#000000", "#ffffff", "#ffffff") == "#000000"
