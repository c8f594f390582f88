"""The copy that writes for a model with an adapter: the model's own summaries, as it is at each step."""

import pytest
import torch
from peft import LoraConfig

from summarily.modeling import LedForConditionalGeneration
from summarily.modeling.training.recipe import SelfCriticalSection
from summarily.modeling.training.rewards import RewardWorkers
from summarily.modeling.training.self_critical import SelfCriticalLoss, encode, until_end
from summarily.modeling.training.writer import Writer, can_write
from tests.modeling.tiny_bart import roughen, tiny_bart
from tests.modeling.tiny_t5 import tiny_t5

MODELS = {
    "t5": lambda: tiny_t5(flan=True),
    "led": lambda: LedForConditionalGeneration.from_bart(tiny_bart(), attention_window=4),
}


@pytest.fixture(params=MODELS)
def model(request):
    torch.manual_seed(0)
    model = roughen(MODELS[request.param]())
    model.add_adapter(LoraConfig(r=2, lora_alpha=2, target_modules="all-linear"))
    learn(model)
    model.generation_config.forced_eos_token_id = None
    return model.eval()


def learn(model):
    generator = torch.Generator().manual_seed(1)
    for name, weight in model.named_parameters():
        if "lora_" in name:
            weight.data += 0.3 * torch.randn(weight.shape, generator=generator)


@pytest.fixture
def inputs(model):
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(3, model.config.vocab_size, (3, 12), generator=generator)
    mask = torch.ones_like(ids)
    ids[1, 8:], mask[1, 8:] = model.config.pad_token_id, 0
    return {"input_ids": ids, "attention_mask": mask}


OPTIONS = {"num_beams": 1, "max_new_tokens": 6, "min_new_tokens": 6}


def greedy_of(model, inputs):
    return model.generate(**inputs, **OPTIONS, do_sample=False)


def written(writer, model, inputs, **options):
    with torch.no_grad():
        return writer.greedy_and_sampled(inputs, encode(model, inputs), **OPTIONS, **options)


def test_the_copy_writes_what_the_model_writes_greedily_and_follows_what_it_learns(model, inputs):
    writer = Writer(model, torch.float32)
    writer.refresh()
    before = greedy_of(model, inputs)
    assert torch.equal(written(writer, model, inputs)[0], before)
    learn(model)
    after = greedy_of(model, inputs)
    assert not torch.equal(after, before)
    writer.refresh()
    assert torch.equal(written(writer, model, inputs)[0], after)


def test_samples_are_drawn_from_the_model(model, inputs):
    """The share of each first token in many samples is its probability, at the temperature that is asked for."""
    writer = Writer(model, torch.float32)
    writer.refresh()
    torch.manual_seed(0)
    one = {name: tensor[:1].repeat(4000, 1) for name, tensor in inputs.items()}
    sampled = written(writer, model, one, temperature=3.0, top_k=0)[1][:, 1]
    start = torch.tensor([[model.config.decoder_start_token_id]])
    with torch.no_grad():
        logits = model(
            **{name: tensor[:1] for name, tensor in inputs.items()}, decoder_input_ids=start
        ).logits[0, 0]
    logits[model.generation_config.eos_token_id] = -torch.inf  # min_new_tokens
    expected = torch.softmax(logits / 3.0, -1)
    shares = torch.bincount(sampled, minlength=len(expected)) / len(sampled)
    assert (shares - expected).abs().max() < 0.015  # three standard errors of the largest share
    assert (expected > 0.02).sum() > 5


def test_the_model_keeps_its_adapter_and_the_copy_learns_nothing(model):
    before = {name: value.clone() for name, value in model.state_dict().items()}
    writer = Writer(model, torch.bfloat16)
    writer.refresh()
    assert model.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(value.requires_grad for value in writer.model.parameters())
    assert {value.dtype for value in writer.model.parameters()} == {torch.bfloat16}
    assert not any("lora" in name for name, _ in writer.model.named_parameters())


def test_the_loss_scores_the_summaries_of_the_copy_as_it_is_in_each_step(model, inputs):
    labels = torch.randint(3, model.config.vocab_size, (3, 5))
    seen = []

    def nothing(completions, references, **columns):
        seen.append(list(completions))
        return [0.0] * len(completions)

    class Numbers:
        pad_token_id = model.config.pad_token_id

        def batch_decode(self, ids, skip_special_tokens=False):
            return [" ".join(map(str, row)) for row in ids.tolist()]

    options = {"rewards": ["x"], "max_summary_tokens": 6, "rl_gamma_end": 0.97}
    with RewardWorkers([nothing], workers=0) as workers:
        loss = SelfCriticalLoss(SelfCriticalSection(**options), Numbers(), workers)
        for step in (1, 2):
            loss.begin_step(step)
            loss(model, {**inputs, "labels": labels})
            assert "seconds_write" in loss.end_step()
            end = model.generation_config.eos_token_id
            plain = until_end(
                model.generate(**inputs, num_beams=1, max_new_tokens=6, do_sample=False)[:, 1:], end
            )
            texts = Numbers().batch_decode(plain.masked_fill(plain == -100, Numbers.pad_token_id))
            assert texts in seen[-2:]  # the greedy ones and the sampled ones
            learn(model)


def test_a_model_without_an_adapter_writes_for_itself():
    assert not can_write(tiny_t5(flan=True))
