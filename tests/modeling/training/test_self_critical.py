"""Self-critical training: the loss against its formula, every model, both trainers, and that nothing is lost."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import set_seed

from summarily.modeling import (
    ApesoForConditionalGeneration,
    AttentionVariantConfig,
    AttentionVariantForConditionalGeneration,
    LedForConditionalGeneration,
    PointerGeneratorConfig,
    PointerGeneratorForConditionalGeneration,
    RedForConditionalGeneration,
)
from summarily.modeling.training.building import build_model
from summarily.modeling.training.collators import SummaryCollator
from summarily.modeling.training.corpora import encode as encode_rows
from summarily.modeling.training.corpora import load_corpus, texts
from summarily.modeling.training.recipe import SelfCriticalSection
from summarily.modeling.training.rewards import RewardWorkers, load_rewards
from summarily.modeling.training.self_critical import (
    SelfCriticalConfig,
    SelfCriticalLoss,
    SelfCriticalTrainer,
    encode,
    gamma_at,
    score_pairs,
    without_dropout,
)
from summarily.modeling.training.tokenizers import train_tokenizer
from summarily.modeling.training.train import train
from summarily.support.errors import RecipeError
from tests.launching import launch
from tests.modeling.tiny_bart import roughen, tiny_bart

from .plain_rewards import echo_of_the_source, first_word_is_a, not_a_number, one_too_many
from .test_train import assert_same_run, final_state, toml

HERE = Path(__file__).parent
VOCABULARY = 30


def attention_variant():
    sizes = {"hidden_size": 16, "encoder_layers": 1, "decoder_layers": 1, "num_attention_heads": 2}
    config = AttentionVariantConfig(
        vocab_size=VOCABULARY, attention_type="local", intermediate_size=16, block_length=4, width=4, **sizes
    )
    return AttentionVariantForConditionalGeneration(config)


def pointer_generator():
    config = PointerGeneratorConfig(vocab_size=VOCABULARY, embedding_size=8, hidden_size=16, dropout=0.5)
    return PointerGeneratorForConditionalGeneration(config)


def bart():
    return tiny_bart(vocab_size=VOCABULARY, dropout=0.5, attention_dropout=0.5, activation_dropout=0.5)


MODELS = {
    "bart": bart,
    "led": lambda: LedForConditionalGeneration.from_bart(bart(), attention_window=4),
    "red": lambda: RedForConditionalGeneration.from_bart(bart()),
    "attention variant": attention_variant,
    "pointer-generator": pointer_generator,
    "apeso": lambda: ApesoForConditionalGeneration.from_pointer_generator(pointer_generator()),
}


@pytest.fixture(params=MODELS)
def model(request):
    torch.manual_seed(0)
    model = roughen(MODELS[request.param]()).train()
    model.generation_config.forced_eos_token_id = None  # plain `generate` in these tests is to force nothing
    return model


class Numbers:
    """A tokenizer whose words are the ids."""

    pad_token_id = 0

    def batch_decode(self, ids, skip_special_tokens=False):
        return [" ".join(str(i) for i in row if i > 2) for row in ids.tolist()]


def small_numbers(completions, references, **columns):
    """Of a summary, the part that is below 15; longer than its reference is worse."""
    return [
        sum(int(word) < 15 for word in text.split()) / (1 + len(text.split())) - 0.01 * len(reference.split())
        for text, reference in zip(completions, references, strict=True)
    ]


def sample_batch(model, examples=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    input_ids = torch.randint(3, VOCABULARY, (examples, 12), generator=generator)
    mask = torch.ones_like(input_ids)
    input_ids[1, 8:], mask[1, 8:] = model.config.pad_token_id, 0
    labels = torch.randint(3, VOCABULARY, (examples, 6), generator=generator)
    labels[:, -1] = model.generation_config.eos_token_id
    labels[2, 4:] = -100
    return {"input_ids": input_ids, "attention_mask": mask, "labels": labels}


def settings(**options):
    return SelfCriticalSection(**{"rewards": ["x"], "max_summary_tokens": 8, "rl_gamma_end": 0.97} | options)


def plain_log_probability(model, source, tokens):
    """Of one summary, without batches, padding or caches."""
    start = torch.tensor([[model.config.decoder_start_token_id, *tokens[:-1]]])
    with torch.no_grad():
        log = torch.log_softmax(
            model(input_ids=source[None], decoder_input_ids=start, use_cache=False).logits, -1
        )
    return sum(log[0, i, token].item() for i, token in enumerate(tokens))


# --- the loss ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_the_loss_is_that_of_the_formula(model, reduction):
    batch = sample_batch(model)
    written = {}
    with RewardWorkers([small_numbers], workers=0) as workers:
        loss = SelfCriticalLoss(settings(loss_reduction=reduction), Numbers(), workers)
        write = loss._write_both

        def remember(*arguments):
            written[False], written[True] = both = write(*arguments)
            return both

        loss._write_both = remember
        torch.manual_seed(3)
        value = loss(model, batch)
    model.eval()
    expected = 0.0
    references = Numbers().batch_decode(batch["labels"])
    for i in range(3):
        source = batch["input_ids"][i, : int(batch["attention_mask"][i].sum())]
        rewards, sums = {}, {}
        for sample in (True, False):
            tokens = [token for token in written[sample][i].tolist() if token != -100]
            (rewards[sample],) = small_numbers(
                Numbers().batch_decode(torch.tensor([tokens])), references[i : i + 1]
            )
            sums[sample] = plain_log_probability(model, source, tokens) / (
                len(tokens) if reduction == "mean" else 1
            )
        labels = [token for token in batch["labels"][i].tolist() if token != -100]
        likelihood = plain_log_probability(model, source, labels) / (
            len(labels) if reduction == "mean" else 1
        )
        expected += 0.97 * (rewards[False] - rewards[True]) * sums[True] - 0.03 * likelihood
        greedy = model.generate(source[None], max_new_tokens=8, do_sample=False, num_beams=1, min_length=0)
        tokens = [token for token in written[False][i].tolist() if token != -100]
        assert greedy[0, 1 : 1 + len(tokens)].tolist() == tokens
    assert value.item() == pytest.approx(expected, abs=1e-4, rel=1e-4)


def test_dropout_is_off_while_the_model_trains(model):
    batch = sample_batch(model)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}

    def scores():
        return score_pairs(model, inputs, encode(model, inputs), batch["labels"], batch["labels"]).reference

    model.eval()
    expected = scores()
    model.train()
    with without_dropout(model):
        torch.testing.assert_close(scores(), expected)
    assert model.training
    noisy = scores()
    assert not torch.allclose(noisy, expected), "dropout is back afterwards"


def test_samples_are_drawn_and_scored_at_their_temperature(model):
    batch = sample_batch(model)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    model.eval()
    labels = batch["labels"]
    pairs = score_pairs(model, inputs, encode(model, inputs), labels, labels, temperature=0.5)
    with torch.no_grad():
        logits = model(**inputs, labels=labels).logits.float()
    for sums, temperature in ((pairs.reference, 1.0), (pairs.sampled, 0.5)):
        scores = torch.log_softmax(logits / temperature, dim=-1)
        expected = (
            scores.gather(2, labels.clamp(min=0)[..., None])[..., 0].masked_fill(labels == -100, 0).sum(1)
        )
        torch.testing.assert_close(sums, expected, atol=1e-4, rtol=1e-4)
    with RewardWorkers([small_numbers], workers=0) as workers:
        entropies = []
        for temperature in (1.0, 0.2):
            loss = SelfCriticalLoss(replace(settings(), sample_temperature=temperature), Numbers(), workers)
            loss(model, sample_batch(model))
            entropies.append(loss.end_step()["entropy"])
    assert entropies[1] < entropies[0]


def test_samples_come_from_the_whole_vocabulary_whatever_the_model_prefers():
    """A model may want fewer words to choose from, and transformers would take the 50 best: a policy has them all."""
    torch.manual_seed(0)
    model = roughen(bart())
    model.generation_config.update(top_k=1, top_p=0.1, temperature=0.01, num_beams=4, no_repeat_ngram_size=1)
    seen = {}
    real = model.generate

    def generate(**inputs):
        config = model.generation_config
        seen[config.do_sample] = (
            config.num_beams, config.max_new_tokens, config.top_k, config.top_p, config.temperature, config.no_repeat_ngram_size
        )  # fmt: skip
        return real(**inputs)

    model.generate = generate
    with RewardWorkers([small_numbers], workers=0) as workers:
        loss = SelfCriticalLoss(settings(sample_temperature=0.7), Numbers(), workers)
        loss(model, sample_batch(model))
    assert seen[True] == (1, 8, 0, 1.0, 0.7, None)
    assert seen[False][:2] == (1, 8)


def test_rewards_see_the_references_and_sources_of_the_batch():
    given = []

    def remember(completions, references, sources):
        given.append((references, sources))
        return [0.0] * len(completions)

    torch.manual_seed(0)
    model = roughen(bart())
    batch = sample_batch(model)
    texts = {"references": [["one"], ["two", "three"], ["four"]], "source": ["a", "b", "c"]}
    with RewardWorkers([remember], workers=0) as workers:
        loss = SelfCriticalLoss(settings(), Numbers(), workers)
        loss(model, {**batch, **texts})
        assert given == [(["one", ["two", "three"], "four"], ["a", "b", "c"])] * 2
        given.clear()
        loss(model, batch)
    labels, sources = (Numbers().batch_decode(batch[name]) for name in ("labels", "input_ids"))
    assert given == [(labels, sources)] * 2


def test_gradients_reach_every_parameter(model):
    with RewardWorkers([small_numbers], workers=0) as workers:
        loss = SelfCriticalLoss(settings(), Numbers(), workers)
        loss(model, sample_batch(model)).backward()
    missing = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert all(".entities." in name for name in missing), "a loss of its own teaches the entity layer"


def test_only_the_likelihood_is_left_when_sample_and_greedy_earn_the_same(model):
    def nothing(completions, references, **columns):
        return [0.0] * len(completions)

    with RewardWorkers([nothing], workers=0) as workers:
        loss = SelfCriticalLoss(settings(rl_gamma=0.5, rl_gamma_end=0.5), Numbers(), workers)
        batch = sample_batch(model)
        value = loss(model, batch)
        report = loss.end_step()
    model.eval()
    counts = (batch["labels"] != -100).sum()
    torch.testing.assert_close(value, 0.5 * model(**batch).loss * counts, rtol=1e-4, atol=1e-4)
    assert report["zero_advantage"] == 1.0 and report["advantage"] == 0.0


def test_a_model_learns_what_is_rewarded():
    torch.manual_seed(0)
    model = roughen(bart()).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    with RewardWorkers([small_numbers], workers=0) as workers:
        loss = SelfCriticalLoss(settings(rl_gamma=1.0, rl_gamma_end=1.0), Numbers(), workers)
        rewards = []
        for step in range(40):
            loss.begin_step(step + 1)
            loss(model, sample_batch(model, examples=16, seed=step)).backward()
            optimizer.step()
            optimizer.zero_grad()
            rewards.append(loss.end_step()["reward_sample"])
    assert sum(rewards[-5:]) > sum(rewards[:5]) + 0.5, rewards


def test_gamma_rises_to_its_end_and_stays():
    rising = SelfCriticalSection(rl_gamma=0.97, rl_gamma_end=0.99)
    gammas = [gamma_at(rising, step, 5) for step in range(1, 8)]
    assert gammas == pytest.approx([0.97, 0.975, 0.98, 0.985, 0.99, 0.99, 0.99])
    with pytest.raises(ValueError, match="set rl_gamma_steps"):
        SelfCriticalLoss(rising, Numbers(), workers=None)


# --- rewards ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
def test_rewards_are_weighted_and_in_order(workers):
    functions = [
        *load_rewards("rouge", {"rouge": {"types": ["rougeL"]}}),
        first_word_is_a,
        echo_of_the_source,
    ]
    texts_ = ["a cat sat", "the dog", "a b", "x", ""]
    with RewardWorkers(functions, [1.0, 0.5, -2.0], workers) as rewards:
        pending = rewards.submit(
            texts_, ["a cat sat", "a cat", "b", "y", "z"], sources=["a cat sat", *"bcde"]
        )
        result = pending.result()
    assert result.each["rouge_reward"] == pytest.approx([1.0, 0.0, 2 / 3, 0.0, 0.0])
    assert result.each["first_word_is_a"] == [1.0, 0.0, 1.0, 0.0, 0.0]
    assert result.total == pytest.approx([1 + 0.5 - 2, 0.0, 2 / 3 + 0.5, 0.0, 0.0])


@pytest.mark.parametrize(
    "function, workers, message",
    [
        (not_a_number, 1, "not_a_number is nan"),
        (not_a_number, 0, "not_a_number is nan"),
        (one_too_many, 0, "gave 2 values for 1 texts"),
    ],
)
def test_bad_rewards_are_named(function, workers, message):
    with RewardWorkers([function], workers=workers) as rewards, pytest.raises(ValueError, match=message):
        rewards.submit(["a"], ["b"]).result()


def test_a_reward_that_cannot_travel_is_named():
    with pytest.raises(ValueError, match=r"cannot be sent to worker processes.*reward_workers=0"):
        RewardWorkers([lambda completions, references, **columns: [0.0]], workers=1)
    with pytest.raises(ValueError, match="2 rewards have 1 weights"):
        RewardWorkers([first_word_is_a, not_a_number], [1.0], workers=0)
    with pytest.raises(ValueError, match="reward_options has 'sms'"):
        load_rewards(["rouge"], {"sms": {}})


ORPHANED = """
    import os, signal
    from summarily.modeling.training.rewards import RewardWorkers
    from tests.modeling.training.plain_rewards import process_number

    if __name__ == "__main__":
        workers = RewardWorkers([process_number], workers=1)
        print(int(workers.submit(["a"], ["b"]).result().total[0]), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_with_a_killed_run(tmp_path):
    script = tmp_path / "orphaned.py"
    script.write_text(textwrap.dedent(ORPHANED))
    paths = [str(HERE.parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=environment, timeout=1800
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    worker = int(done.stdout)
    until = time.monotonic() + 600
    while Path(f"/proc/{worker}").exists():
        assert time.monotonic() < until, f"worker {worker} is still there"
        time.sleep(0.1)


# --- in the engine ----------------------------------------------------------------------------------------

REINFORCED = {"rewards": ["rouge"], "max_summary_tokens": 6, "reward_workers": 0}


def log_lines(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_the_engine_reports_every_part_of_a_step(tiny, data, tmp_path):
    recipe = tiny(self_critical=REINFORCED, training={"max_steps": 3, "normalize": "examples"})
    train(recipe, tmp_path / "run", data=data)
    steps = [line for line in log_lines(tmp_path / "run") if "loss" in line]
    assert len(steps) == 3
    names = {
        "reward_sample",
        "reward_greedy",
        "advantage",
        "zero_advantage",
        "entropy",
        "sample_tokens",
        "gamma",
    }
    seconds = {f"seconds_{part}" for part in ("encode", "greedy", "sample", "score", "reward", "update")}
    for line in steps:
        assert names | seconds <= line.keys()
        assert line["advantage"] == pytest.approx(line["reward_sample"] - line["reward_greedy"], abs=1e-6)
        assert 0 <= line["zero_advantage"] <= 1 and line["entropy"] > 0
        assert all(line[name] >= 0 for name in seconds)
    assert [line["gamma"] for line in steps] == pytest.approx([0.97, 0.9845, 0.999])


KILLED = """
    import os, signal, sys
    sys.path.insert(0, {tests!r})
    from conftest import tiny_recipe
    from summarily.modeling.training import self_critical
    from summarily.modeling.training.train import train

    real, calls = self_critical.SelfCriticalLoss.__call__, 0

    def killed(self, *arguments):
        global calls
        calls += 1
        if calls == {at}:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, *arguments)

    self_critical.SelfCriticalLoss.__call__ = killed
    recipe = tiny_recipe(self_critical={section!r}, training={training!r})
    if __name__ == "__main__":
        train(recipe, {folder!r}, data={data!r})
"""


def test_killed_and_resumed_a_run_ends_bit_for_bit_the_same(tiny, data, tmp_path):
    """Weights, optimizer, the generator that samples are drawn from, gamma, and every logged loss."""
    training = {"max_steps": 8, "normalize": "examples"}
    recipe = tiny(self_critical=REINFORCED, training=training)
    train(recipe, tmp_path / "whole", data=data)
    code = textwrap.dedent(KILLED).format(
        tests=str(HERE),
        at=9,  # the fifth step or so: two forward passes each
        section=REINFORCED,
        training=training,
        folder=str(tmp_path / "killed"),
        data=str(data),
    )
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=1800
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert 0 < len([line for line in log_lines(tmp_path / "killed") if "loss" in line]) < 8
    train(recipe, tmp_path / "killed", data=data)
    assert_same_run(tmp_path / "whole", tmp_path / "killed")
    gammas = [
        [line["gamma"] for line in log_lines(tmp_path / run) if "gamma" in line]
        for run in ("whole", "killed")
    ]
    assert gammas[0] == gammas[1]


def test_two_processes_learn_what_one_does(tiny, data, tmp_path):
    """With gamma 0 no chance is left in the loss, so that the curves can be compared; with rewards both take part."""
    training = {"max_steps": 6, "normalize": "examples"}
    likelihood = tiny(self_critical=REINFORCED | {"rl_gamma": 0.0, "rl_gamma_end": 0.0}, training=training)
    rewarded = tiny(self_critical=REINFORCED | {"reward_workers": 1}, training=training)
    train(likelihood, tmp_path / "one", data=data)
    commands = []
    for name, recipe in (("two", likelihood), ("rewarded", rewarded)):
        (tmp_path / f"{name}.toml").write_text(toml(recipe))
        place = ["--data", str(data), "--output", str(tmp_path / name)]
        commands.append(["train", str(tmp_path / f"{name}.toml"), *place])
    launch(*commands)
    assert [len(final_state(tmp_path / name)["random"]) for name in ("two", "rewarded")] == [2, 2]
    curves = [
        [line["loss"] for line in log_lines(tmp_path / run) if "loss" in line] for run in ("one", "two")
    ]
    assert curves[1] == pytest.approx(curves[0], abs=1e-5) and len(curves[0]) == 6
    steps = [line for line in log_lines(tmp_path / "rewarded") if "loss" in line]
    assert len(steps) == 6 and any(line["advantage_size"] > 0 for line in steps)


@pytest.mark.parametrize(
    "section, message",
    [
        ({"rl_gamma": 1.5}, "self_critical.rl_gamma is 1.5"),
        ({"rewards": ["rouge"], "reward_weights": [1.0, 2.0]}, "has 2 values for 1 rewards"),
        ({"reward_options": {"sms": {}}}, "self_critical.reward_options.sms"),
        ({"reward_workers": -1}, "reward_workers is -1"),
    ],
)
def test_mistakes_in_a_recipe_are_named(tiny, section, message):
    with pytest.raises(RecipeError, match=message):
        tiny(self_critical=section)


# --- under transformers' trainer --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parts(data):
    from .conftest import tiny_recipe

    recipe = tiny_recipe()
    corpus = load_corpus(recipe.data, data)
    tokenizer = train_tokenizer(texts(corpus["train"]), recipe.tokenizer)
    rows = encode_rows(corpus["train"], tokenizer, recipe.data).select_columns(["input_ids", "labels"])
    return recipe, tokenizer, rows


def make_trainer(parts, folder, steps=6, rewards=None, **options):
    recipe, tokenizer, rows = parts
    set_seed(0)
    model = build_model(recipe, tokenizer)
    config = SelfCriticalConfig(
        str(folder),
        **{
            "max_steps": steps,
            "rewards": ["rouge"],
            "reward_options": {"rouge": {"types": ["rougeL"]}},
            "max_summary_tokens": 6,
            "reward_workers": 0,
            "per_device_train_batch_size": 4,
            "gradient_accumulation_steps": 2,
            "learning_rate": 1e-3,
            "save_steps": 3,
            "logging_steps": 1,
            "report_to": [],
            "use_cpu": True,
            "disable_tqdm": True,
            "rl_gamma_steps": 6,
            "lr_scheduler_type": "constant",
        }
        | options,
    )
    return SelfCriticalTrainer(
        model,
        config,
        rewards=rewards,
        processing_class=tokenizer,
        train_dataset=rows,
        eval_dataset=rows.select(range(4)),
        data_collator=SummaryCollator(pad_token_id=tokenizer.pad_token_id),
    )


def test_the_trainer_resumes_bit_for_bit(parts, tmp_path):
    whole = make_trainer(parts, tmp_path / "whole")
    whole.train()
    make_trainer(parts, tmp_path / "parts", steps=3).train()
    resumed = make_trainer(parts, tmp_path / "parts")
    resumed.train(resume_from_checkpoint=True)
    assert resumed.state.global_step == 6
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name
    lines = [[line for line in trainer.state.log_history if "gamma" in line] for trainer in (whole, resumed)]
    assert len(lines[0]) == 6
    for name in ("gamma", "reward_sample", "advantage", "entropy", "loss"):
        assert [line[name] for line in lines[0]] == [line[name] for line in lines[1]], name
    assert whole.evaluate()["eval_loss"] > 0


def test_the_trainer_and_the_engine_have_one_loss(parts, tmp_path):
    """Accumulated or not, the loss of a step is the sum over its documents, divided by their number."""
    trainer = make_trainer(
        parts,
        tmp_path,
        steps=1,
        rewards=first_word_is_a,
        reward_options={},
        max_grad_norm=0.0,
        save_strategy="no",
    )
    seen = []
    compute = trainer.compute_loss

    def remember(model, inputs, **options):
        seen.append({name: tensor.clone() for name, tensor in inputs.items()})
        return compute(model, inputs, **options)

    trainer.compute_loss = remember
    trainer.args.rl_gamma = trainer.args.rl_gamma_end = 0.0  # no samples in the value: cross entropy alone
    trainer.train()
    model = make_trainer(parts, tmp_path / "again").model.eval()
    expected = sum(model(**batch).loss * (batch["labels"] != -100).sum() for batch in seen) / 8
    assert len(seen) == 2
    assert trainer.state.log_history[0]["loss"] == pytest.approx(expected.item(), rel=1e-4)


def test_words_beyond_the_vocabulary_reach_the_rewards(data):
    """A pointer-generator that only copies, and a vocabulary without most of the words."""
    from .conftest import tiny_recipe

    recipe = tiny_recipe(tokenizer={"kind": "copy", "vocabulary_size": 12})
    corpus = load_corpus(recipe.data, data)
    tokenizer = train_tokenizer(texts(corpus["train"]), recipe.tokenizer)
    rows = encode_rows(corpus["train"], tokenizer, recipe.data)
    config = PointerGeneratorConfig(vocab_size=len(tokenizer), embedding_size=8, hidden_size=16)
    model = PointerGeneratorForConditionalGeneration(config)
    with torch.no_grad():
        model.copy_switch.bias.fill_(20.0)
    collate = SummaryCollator(tokenizer.pad_token_id, keep_texts=("source", "references", "unknown_words"))
    seen = []

    def remember(completions, references, sources):
        seen.append((completions, references, sources))
        return [float(len(set(text.split()))) for text in completions]

    with RewardWorkers([remember], workers=0) as workers:
        loss = SelfCriticalLoss(settings(), tokenizer, workers)
        loss(model, collate([rows[i] for i in range(4)])).backward()
    for completions, references, sources in seen:
        assert references == list(rows["target"][:4]) and sources == list(rows["source"][:4])
        words = [set(text.split()) for text in completions]
        assert any(words)
        assert all(mine <= set(source.split()) for mine, source in zip(words, sources, strict=True))
    assert any(word not in tokenizer.get_vocab() for text in seen[0][0] for word in text.split())


def test_a_dictionary_of_the_settings_can_be_saved(tmp_path):
    config = SelfCriticalConfig(str(tmp_path), rewards=["sms"], report_to=[], rl_gamma=0.9)
    assert json.loads(config.to_json_string())["rl_gamma"] == 0.9
