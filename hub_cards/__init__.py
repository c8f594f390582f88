"""The models we ship, one folder each: card, config, tokenizer and weights, as they go to the Hub."""

from summarily.support.shipped import folder, shipped, summarizers

__all__ = ["folder", "shipped", "summarizers"]
