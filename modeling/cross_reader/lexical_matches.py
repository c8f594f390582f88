"""How the words around a mention match the words around a blank, without any network.

Chen, Bolton and Manning (2016) show that a handful of such features go a long way on cloze questions; here they help
the pointer of the cross reader, which learns from far fewer questions than exact matches would take to be learnt.
"""

import math

import torch

FEATURES = ("near", "nearer", "left", "right", "early")
WINDOWS = (20, 6)
"""Tokens on each side of a mention in which words of the question are looked for."""
RUN = 3
"""Tokens on each side of blank and mention that are compared one by one."""


def token_weights(ids: torch.Tensor, words: range) -> torch.Tensor:
    """How much it says that two texts share a token: 0 for "the" and punctuation, 1 for the rarest.

    Args:
        ids: of tokens.
        words: the ids of words, the frequent ones first; those before are special tokens and single characters.

    Example:
        >>> token_weights(torch.tensor([102, 1012, 1996, 2100, 30000]), range(1996, 30522)).round(decimals=2)
        tensor([0.0000, 0.0000, 0.0000, 0.4500, 1.0000])
    """
    return (ids - words.start + 1).clamp(min=1).log() / math.log(max(len(words) + 1, 3))


def lexical_matches(
    passage: torch.Tensor,
    starts: torch.Tensor,
    ends: torch.Tensor,
    question: torch.Tensor,
    blank: torch.Tensor,
    words: range,
) -> torch.Tensor:
    """Features of each token of a passage as part of a mention [questions, passage length, features].

    near, nearer: the weight of the question's words within a window around the mention, in parts of all their weight;
    left, right: how many tokens before (after) the mention are those before (after) the blank, up to 3, in parts of 3;
    early: 1 at the beginning of the passage, 0 at its end.

    Args:
        passage: token ids, -1 for padding [questions, passage length].
        starts: where the mention that a token is part of starts [questions, passage length].
        ends: where it ends (exclusive).
        question: token ids, -1 for padding [questions, question length].
        blank: where the blank is [questions].
        words: see `token_weights`.

    Example:
        >>> passage = torch.tensor([[2500, 3000, 4000, 5000, 6000]])  # two mentions: 3000 and 6000
        >>> starts, question = torch.tensor([[0, 1, 2, 3, 4]]), torch.tensor([[2500, 103, 4000]])
        >>> found = lexical_matches(passage, starts, starts + 1, question, torch.tensor([1]), range(1996, 30522))
        >>> found[0, [1, 4], 2:4].round(decimals=2).tolist()  # one token agrees on either side of 3000
        [[0.33000001311302185, 0.33000001311302185], [0.0, 0.0]]
    """
    length = passage.shape[1]
    known = (passage[:, :, None] == question[:, None]).any(-1) & (passage >= 0)
    sums = torch.nn.functional.pad((token_weights(passage, words) * known).cumsum(1), (1, 0))
    whole = (token_weights(question, words) * (question >= 0)).sum(1, keepdim=True).clamp(min=1e-6)
    own = sums.gather(1, ends) - sums.gather(1, starts)
    features = []
    for window in WINDOWS:
        around = sums.gather(1, (ends + window).clamp(max=length)) - sums.gather(
            1, (starts - window).clamp(min=0)
        )
        features.append(((around - own) / whole).clamp(max=1))
    for places, steps in ((starts - 1, -1), (ends, 1)):
        run = torch.ones_like(places, dtype=torch.bool)
        matched = torch.zeros_like(own)
        for step in range(RUN):
            run = run & _same(passage, places + steps * step, question, blank + steps * (step + 1))
            matched = matched + run
        features.append(matched / RUN)
    number = (passage >= 0).sum(1, keepdim=True).clamp(min=1)
    features.append((1 - starts / number).clamp(min=0))
    return torch.stack(features, dim=-1)


def _same(
    passage: torch.Tensor, places: torch.Tensor, question: torch.Tensor, place: torch.Tensor
) -> torch.Tensor:
    """Whether the tokens at some places of a passage are the token at a place of the question."""
    inside = (places >= 0) & (places < passage.shape[1])
    inside &= ((place >= 0) & (place < question.shape[1]))[:, None]
    token = question.gather(1, place.clamp(0, question.shape[1] - 1)[:, None])
    there = passage.gather(1, places.clamp(0, passage.shape[1] - 1))
    return inside & (there == token) & (token >= 0)
