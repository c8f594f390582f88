"""The pointer-generator: what all models must show, and what only this one computes."""

from __future__ import annotations

import copy

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

from summarily.modeling import (
    PointerGeneratorConfig,
    PointerGeneratorForConditionalGeneration,
    PointerGeneratorModel,
)
from summarily.modeling.pointer_generator import modeling_pointer_generator
from summarily.modeling.pointer_generator.modeling_pointer_generator import PointerGeneratorCache
from tests.modeling.common import (
    Seq2SeqModelChecks,
    assert_loads_as_remote_code,
    assert_same_gradients,
    assert_trains_under_seq2seq_trainer,
    gradients_of,
    logits_of,
    padded_batch,
    row,
)
from tests.modeling.pointer_generator.reference import Reference

VOCABULARY = 20
UNKNOWN = 4  # words of a source beyond the vocabulary


def tiny(layers: int = 1, seed: int = 0, **options) -> PointerGeneratorForConditionalGeneration:
    """Weights large enough that copying, writing and all words differ."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": VOCABULARY, "embedding_size": 6, "hidden_size": 8, "num_layers": layers}
    config = PointerGeneratorConfig(**{**sizes, "init_range": 0.7, **options})
    return PointerGeneratorForConditionalGeneration(config).eval()


def copy_batch(**options) -> dict[str, torch.Tensor]:
    """Sources and labels with words beyond the vocabulary; only row 0 has the last of them."""
    batch = padded_batch(VOCABULARY + UNKNOWN, **options)
    batch["input_ids"][0, :UNKNOWN] = torch.arange(VOCABULARY, VOCABULARY + UNKNOWN)
    batch["input_ids"][1:] = batch["input_ids"][1:].clamp(max=VOCABULARY + 1)
    # A label beyond the vocabulary is a word of its source.
    for source, labels in zip(batch["input_ids"], batch["labels"], strict=True):
        missing = (labels >= VOCABULARY) & ~torch.isin(labels, source)
        labels[missing] = 2
    return batch


def unpadded(batch: dict[str, torch.Tensor], index: int) -> tuple[list[int], list[int]]:
    alone = row(batch, index)
    return alone["input_ids"][0].tolist(), alone["labels"][0].tolist()


COVERAGE = {"coverage": True, "coverage_weight": 0.5}
NARROW = {"layers": 2, "decoder_hidden_size": 4}  # Clark et al. have 128 beside 2 x 128
SEE = {"layers": 2, "decoder_hidden_size": 10, "copy_switch_input": "see"}
VARIANTS = {"one layer": {}, "two layers": {"layers": 2}, "coverage": COVERAGE, "narrow": NARROW, "see": SEE}


@pytest.fixture(params=VARIANTS)
def model(request):
    return tiny(**VARIANTS[request.param])


class TestLikeEveryModel(Seq2SeqModelChecks):
    @pytest.fixture
    def batch(self, model):
        return copy_batch()

    def test_a_batch_of_one_equals_a_batch_of_many(self, model, batch):
        """A row alone has no columns for the unknown words of others, which have no probability in the batch."""
        together = logits_of(model, batch)
        for index in range(len(batch["input_ids"])):
            alone = logits_of(model, row(batch, index))
            length, width = alone.shape[1:]
            torch.testing.assert_close(together[index, :length, :width], alone[0])
            assert (together[index, :, width:].exp() < 1e-15).all()

    def test_a_half_precision_model_generates(self, model, batch):
        """Every token has, in full precision, a probability close to that of the best one."""
        written = self.generate(copy.deepcopy(model).to(torch.bfloat16), batch)
        with torch.no_grad():
            inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
            log = model(**inputs, decoder_input_ids=written[:, :-1]).logits
        log[..., model.generation_config.eos_token_id] = -torch.inf  # until the shortest length is reached
        chosen = log.gather(2, written[:, 1:, None])[..., 0][:, :12]
        assert chosen.shape[1] == 12 and (log.amax(-1)[:, :12] - chosen).max() < 0.1


# --- the equations ----------------------------------------------------------------------------------------


def test_probabilities_attention_and_loss_equal_the_plain_reference(model):
    model, batch = model.double(), copy_batch()
    reference = Reference(model)
    with torch.no_grad():
        outputs = model(**batch, output_attentions=True)
    total = 0.0
    for index in range(3):
        source, target = unpadded(batch, index)
        expected, attention = reference.forced(source, target)
        ours = outputs.logits[index, : len(target), : len(expected[0])].exp()
        torch.testing.assert_close(ours, torch.tensor(expected).double(), rtol=0, atol=1e-6)
        shown = outputs.cross_attentions[0][index, 0, : len(target), : len(source)]
        torch.testing.assert_close(shown, torch.tensor(attention).double(), rtol=0, atol=1e-6)
        total += reference.nll(source, target)
    count = int((batch["labels"] != -100).sum())
    assert outputs.loss.item() == pytest.approx(total / count, abs=1e-6)
    # In training the loss is computed another way, without the distribution.
    trained = model.train()(**batch)
    assert trained.logits is None and trained.loss.item() == pytest.approx(total / count, abs=1e-6)


def test_one_cached_decoding_step_equals_the_plain_reference(model):
    model = model.double()
    reference = Reference(model)
    source = [5, 20, 9, 20, 21, 1]
    states, state = reference.encode(source)
    cache = PointerGeneratorCache()
    with torch.no_grad():
        encoded = model.model.encoder(torch.tensor([source]))
        for token in (0, 21, 7, 20):
            state, attention = reference.step(token, state, states)
            expected = reference.probabilities(state, attention, source)
            ours = model(
                encoder_outputs=encoded,
                decoder_input_ids=torch.tensor([[token]]),
                past_key_values=cache,
                output_attentions=True,
            )
            torch.testing.assert_close(
                ours.logits[0, 0].exp(), torch.tensor(expected).double(), rtol=0, atol=1e-6
            )
            torch.testing.assert_close(
                ours.cross_attentions[0][0, 0, 0].double(),
                torch.tensor(attention).double(),
                rtol=0,
                atol=1e-6,
            )
    assert cache.get_seq_length() == 4


def test_probabilities_sum_to_one_and_copies_stay_within_the_source(model):
    batch = copy_batch()
    probabilities = logits_of(model, batch).exp()
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(probabilities.shape[:2]))
    present = torch.zeros_like(probabilities[:, 0]).scatter(1, batch["input_ids"], 1.0)[:, VOCABULARY:]
    copied = probabilities[..., VOCABULARY:]
    assert (copied[present[:, None].expand_as(copied) == 0] < 1e-15).all()
    assert (copied[present[:, None].expand_as(copied) == 1] > 1e-6).all()


def test_a_word_at_several_places_gets_the_attention_of_all(model):
    ids = torch.tensor([[20, 5, 20, 6, 20]])
    outputs = model(input_ids=ids, decoder_input_ids=torch.tensor([[0]]), output_attentions=True)
    body = model.model(input_ids=ids, decoder_input_ids=torch.tensor([[0]]))
    state = body.last_hidden_state if body.switch_input is None else body.switch_input
    copy_probability = torch.sigmoid(model.copy_switch(state))[0, 0, 0]
    attention = outputs.cross_attentions[0][0, 0, 0, [0, 2, 4]].sum()
    torch.testing.assert_close(outputs.logits[0, 0, 20].exp(), copy_probability * attention)


@pytest.mark.parametrize("options", [{}, COVERAGE, NARROW, SEE], ids=["plain", "coverage", "narrow", "see"])
def test_gradients_pass_gradcheck(options):
    # The embedding of padding has no gradient on purpose, so nothing here starts with it.
    options = {name: value for name, value in options.items() if name != "layers"}
    model = tiny(2, hidden_size=4, embedding_size=3, decoder_start_token_id=3, **options).double().train()
    batch = copy_batch(source_lengths=(5, 4, 2), target_lengths=(3, 2, 2))
    names, parameters = zip(*model.named_parameters(), strict=True)

    def loss(*values):
        inputs = dict(zip(names, values, strict=True))
        return torch.func.functional_call(model, inputs, kwargs=batch).loss

    inputs = [parameter.detach().clone().requires_grad_() for parameter in parameters]
    assert torch.autograd.gradcheck(loss, inputs, fast_mode=True)


def test_padding_of_the_source_has_no_attention(model):
    batch = copy_batch()
    with torch.no_grad():
        attention = model(**batch, output_attentions=True).cross_attentions[0][:, 0]
    hidden = (batch["attention_mask"] == 0)[:, None].expand_as(attention)
    assert (attention[hidden] == 0).all()


def with_gaps(batch: dict[str, torch.Tensor], gaps: str) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """The same sources with their padding on the left, or with words between their tokens that the mask hides, and
    where their tokens are now `[B, S]`: at the n-th true place of a row stands its n-th token."""
    moved = dict(batch)
    real = batch["attention_mask"].bool()
    if gaps == "left":
        places = real.flip(1)
    else:  # every other place, the first one hidden
        places = torch.stack([torch.zeros_like(real), real], dim=2).flatten(1)
    for name in batch.keys() & {"input_ids", "attention_mask", "salient_tokens"}:
        # What is hidden is no padding: reading it would show.
        filled = torch.full(places.shape, 7 if name == "input_ids" and gaps == "holes" else 0)
        moved[name] = filled.masked_scatter(places, batch[name][real])
    return moved, places


def assert_gaps_change_nothing(model, batch: dict[str, torch.Tensor], gaps: str) -> None:
    """Losses, probabilities, attention and summaries are those of the sources padded on the right."""
    moved, places = with_gaps(batch, gaps)
    real = batch["attention_mask"].bool()
    with torch.no_grad():
        expected, found = (model(**inputs, output_attentions=True) for inputs in (batch, moved))
    torch.testing.assert_close(found.loss, expected.loss)
    torch.testing.assert_close(found.logits, expected.logits)
    before, after = (outputs.cross_attentions[0][:, 0].transpose(1, 2) for outputs in (expected, found))
    torch.testing.assert_close(after[places], before[real])
    assert (after[~places] == 0).all()
    torch.testing.assert_close(
        found.encoder_last_hidden_state[places], expected.encoder_last_hidden_state[real]
    )
    for beams in (1, 3):
        right, other = (
            model.generate(
                inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                num_beams=beams,
                max_new_tokens=8,
                min_new_tokens=8,
                do_sample=False,
            )
            for inputs in (batch, moved)
        )
        assert torch.equal(right, other)


@pytest.mark.parametrize("gaps", ["left", "holes"])
def test_padding_on_the_left_and_holes_are_as_padding_on_the_right(model, gaps):
    assert_gaps_change_nothing(model, copy_batch(), gaps)


@pytest.mark.parametrize("gaps", ["left", "holes"])
def test_padding_on_the_left_and_holes_keep_the_gradients(model, gaps):
    batch = copy_batch()
    moved, _ = with_gaps(batch, gaps)
    assert_same_gradients(gradients_of(model, moved), gradients_of(model, batch))


def test_a_source_that_is_hidden_altogether_is_refused_by_its_row(model):
    batch = copy_batch()
    batch["attention_mask"][1] = 0
    with pytest.raises(ValueError, match="row 1 of attention_mask is all 0"):
        model(**batch)


def test_the_encoder_that_compiles_equals_the_packed_one(model):
    """States of every layer, and the last states and cells, which padding must not move on."""
    lstm = model.model.encoder.lstm
    mask = torch.arange(6) < torch.tensor([[6], [1], [4]])
    embedded = torch.randn(3, 6, 6, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        packed, plain = lstm(embedded, mask, every_layer=True), lstm._unpacked(embedded, mask)
        last = lstm(embedded, mask)
    assert len(packed[0]) == len(plain[0]) == model.config.num_layers
    torch.testing.assert_close(plain, packed)
    torch.testing.assert_close(last[0], packed[0][-1:])
    torch.testing.assert_close(last[1:], packed[1:])


def test_a_compiled_model_copies_unknown_words_of_sources_with_gaps():
    model, (batch, _) = tiny(layers=2), with_gaps(copy_batch(), "left")
    with torch.no_grad():
        expected = model(**batch, use_cache=False)
        found = torch.compile(model, fullgraph=True, backend="eager")(**batch, use_cache=False)
    torch.testing.assert_close(found.loss, expected.loss)
    torch.testing.assert_close(found.logits[..., : VOCABULARY + UNKNOWN], expected.logits)
    assert found.logits.shape[-1] == VOCABULARY + batch["input_ids"].shape[1]
    assert (found.logits[..., VOCABULARY + UNKNOWN :].exp() < 1e-15).all()


# --- generation -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beams", [1, 3])
def test_what_is_copied_is_a_word_of_the_same_source_in_beams_too(model, beams):
    batch = copy_batch()
    # Every row has its own few unknown words, and nothing else to copy.
    batch["input_ids"] = VOCABULARY + 2 * torch.arange(3)[:, None] + batch["input_ids"] % 2
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    model.copy_switch.bias.data.fill_(3.0)
    summaries = model.generate(**inputs, num_beams=beams, max_new_tokens=8, min_new_tokens=8, do_sample=False)
    assert ((summaries >= VOCABULARY).sum(1) > 0).all()
    for source, summary in zip(batch["input_ids"], summaries, strict=True):
        copied = summary[summary >= VOCABULARY]
        assert torch.isin(copied, source).all()


def test_beam_search_over_extended_words_finds_the_best_of_all_sequences():
    """With more beams than prefixes nothing is pruned, so the best sequence must come out."""
    model = tiny(vocab_size=4, seed=3)
    source = torch.tensor([[3, 4, 5, 4]])  # ids 4 and 5 are words beyond the vocabulary
    found = model.generate(
        source, num_beams=36, max_new_tokens=3, min_new_tokens=3, length_penalty=0.0, do_sample=False
    )[0, 1:]
    candidates = torch.cartesian_prod(*[torch.arange(6)] * 3)
    candidates = candidates[(candidates[:, :2] != 1).all(1)]  # no end before the end
    with torch.no_grad():
        logits = model(
            input_ids=source.expand(len(candidates), -1),
            decoder_input_ids=torch.cat(
                [torch.zeros(len(candidates), 1, dtype=torch.long), candidates[:, :2]], 1
            ),
        ).logits
    logits[:, :, 1] = -torch.inf  # what min_new_tokens does
    scores = logits.log_softmax(-1).gather(2, candidates[..., None])[..., 0].sum(1)
    assert found.tolist() == candidates[scores.argmax()].tolist()
    assert (found >= 4).any()


def test_sampling_repeats_with_a_seed_and_follows_the_probabilities():
    model = tiny()
    source = torch.tensor([[5, 20, 9, 21, 1]])
    torch.manual_seed(0)
    drawn = model.generate(source.expand(4000, -1), do_sample=True, max_new_tokens=1, top_k=0)[:, 1]
    torch.manual_seed(0)
    again = model.generate(source.expand(4000, -1), do_sample=True, max_new_tokens=1, top_k=0)[:, 1]
    assert torch.equal(drawn, again)
    with torch.no_grad():
        expected = model(input_ids=source, decoder_input_ids=torch.tensor([[0]])).logits[0, 0].exp()
    seen = torch.bincount(drawn, minlength=22) / 4000
    assert (seen - expected).abs().max() < 0.03


def test_beams_take_all_of_their_state_along(model):
    """A cache whose rows change places goes on as one that was filled in the new order, coverage included."""
    batch = copy_batch()
    source = {name: batch[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        encoded = model.model.encoder(**source)
        mask = batch["attention_mask"]
        rows = torch.randint(3, 20, (6, 4), generator=torch.Generator().manual_seed(0))
        order = torch.tensor([1, 1, 2, 3, 5, 4])  # within the two rows of each source
        moved, filled = PointerGeneratorCache(), PointerGeneratorCache()
        options = {"encoder_outputs": encoded, "attention_mask": mask, "use_cache": True}
        model(decoder_input_ids=rows[:, :3], past_key_values=moved, **options)
        model(decoder_input_ids=rows[order, :3], past_key_values=filled, **options)
        before = moved.attended.clone()
        moved.reorder_cache(order)
        last = rows[:, 3:]
        found, expected = (
            model(decoder_input_ids=last, past_key_values=cache, **options).logits
            for cache in (moved, filled)
        )
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(before, before[order]), "or the order would not matter"
    torch.testing.assert_close(before.sum(1), torch.full((6,), 3.0))  # the attention of three tokens


def test_the_source_is_projected_once_per_summary(model):
    calls = []
    model.model.decoder.step.attention.key.register_forward_hook(lambda *_: calls.append(1))
    model.generate(torch.tensor([[5, 20, 9]]), num_beams=3, max_new_tokens=6, min_new_tokens=6)
    assert len(calls) == 1


def test_summaries_share_their_source(model):
    """Several rows of a source read what the encoder made of it once, with gradients and without."""
    batch = copy_batch()
    rows = torch.randint(3, 20, (6, 4), generator=torch.Generator().manual_seed(0))
    for mode in (torch.no_grad, torch.enable_grad):
        with mode():
            encoded = model.model.encoder(batch["input_ids"], batch["attention_mask"])
            repeated = {name: value.repeat_interleave(2, 0) for name, value in encoded.items()}
            mask = batch["attention_mask"]
            shared = model(encoder_outputs=encoded, attention_mask=mask, decoder_input_ids=rows).logits
            apart = model(
                encoder_outputs=type(encoded)(**repeated),
                attention_mask=mask.repeat_interleave(2, 0),
                decoder_input_ids=rows,
            ).logits
        torch.testing.assert_close(shared, apart)
    with pytest.raises(ValueError, match="4 summaries of 3 sources"):
        model(encoder_outputs=encoded, attention_mask=mask, decoder_input_ids=rows[:4])
    with pytest.raises(ValueError, match="given once, however many summaries"):
        model(encoder_outputs=encoded, attention_mask=mask.repeat_interleave(2, 0), decoder_input_ids=rows)
    as_tuple = model(encoder_outputs=encoded.to_tuple(), attention_mask=mask, decoder_input_ids=rows).logits
    torch.testing.assert_close(as_tuple, shared)


@pytest.mark.parametrize("near", [1, 200, 500, 10_000])
def test_attention_in_pieces_is_that_of_the_whole(model, monkeypatch, near):
    attention = model.model.decoder.step.attention
    size, generator = model.config.decoder_hidden_size, torch.Generator().manual_seed(0)
    query = torch.randn(6, size, generator=generator)
    keys, attended = torch.randn(3, 7, size, generator=generator), torch.rand(6, 7, generator=generator)
    mask = torch.ones(3, 7, dtype=torch.bool)
    mask[1, 4:] = False
    whole = attention(query, keys, mask, attended)  # with gradients it is not cut
    monkeypatch.setattr(modeling_pointer_generator, "NEAR", near)
    with torch.no_grad():
        pieces = attention(query, keys, mask, attended)
    torch.testing.assert_close(pieces, whole)
    assert pieces.shape == (6, 7) and (pieces[2:4, 4:] == 0).all()


def test_attention_of_every_step_is_returned_by_generate(model):
    batch = copy_batch()
    outputs = model.generate(
        batch["input_ids"],
        attention_mask=batch["attention_mask"],
        max_new_tokens=4,
        min_new_tokens=4,
        output_attentions=True,
        return_dict_in_generate=True,
    )
    assert [tuple(step[0].shape) for step in outputs.cross_attentions] == [(3, 1, 1, 19)] * 4


@pytest.mark.parametrize("beams", [1, 3])
def test_transition_scores_are_those_of_the_copied_words_too(beams):
    model = tiny()
    model.copy_switch.bias.data.fill_(4.0)
    source = torch.tensor([[20, 21, 22, 20], [20, 21, 20, 21]])
    outputs = model.generate(
        source,
        num_beams=beams,
        max_new_tokens=4,
        min_new_tokens=4,
        do_sample=False,
        output_scores=True,
        return_dict_in_generate=True,
    )
    indices = (outputs.beam_indices,) if beams > 1 else ()
    scores = model.compute_transition_scores(outputs.sequences, outputs.scores, *indices)
    with torch.no_grad():
        logits = model(input_ids=source, decoder_input_ids=outputs.sequences[:, :-1]).logits
    logits[..., 1] = -torch.inf  # what min_new_tokens does
    if beams == 1:
        expected = logits.gather(2, outputs.sequences[:, 1:, None])[..., 0]
        torch.testing.assert_close(scores, expected, rtol=0, atol=1e-4)
    assert (outputs.sequences >= VOCABULARY).any()
    torch.testing.assert_close(
        scores.sum(1), logits.gather(2, outputs.sequences[:, 1:, None])[..., 0].sum(1), rtol=0, atol=1e-4
    )


def test_a_cache_of_transformers_is_refused(model):
    with pytest.raises(ValueError, match="cache_implementation='static'"):
        model.generate(torch.tensor([[5, 6]]), cache_implementation="static", max_new_tokens=2)


# --- in the ecosystem -------------------------------------------------------------------------------------


def test_auto_classes_know_the_model():
    config = AutoConfig.for_model(
        "summarily-pointer-generator", vocab_size=9, embedding_size=4, hidden_size=4
    )
    assert type(AutoModelForSeq2SeqLM.from_config(config)) is PointerGeneratorForConditionalGeneration
    assert type(AutoModel.from_config(config)) is PointerGeneratorModel


def test_wrong_sizes_are_named():
    with pytest.raises(ValueError, match="hidden_size=7"):
        PointerGeneratorConfig(hidden_size=7)
    with pytest.raises(ValueError, match="decoder_hidden_size=5 must be even"):
        PointerGeneratorConfig(decoder_hidden_size=5)
    with pytest.raises(ValueError, match="copy_switch_input='x'; choose 'output' or 'see'"):
        PointerGeneratorConfig(copy_switch_input="x")
    with pytest.raises(ValueError, match="unk_token_id=2 is not below vocab_size=2"):
        PointerGeneratorConfig(vocab_size=2)
    with pytest.raises(ValueError, match=r"coverage_weight=0.5 with coverage=False"):
        PointerGeneratorConfig(coverage_weight=0.5)


def test_loads_as_remote_code(tmp_path):
    assert_loads_as_remote_code([tiny(2)], copy_batch(), tmp_path)


def test_trains_under_seq2seq_trainer(tmp_path):
    assert_trains_under_seq2seq_trainer(tiny(), copy_batch(), tmp_path)


def test_the_embeddings_can_be_resized_for_a_larger_vocabulary():
    model = tiny()
    model.resize_token_embeddings(VOCABULARY + 6)
    assert model.config.vocab_size == VOCABULARY + 6
    assert logits_of(model, copy_batch()).shape[-1] == VOCABULARY + 6


# --- learning ---------------------------------------------------------------------------------------------


def test_a_copy_task_with_unseen_words_is_learnt():
    """Sources of random words, half of them beyond the vocabulary; the summary is the source. Held-out words."""
    torch.manual_seed(0)
    model = PointerGeneratorForConditionalGeneration(
        PointerGeneratorConfig(vocab_size=12, embedding_size=16, hidden_size=64)
    )

    def batch(size: int) -> dict[str, torch.Tensor]:
        words = torch.stack([torch.randperm(18)[:6] + 3 for _ in range(size)])  # ids from 12 on are unknown
        ids = torch.cat([words, torch.ones(size, 1, dtype=torch.long)], dim=1)
        return {"input_ids": ids, "labels": ids}

    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    for step in range(500):
        for group in optimizer.param_groups:
            group["lr"] = 4e-3 * (1 - step / 500)
        model(**batch(64)).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        optimizer.zero_grad()
    held_out = batch(300)["input_ids"]
    summaries = model.eval().generate(held_out, max_new_tokens=7, do_sample=False)[:, 1:]
    exact = (summaries == held_out).all(1).float().mean()
    assert exact >= 0.99, exact


@pytest.mark.parametrize("options", [{"prompt_lookup_num_tokens": 2}, {"assistant_model": "itself"}])
def test_a_search_that_goes_back_is_refused(options):
    """An LSTM has one state: tokens that were tried and found wrong cannot be taken back."""
    model, batch = tiny(), row(copy_batch(), 0)
    if "assistant_model" in options:
        options = {"assistant_model": model}
    with pytest.raises(ValueError, match="stateful"):
        model.generate(batch["input_ids"], max_new_tokens=3, **options)


def test_the_decoder_of_clark_et_al_can_be_built():
    """Their A.3: a BiLSTM of 2 x 128, two layers; a decoder of 128, two layers; embeddings of 300 (here 30 words)."""
    config = PointerGeneratorConfig(
        vocab_size=30, embedding_size=300, hidden_size=256, decoder_hidden_size=128, num_layers=2
    )
    model = PointerGeneratorForConditionalGeneration(config)
    cells = model.model.decoder.step.cells
    assert [(cell.input_size, cell.hidden_size) for cell in cells] == [(300 + 128, 128), (128, 128)]
    encoder = model.model.encoder.lstm
    assert (encoder.hidden_size, encoder.num_layers, encoder.bidirectional) == (128, 2, True)
