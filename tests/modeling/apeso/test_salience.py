"""A task in which salient tokens decide, with and without the entity layer and the entity penalty.

A source has eight marked words among others. Those behind one of the two marks are mentioned in the summary with
probability 0.35 each, those behind the other never. The most likely summary mentions none of them, so a search for
likely summaries leaves out what matters; the entity layer knows which words may matter, and the penalty asks for them.
"""

from __future__ import annotations

import pytest
import torch
from scipy.stats import ttest_rel

from summarily.modeling import ApesoConfig, ApesoForConditionalGeneration
from summarily.modeling.generation.summary_beam_search import summary_beam_search

END, MARKS, FIRST_WORD, VOCABULARY = 1, (3, 4), 5, 40
SOURCE, MARKED, SALIENT_SHARE, MENTIONED = 24, 8, 0.5, 0.35
# alpha, beta and gamma are values of the paper's grid, gamma chosen on another seed than those below.
SEARCH = {"num_beams": 8, "max_new_tokens": MARKED + 1, "alpha": 0.9, "beta": 0.5}
GAMMA = 10.0


def examples(count: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Random sources, a fifth of their words beyond the vocabulary, their summaries, and what these mention."""

    def draw(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator)

    sources = FIRST_WORD + draw(count, VOCABULARY + 5).argsort(1)[:, :SOURCE]
    places = 2 * draw(count, SOURCE // 2).argsort(1)[:, :MARKED].sort(1).values
    salient = draw(count, MARKED) < SALIENT_SHARE
    sources.scatter_(1, places, torch.where(salient, *MARKS))
    mentioned = salient & (draw(count, MARKED) < MENTIONED)
    salient_tokens = torch.zeros_like(sources).scatter(1, places + 1, mentioned.long())
    words = sources.gather(1, places + 1)
    # Mentioned words first, in their order, then the end.
    first = (~mentioned).long().argsort(dim=1, stable=True)
    labels = torch.cat([words.gather(1, first), torch.full((count, 1), -100)], dim=1)
    position, length = torch.arange(MARKED + 1), mentioned.sum(1, keepdim=True)
    labels = labels.masked_fill(position > length, -100).masked_fill(position == length, END)
    return {"input_ids": sources, "labels": labels, "salient_tokens": salient_tokens}


def trained(seed: int, delta: float, steps: int = 220) -> ApesoForConditionalGeneration:
    """A model of the task; with delta 0 its entity layer has learnt nothing, and the rest is the baseline."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = ApesoForConditionalGeneration(
        ApesoConfig(vocab_size=VOCABULARY, embedding_size=16, hidden_size=48, delta=delta)
    )
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 4e-3 * (1 - step / steps)
        model(**examples(32, generator)).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


def f1(model: ApesoForConditionalGeneration, batch: dict[str, torch.Tensor], gamma: float) -> float:
    """How well the words of summaries agree with those of the references."""
    ids = model.generate(batch["input_ids"], custom_generate=summary_beam_search, gamma=gamma, **SEARCH)
    total = 0.0
    for summary, labels in zip(ids.tolist(), batch["labels"].tolist(), strict=True):
        ours, gold = {t for t in summary if t > END}, {t for t in labels if t > END}
        total += 2 * len(ours & gold) / (len(ours) + len(gold)) if ours or gold else 1.0
    return total / len(ids)


def test_the_layer_learns_what_is_salient_and_the_penalty_asks_for_it():
    model = trained(seed=0, delta=0.5)
    batch = examples(100, torch.Generator().manual_seed(1000))
    with torch.no_grad():
        attention = model.model.encoder(batch["input_ids"]).entity_attention
    gold = batch["salient_tokens"] == 1
    assert attention[gold].mean() > attention[~gold].mean() + 0.2
    with_penalty, without = f1(model, batch, GAMMA), f1(model, batch, 0.0)
    assert with_penalty > without + 0.05, (with_penalty, without)


@pytest.mark.slow
def test_entity_layer_and_penalty_help_over_five_seeds():
    """Against the same model without them.

    A control stands beside it and is not part of the claim: the penalty with a layer that has learnt nothing. When
    this was run, it helped as much (0.319 to 0.311 on average, the baseline 0.241): here the penalty helps because
    it asks for more of the source, not because it knows what is salient.
    """
    scores = {"baseline": [], "penalty alone": [], "layer and penalty": []}
    for seed in range(11, 16):
        batch = examples(200, torch.Generator().manual_seed(1000 + seed))
        baseline, apeso = trained(seed, delta=0.0), trained(seed, delta=0.5)
        scores["baseline"].append(f1(baseline, batch, 0.0))
        scores["penalty alone"].append(f1(baseline, batch, GAMMA))
        scores["layer and penalty"].append(f1(apeso, batch, GAMMA))
    test = ttest_rel(scores["layer and penalty"], scores["baseline"])
    print(scores, test)
    assert test.statistic > 0 and test.pvalue < 0.05, scores
