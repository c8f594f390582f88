"""What our recurrent layers share. They are `nn.RNNBase`, not `nn.LSTM` or `nn.GRU`, which torch refuses to compile; the
weights have the same names."""

import torch
from torch import nn


def layer_weights(module: nn.RNNBase, layer: int = 0, direction: str = "") -> list[torch.Tensor]:
    """The weights of one direction of one layer, as `torch.lstm` and `torch.gru` take them.

    Example:

    >>> [list(weight.shape) for weight in layer_weights(nn.GRU(4, 3))]
    [[9, 4], [9, 3], [9], [9]]
    """
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return [getattr(module, f"{name}_l{layer}{direction}") for name in names]


def turned(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Rows `[rows, length, width]` from their last token to their first; padding, which is on the right, stays there.

    Example:

    >>> rows = torch.tensor([[[1], [2], [3], [0]]])
    >>> turned(rows, torch.tensor([[True, True, True, False]])).flatten().tolist()
    [3, 2, 1, 0]
    """
    place = torch.arange(mask.shape[1], device=mask.device)
    mirrored = torch.where(mask, mask.sum(1, keepdim=True) - 1 - place, place)[..., None]
    return values.gather(1, mirrored.expand_as(values))


def last_of(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """What stands at the last token of each row `[rows, width]`.

    Example:

    >>> rows = torch.tensor([[[1], [2], [3], [0]]])
    >>> last_of(rows, torch.tensor([[True, True, True, False]])).tolist()
    [[3]]
    """
    last = (mask.sum(1, keepdim=True) - 1)[..., None].expand(-1, 1, values.shape[-1])
    return values.gather(1, last)[:, 0]
