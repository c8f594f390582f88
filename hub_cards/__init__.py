"""The models we ship, one folder each: card, config, tokenizer and weights or adapter, as they go to the Hub."""

from summarily.support.shipped import checkpoint, folder, shipped, summarizers

__all__ = ["checkpoint", "folder", "shipped", "summarizers"]
