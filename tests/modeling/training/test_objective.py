import math

import pytest
import torch

from summarily.modeling.training.objective import learning_rate, smoothed_cross_entropy
from summarily.modeling.training.recipe import ScheduleSection


def rate(step, kind, done=0.0, factor=1.0, width=512, **options):
    options = {"learning_rate": 1.0, "warmup_steps": 10, **options}
    return learning_rate(ScheduleSection(kind=kind, **options), step, done, factor, width)


def test_noam_is_the_schedule_of_tensor2tensor():
    # transformer_base v3: 2.0 * min(1, step/8000) * max(step, 8000)^-0.5 * 512^-0.5, with its peak at 8000.
    options = {"learning_rate": 2.0, "warmup_steps": 8000}
    assert rate(8000, "noam", **options) == pytest.approx(9.882e-4, rel=1e-3)
    for step in (1, 100, 7999, 8001, 50_000):
        # The legacy form of the same: 512^-0.5 * min(step * 8000^-1.5, step^-0.5), times 2.
        legacy = 2 * 512**-0.5 * min(step * 8000**-1.5, step**-0.5)
        assert rate(step, "noam", **options) == pytest.approx(legacy)


@pytest.mark.parametrize("kind", ["constant", "linear", "inverse_sqrt", "plateau"])
def test_all_schedules_warm_up(kind):
    assert [rate(step, kind) for step in (1, 5, 10)] == pytest.approx([0.1, 0.5, 1.0])
    assert rate(1, kind, warmup_steps=0) == 1.0


def test_after_the_warmup_schedules_differ():
    assert rate(1000, "constant", done=0.9) == 1.0
    assert rate(1000, "linear", done=0.75) == pytest.approx(0.25) and rate(1000, "linear", done=1.5) == 0
    assert rate(1000, "inverse_sqrt") == pytest.approx(0.1)
    assert rate(1000, "plateau", factor=0.25) == 0.25


def test_label_smoothing_is_tensor2tensors():
    torch.manual_seed(0)
    logits, labels = torch.randn(2, 3, 7), torch.tensor([[1, 2, -100], [6, -100, -100]])
    smoothing, size = 0.1, 7
    # torch spreads the mass over all words, the right one included: the same with eps' = eps V / (V - 1).
    theirs = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), label_smoothing=smoothing * size / (size - 1), reduction="sum"
    )
    entropy = -(0.9 * math.log(0.9) + 0.1 * math.log(0.1 / 6))
    assert smoothed_cross_entropy(logits, labels, smoothing).item() == pytest.approx(
        theirs.item() - 3 * entropy, rel=1e-5
    )
