"""The pointer-generator once more: one example at a time, in plain loops, straight from the equations.

It shares nothing with the model but its weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass
class State:
    """Where the decoder of one example stands: h and c of every layer, the last output, the attention so far, and what
    See et al.'s switch sees."""

    hidden: list[torch.Tensor]
    cell: list[torch.Tensor]
    feed: torch.Tensor
    attended: list[float]
    seen: torch.Tensor | None = None


class Reference:
    """Reads one source and writes its summary step by step."""

    def __init__(self, model: torch.nn.Module):
        self.weights = {name: value.detach() for name, value in model.state_dict().items()}
        self.config = model.config

    def linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        y = self.weights[f"{name}.weight"] @ x
        return y + self.weights[f"{name}.bias"] if f"{name}.bias" in self.weights else y

    def embed(self, token: int) -> torch.Tensor:
        known = token if token < self.config.vocab_size else self.config.unk_token_id
        return self.weights["model.encoder.embed_tokens.weight"][known]

    def cell(self, x, h, c, prefix: str, suffix: str = ""):
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        w_x, w_h, b_x, b_h = (self.weights[f"{prefix}.{name}{suffix}"] for name in names)
        i, f, g, o = (w_x @ x + b_x + w_h @ h + b_h).chunk(4)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def encode(self, source: list[int]) -> tuple[list[torch.Tensor], State]:
        half = self.config.hidden_size // 2
        inputs = [self.embed(token) for token in source]
        last: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {"": [], "_reverse": []}
        for layer in range(self.config.num_layers):
            outputs = {}
            for direction, order in (("", range(len(source))), ("_reverse", reversed(range(len(source))))):
                h = c = torch.zeros(half, dtype=inputs[0].dtype)
                for j in order:
                    h, c = self.cell(inputs[j], h, c, "model.encoder.lstm", f"_l{layer}{direction}")
                    outputs[direction, j] = h
                last[direction].append((h, c))
            inputs = [torch.cat([outputs["", j], outputs["_reverse", j]]) for j in range(len(source))]
        bridged = []
        for which, name in enumerate(("hidden_bridge", "cell_bridge")):
            sides = [
                torch.relu(self.linear(f"model.encoder.{name}", torch.cat([pair[which] for pair in states])))
                for states in last.values()
            ]
            size = self.config.decoder_hidden_size // 2
            layers = zip(*(side.split(size) for side in sides), strict=True)
            bridged.append([torch.cat(parts) for parts in layers])
        feed = torch.zeros_like(bridged[0][-1])
        return inputs, State(*bridged, feed=feed, attended=[0.0] * len(source))

    def attend(self, query: torch.Tensor, states: list[torch.Tensor], attended: list[float]) -> list[float]:
        name = "model.decoder.step.attention"
        scores = []
        for state, before in zip(states, attended, strict=True):
            inside = self.linear(f"{name}.query", query) + self.linear(f"{name}.key", state)
            if self.config.coverage:
                inside = inside + before * self.weights[f"{name}.coverage.weight"][:, 0]
            scores.append(float(self.linear(f"{name}.score", torch.tanh(inside))))
        top = max(scores)
        total = sum(math.exp(score - top) for score in scores)
        return [math.exp(score - top) / total for score in scores]

    def step(self, token: int, state: State, states: list[torch.Tensor]) -> tuple[State, list[float]]:
        below = torch.cat([self.embed(token), state.feed])
        hidden, cell = [], []
        for layer in range(self.config.num_layers):
            name = f"model.decoder.step.cells.{layer}"
            below, c = self.cell(below, state.hidden[layer], state.cell[layer], name)
            hidden.append(below)
            cell.append(c)
        attention = self.attend(below, states, state.attended)
        context = sum(a * state for a, state in zip(attention, states, strict=True))
        output = self.linear("model.decoder.step.output", torch.cat([context, below]))
        attended = [before + a for before, a in zip(state.attended, attention, strict=True)]
        seen = torch.cat([context, c, below, self.embed(token)])  # See et al., Eq. 8
        return State(hidden, cell, output, attended, seen), attention

    def probabilities(self, state: State, attention: list[float], source: list[int]) -> list[float]:
        """P(w) of every word of the vocabulary and every unknown word of the source."""
        size = self.config.vocab_size
        output = state.feed
        switch = state.seen if self.config.copy_switch_input == "see" else output
        copy = 1 / (1 + math.exp(-float(self.linear("copy_switch", switch))))
        scores = self.linear("vocabulary", output).tolist()
        del scores[self.config.pad_token_id]
        total = sum(map(math.exp, scores))
        written = [math.exp(score) / total for score in scores]
        written.insert(self.config.pad_token_id, 0.0)
        result = [(1 - copy) * p for p in written] + [0.0] * max(0, max(source) + 1 - size)
        for token, a in zip(source, attention, strict=True):
            result[token] += copy * a
        return result

    def forced(self, source: list[int], target: list[int]) -> tuple[list[list[float]], list[list[float]]]:
        """The distributions before each word of the target, and the attentions."""
        states, state = self.encode(source)
        tokens = [self.config.decoder_start_token_id, *target[:-1]]
        distributions, attentions = [], []
        for token in tokens:
            state, attention = self.step(token, state, states)
            distributions.append(self.probabilities(state, attention, source))
            attentions.append(attention)
        return distributions, attentions

    def nll(self, source: list[int], target: list[int]) -> float:
        """Summed over the words of the target, with what the coverage loss adds."""
        distributions, attentions = self.forced(source, target)
        total = -sum(math.log(p[token] + 1e-20) for p, token in zip(distributions, target, strict=True))
        attended = [0.0] * len(source)
        for attention in attentions:
            total += self.config.coverage_weight * sum(map(min, attention, attended))
            attended = [before + a for before, a in zip(attended, attention, strict=True)]
        return total

    def entities(self, source: list[int]) -> list[float]:
        """APESO's probability of each token to belong to a salient entity."""
        states, _ = self.encode(source)
        name = "model.encoder.entities"
        scores = [
            float(self.linear(f"{name}.score", torch.tanh(self.linear(f"{name}.key", h)))) for h in states
        ]
        return [1 / (1 + math.exp(-score)) for score in scores]
