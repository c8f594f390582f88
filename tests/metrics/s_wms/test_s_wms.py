"""What only the bag of both words and sentences has: halves of the mass, and flows between units."""

from __future__ import annotations

import pytest

from summarily.metrics import load

PREDICTION = "They have fun at the lake. Dogs and cats play together."
REFERENCE = "Play! The animals of the village swim and enjoy the water, and the children watch them."


def test_words_and_sentences_have_half_of_the_mass_each():
    flows = load("s_wms").explain(PREDICTION, REFERENCE).plans[0].flows
    for unit in ("word", "sentence"):
        assert sum(flow.mass for flow in flows if flow.start_unit == unit) == pytest.approx(0.5)
        assert sum(flow.mass for flow in flows if flow.end_unit == unit) == pytest.approx(0.5)


def test_a_sentence_weighs_as_much_as_its_words():
    flows = load("s_wms").explain("Snow fell. Trains stood still all night.", REFERENCE).plans[0].flows
    mass = {"Snow fell.": 0.0, "Trains stood still all night.": 0.0}
    for flow in flows:
        if flow.start_unit == "sentence":
            mass[flow.start] += flow.mass
    # "snow fell" against "trains stood night": "still" and "all" are stop words.
    assert mass["Snow fell."] / mass["Trains stood still all night."] == pytest.approx(2 / 3)


def test_mass_may_flow_between_words_and_sentences():
    flows = load("s_wms").explain(PREDICTION, REFERENCE).plans[0].flows
    assert any(flow.start_unit != flow.end_unit for flow in flows)


def test_freedom_to_mix_never_costs_more_than_words_and_sentences_apart():
    distances = {
        name: load(name).explain(PREDICTION, REFERENCE).plans[0].distance for name in ("wms", "sms", "s_wms")
    }
    assert distances["s_wms"] < (distances["wms"] + distances["sms"]) / 2
