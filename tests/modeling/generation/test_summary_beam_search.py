"""Beam search against exhaustive search, with scores computed one summary at a time in plain Python."""

import functools
import itertools
import math
from types import SimpleNamespace

import pytest
import torch

from summarily.modeling import (
    AttentionVariantConfig,
    AttentionVariantForConditionalGeneration,
    LedForConditionalGeneration,
    PointerGeneratorConfig,
    PointerGeneratorForConditionalGeneration,
)
from summarily.modeling.generation.shared_cross_attention import generate_with_shared_cross_attention
from summarily.modeling.generation.summary_beam_search import (
    NgramBlocker,
    Penalties,
    _Search,
    summary_beam_search,
)
from tests.modeling.tiny_bart import roughen, tiny_bart

VOCABULARY, LONGEST = 6, 3
# What float32 holds of a score that sums attention and logarithms in another order than plain Python does.
RELATIVE, ABSOLUTE = 2e-6, 2e-5


def attention_variant(vocabulary=VOCABULARY, mechanism="dot_product"):
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "encoder_layers": 1, "decoder_layers": 2, "num_attention_heads": 2}
    blocks = {"intermediate_size": 16, "block_length": 2, "width": 2}
    config = AttentionVariantConfig(vocab_size=vocabulary, attention_type=mechanism, **sizes, **blocks)
    return roughen(AttentionVariantForConditionalGeneration(config))


def pointer_generator(vocabulary=VOCABULARY):
    torch.manual_seed(0)
    config = PointerGeneratorConfig(vocab_size=vocabulary, embedding_size=8, hidden_size=8)
    model = roughen(PointerGeneratorForConditionalGeneration(config))
    with torch.no_grad():
        model.vocabulary.bias[config.eos_token_id] -= 2  # or nothing but the end would be written
        for part in ("key", "score"):  # attention that differs from place to place
            getattr(model.model.decoder.step.attention, part).weight.mul_(20)
    return model


def led(vocabulary=VOCABULARY):
    return LedForConditionalGeneration.from_bart(tiny_bart(vocab_size=vocabulary), attention_window=4).eval()


MODELS = {
    "bart": lambda vocabulary=VOCABULARY: tiny_bart(vocab_size=vocabulary),
    "led": led,
    "attention variant": attention_variant,
    "local attention": lambda vocabulary=VOCABULARY: attention_variant(vocabulary, "local"),
    "pointer-generator": pointer_generator,
}


def documents(model, vocabulary=VOCABULARY):
    """Two sources of different lengths."""
    end, pad = model.generation_config.eos_token_id, model.config.pad_token_id
    ids = torch.tensor([[3, 4, 5, 3, 5, end], [4, 3, end, pad, pad, pad]])
    return {"input_ids": ids, "attention_mask": (torch.arange(6) < torch.tensor([[6], [3]])).long()}


ENTITIES = torch.tensor([[0.9, 0.1, 0.8, 0.0, 0.7, 0.2], [0.6, 0.9, 0.1, 0.5, 0.5, 0.5]])


def summaries(model):
    """Every sequence that ends at the end token or at the longest length."""
    end = model.generation_config.eos_token_id
    for length in range(1, LONGEST + 1):
        for tokens in itertools.product(range(VOCABULARY), repeat=length):
            if end not in tokens[:-1] and (tokens[-1] == end or length == LONGEST):
                yield tokens


def measured(model, inputs, document):
    """Log-probability and attention to each source token of every summary of one source, one at a time."""
    length = int(inputs["attention_mask"][document].sum())
    source = inputs["input_ids"][document : document + 1, :length]
    before = model.config._attn_implementation
    if before not in (None, "eager"):
        model.set_attn_implementation("eager")
    found = {}
    for tokens in summaries(model):
        start = torch.tensor([[model.config.decoder_start_token_id, *tokens[:-1]]])
        with torch.no_grad():
            outputs = model(
                input_ids=source, decoder_input_ids=start, output_attentions=True, use_cache=False
            )
        log = torch.log_softmax(outputs.logits[0], -1)
        attention = outputs.cross_attentions[-1][0].mean(0).tolist()  # [tokens][source]
        attended = [sum(step[i] for step in attention) for i in range(length)]
        found[tokens] = sum(log[i, token].item() for i, token in enumerate(tokens)), attended
    if before not in (None, "eager"):
        model.set_attn_implementation(before)
    return found


@functools.cache
def measured_once(name, document):
    model = MODELS[name]()
    return measured(model, documents(model), document)


def exhaustive(name, document, alpha=0.0, beta=0.0, gamma=0.0, released=False, stepwise=True):
    """All summaries of one source with their scores, the best first: Eq. 6 in plain Python."""
    scores = {}
    for tokens, (log_probability, attended) in measured_once(name, document).items():
        penalty_length = ((5 + len(tokens) + (1 if released else 0)) / 6) ** alpha
        coverage = beta * (sum(max(a, 1.0) for a in attended) - len(attended))
        entities = gamma * sum(
            max(e - a, 0.0) for e, a in zip(ENTITIES[document].tolist(), attended, strict=False)
        )
        if released and stepwise is True:
            scores[tokens] = (log_probability - coverage) / penalty_length - entities
        else:
            scores[tokens] = log_probability / penalty_length - coverage - entities
    return sorted(scores.items(), key=lambda item: -item[1])


def search(model, inputs, **options):
    options = {
        "num_beams": VOCABULARY**LONGEST,
        "max_new_tokens": LONGEST,
        "early_stopping": "never",
    } | options
    if options.get("gamma"):
        options["entity_scores"] = ENTITIES
    return model.generate(
        **inputs,
        custom_generate=summary_beam_search,
        return_dict_in_generate=True,
        forced_eos_token_id=None,
        **options,
    )


def assert_best(outputs, model, expected, document, several):
    """The summaries and scores are those of the best ones; of equally good ones (to rounding) any order will do."""
    end = model.generation_config.eos_token_id
    found = set()
    for rank in range(several):
        row = document * several + rank
        score = expected[rank][1]
        written = outputs.sequences[row, 1:].tolist()
        equal = [
            tokens
            for tokens, other in expected
            if math.isclose(other, score, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
        ]
        rest = {model.config.pad_token_id, end}
        fits = [
            tokens
            for tokens in equal
            if tuple(written[: len(tokens)]) == tokens and set(written[len(tokens) :]) <= rest
        ]
        assert fits, (rank, written, equal)
        found.add(max(fits, key=len))
        assert outputs.sequences_scores[row].item() == pytest.approx(score, rel=RELATIVE, abs=ABSOLUTE)
    assert len(found) == several


@pytest.mark.parametrize(
    "penalties",
    [
        {},
        {"alpha": 0.9},
        {"beta": 2.0},
        {"gamma": 1.5},
        {"alpha": 0.9, "beta": 2.0, "gamma": 1.5},
        {"alpha": 0.9, "beta": 2.0, "gamma": 1.5, "stepwise": False},
        {"alpha": 0.9, "beta": 2.0, "gamma": 1.5, "stepwise": ("coverage", "entities")},
        {"alpha": 0.9, "beta": 2.0, "gamma": 1.5, "penalty_form": "released"},
        {"alpha": 0.9, "beta": 2.0, "gamma": 1.5, "penalty_form": "released", "stepwise": False},
    ],
    ids=lambda penalties: " ".join(f"{key}={value}" for key, value in penalties.items()) or "none",
)
@pytest.mark.parametrize("name", MODELS)
def test_with_as_many_beams_as_summaries_it_equals_exhaustive_search(name, penalties):
    model, several = MODELS[name](), 40
    inputs = documents(model)
    model.generation_config.forced_eos_token_id = None
    outputs = search(model, inputs, num_return_sequences=several, **penalties)
    options = {key: value for key, value in penalties.items() if key != "penalty_form"}
    for document in range(2):
        released = penalties.get("penalty_form") == "released"
        expected = exhaustive(name, document, released=released, **options)
        assert_best(outputs, model, expected, document, several)


@pytest.mark.parametrize("name", MODELS)
def test_every_penalty_changes_the_order(name):
    """Otherwise the comparison above would show little."""
    plain = [tokens for tokens, _ in exhaustive(name, 0)[:40]]
    for penalties in ({"beta": 2.0}, {"gamma": 1.5}, {"alpha": 0.9}):
        assert [tokens for tokens, _ in exhaustive(name, 0, **penalties)[:40]] != plain, penalties


def narrow(name, document, beams, stepwise, longest, beta=8.0, gamma=12.0):
    """The best summary that a beam of plain Python lists finds, with its score."""
    model = MODELS[name]()
    model.set_attn_implementation("eager")
    inputs, end = documents(model), model.generation_config.eos_token_id
    source = inputs["input_ids"][document : document + 1, : int(inputs["attention_mask"][document].sum())]
    running, finished = [()], []
    for length in range(1, longest + 1):
        candidates = []
        for prefix in running:
            start = torch.tensor([[model.config.decoder_start_token_id, *prefix]])
            with torch.no_grad():
                outputs = model(
                    input_ids=source, decoder_input_ids=start, output_attentions=True, use_cache=False
                )
            log = torch.log_softmax(outputs.logits[0], -1)
            so_far = sum(log[i, token].item() for i, token in enumerate(prefix))
            attended = outputs.cross_attentions[-1][0].mean(0).sum(0).tolist()
            coverage = beta * (sum(max(a, 1.0) for a in attended) - len(attended))
            gaps = (max(e - a, 0.0) for e, a in zip(ENTITIES[document].tolist(), attended, strict=False))
            costs = {"coverage": coverage, "entities": gamma * sum(gaps)}
            for token in range(log.shape[-1]):
                value = so_far + log[-1, token].item()
                rank = value - sum(costs[kind] for kind in stepwise)
                candidates.append((rank, value - sum(costs.values()), (*prefix, token)))
        candidates.sort(reverse=True)
        over = [length == longest or tokens[-1] == end for _, _, tokens in candidates]
        finished += [
            (score, tokens) for (_, score, tokens), o in zip(candidates[:beams], over, strict=False) if o
        ]
        running = [tokens for (_, _, tokens), o in zip(candidates, over, strict=True) if not o][:beams]
    return max(finished)


def narrow_search(name, stepwise, longest=6):
    model = MODELS[name]()
    options = {"num_beams": 2, "max_new_tokens": longest, "beta": 8.0, "gamma": 12.0, "stepwise": stepwise}
    return search(model, documents(model), **options)


@pytest.mark.parametrize("stepwise", [(), ("coverage",), ("entities",), ("coverage", "entities")])
@pytest.mark.parametrize("name", MODELS)
def test_stepwise_penalties_rank_unfinished_summaries(name, stepwise):
    outputs = narrow_search(name, stepwise)
    for document in range(2):
        score, tokens = narrow(name, document, 2, stepwise, longest=6)
        assert outputs.sequences_scores[document].item() == pytest.approx(score, rel=RELATIVE, abs=ABSOLUTE)
        assert tuple(outputs.sequences[document, 1 : 1 + len(tokens)].tolist()) == tokens


@pytest.mark.parametrize("stepwise", ["coverage", "entities"])
def test_a_stepwise_penalty_finds_other_summaries(stepwise):
    plain = narrow_search("attention variant", False).sequences
    assert not torch.equal(narrow_search("attention variant", stepwise).sequences, plain)


@pytest.mark.parametrize("size, excluded", [(1, ()), (2, ()), (1, (4,))])
def test_blocked_ngrams_leave_the_best_of_the_other_summaries(size, excluded):
    model = MODELS["bart"]()
    model.generation_config.forced_eos_token_id = None
    inputs, several = documents(model), 12
    outputs = search(
        model, inputs, block_ngram=size, exclude_ids=excluded, num_return_sequences=several, alpha=0.5
    )

    def repeats(tokens):
        ngrams = [tokens[i : i + size] for i in range(len(tokens) - size + 1)]
        ngrams = [ngram for ngram in ngrams if not set(ngram) & set(excluded)]
        return len(set(ngrams)) < len(ngrams)

    for document in range(2):
        expected = [
            (tokens, score)
            for tokens, score in exhaustive("bart", document, alpha=0.5)
            if not repeats(tokens)
        ]
        assert_best(outputs, model, expected, document, several)


def test_excluded_tokens_break_blocked_ngrams():
    scores = torch.zeros(2, 9)
    ids = torch.tensor([[0, 5, 6, 7, 5, 6], [0, 5, 6, 8, 5, 6]])
    blocked = NgramBlocker(3, exclude_ids=[8])(ids, scores)
    assert blocked.isinf().nonzero().tolist() == [[0, 7]]
    assert scores.eq(0).all(), "the scores that were given stay"


@pytest.mark.parametrize("early_stopping", [False, "never", True])
@pytest.mark.parametrize("name", MODELS)
def test_without_penalties_it_equals_transformers(name, early_stopping):
    model = MODELS[name](40)
    inputs = {
        "input_ids": torch.randint(3, 40, (3, 12), generator=torch.Generator().manual_seed(1)),
        "attention_mask": torch.ones(3, 12, dtype=torch.long),
    }
    inputs["attention_mask"][1, 7:] = 0
    options = {
        "num_beams": 4,
        "num_return_sequences": 3,
        "max_new_tokens": 9,
        "early_stopping": early_stopping,
        "return_dict_in_generate": True,
        "output_scores": True,
    }
    theirs = model.generate(**inputs, length_penalty=0.0, **options)
    ours = model.generate(**inputs, custom_generate=summary_beam_search, **options)
    assert torch.equal(ours.sequences, theirs.sequences)
    torch.testing.assert_close(ours.sequences_scores, theirs.sequences_scores)
    assert torch.equal(ours.beam_indices, theirs.beam_indices.long())
    torch.testing.assert_close(ours.scores[0], theirs.scores[0])
    plain = model.generate(
        **inputs,
        custom_generate=summary_beam_search,
        num_beams=4,
        max_new_tokens=9,
        early_stopping=early_stopping,
    )
    assert torch.equal(plain, ours.sequences[::3][:, : plain.shape[1]])


@pytest.mark.parametrize("name", MODELS)
def test_a_document_is_summarized_alone_as_in_a_batch(name):
    model = MODELS[name](40)
    ids = torch.randint(3, 40, (2, 12), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(ids)
    mask[1, 8:] = 0
    entities = torch.rand(2, 12, generator=torch.Generator().manual_seed(3))
    options = {
        "custom_generate": summary_beam_search,
        "num_beams": 3,
        "max_new_tokens": 8,
        "min_new_tokens": 8,
    }
    options |= {"alpha": 0.9, "beta": 1.0, "gamma": 1.0, "block_ngram": 2}
    both = model.generate(input_ids=ids, attention_mask=mask, entity_scores=entities, **options)
    alone = model.generate(
        input_ids=ids[1:, :8], attention_mask=mask[1:, :8], entity_scores=entities[1:, :8], **options
    )
    assert torch.equal(both[1:], alone)
    uncached = model.generate(
        input_ids=ids, attention_mask=mask, entity_scores=entities, use_cache=False, **options
    )
    assert torch.equal(both, uncached)


def test_cross_attention_can_be_shared_by_the_beams_of_stock_bart():
    model = MODELS["bart"](40)
    ids = torch.randint(3, 40, (2, 12), generator=torch.Generator().manual_seed(2))
    options = {"custom_generate": summary_beam_search, "num_beams": 3, "max_new_tokens": 8, "beta": 1.0}
    assert torch.equal(
        generate_with_shared_cross_attention(model, ids, **options), model.generate(ids, **options)
    )


def test_the_attention_of_all_layers_can_be_averaged():
    model = MODELS["bart"](40)
    ids = torch.tensor(
        [[5, 17, 30, 8, 21, 9, 33, 12]]
    )  # few enough that some get the attention of a whole token
    options = {
        "custom_generate": summary_beam_search,
        "num_beams": 3,
        "max_new_tokens": 8,
        "beta": 1.0,
        "min_new_tokens": 8,
    }
    scores = [
        model.generate(ids, attention_layer=layer, return_dict_in_generate=True, **options).sequences_scores
        for layer in (0, -1, None)
    ]
    assert len({round(score.item(), 5) for score in scores}) == 3


def test_words_beyond_the_vocabulary_are_copied():
    model = MODELS["pointer-generator"](40)
    with torch.no_grad():
        model.copy_switch.bias.fill_(20.0)  # copy always
    ids = torch.tensor([[40, 5, 41, 42, 1]])
    written = model.generate(
        ids,
        custom_generate=summary_beam_search,
        num_beams=3,
        max_new_tokens=4,
        min_new_tokens=4,
        block_ngram=1,
    )
    assert set(written[0, 1:].tolist()) <= {40, 5, 41, 42, 1} and written.max() >= 40


def test_back_ends_are_put_back():
    model = MODELS["bart"]()
    model.set_attn_implementation("sdpa")
    search(model, documents(model), num_beams=3, beta=1.0)
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize(
    "options, message",
    [
        ({"gamma": 1.0}, "no entity_attention; pass entity_scores"),
        (
            {"gamma": 1.0, "entity_scores": torch.ones(1, 6)},
            r"entity_scores has shape \(1, 6\); expected \[2, source\]",
        ),
        ({"gamma": 1.0, "entity_scores": torch.ones(2, 5)}, "for 5 tokens, but the source has 6"),
        ({"beta": -1.0}, "beta is -1.0; a penalty is at least 0"),
        ({"stepwise": "length"}, r"stepwise names \['length'\]"),
        ({"penalty_form": "wu"}, "choose 'paper' or 'released'"),
        ({"do_sample": True}, "does not sample"),
        ({"return_dict_in_generate": True, "output_hidden_states": True}, "output_hidden_states=True"),
        ({"block_ngram": -1}, "must be at least 1"),
    ],
)
def test_mistakes_are_named(options, message):
    model = MODELS["bart"]()
    with pytest.raises(ValueError, match=message):
        model.generate(
            **documents(model), custom_generate=summary_beam_search, num_beams=2, max_new_tokens=3, **options
        )


# --- when to stop -----------------------------------------------------------------------------------------

MANY, LONG, BEAMS, SOURCE = 100, 7, 2, 12
STOPPING = [
    {"alpha": 1.5},
    {"gamma": 1.5},
    {"gamma": 0.3},
    {"beta": 0.5},
    {"alpha": 1.0, "beta": 0.5, "gamma": 1.0},
    {"alpha": 1.5, "beta": 0.5, "penalty_form": "released"},
    {"alpha": 1.0, "gamma": 1.0, "ends": (2, 3, 4)},
    {"ends": (2, 3, 4)},
    {"alpha": 4.0, "ends": (1, 2, 3, 4)},
]


@functools.cache
def next_token(document, prefix):
    """A model that is a table: log-probabilities of the next token, and the attention of this step."""
    generator = torch.Generator().manual_seed(hash((document, *prefix)) % 2**31)
    log = torch.log_softmax(2 * torch.randn(VOCABULARY, generator=generator), -1)
    return log, torch.softmax(3 * torch.randn(SOURCE, generator=generator), -1)


@functools.cache
def salient(document):
    return torch.rand(SOURCE, generator=torch.Generator().manual_seed(document))


@functools.cache
def attended(document, prefix):
    """What the steps of a summary up to the one behind `prefix` have attended to, one number for each source token."""
    before = attended(document, prefix[:-1]) if prefix else [0.0] * SOURCE
    return [a + b for a, b in zip(before, next_token(document, prefix)[1].tolist(), strict=True)]


@functools.cache
def log_probabilities(document, prefix):
    return next_token(document, prefix)[0].tolist()


@functools.cache
def excess_and_lack(document, prefix):
    """The coverage and the entity penalty of strength one."""
    pairs = list(zip(salient(document).tolist(), attended(document, prefix), strict=True))
    return sum(max(a - 1.0, 0.0) for _, a in pairs), sum(max(e - a, 0.0) for e, a in pairs)


def plain_search(document, early_stopping, alpha=0.0, beta=0.0, gamma=0.0, penalty_form="paper", ends=(2,)):
    """The best summaries that a beam of plain Python lists finds, and after how many tokens it stopped early."""
    released = penalty_form == "released"

    def penalties(prefix):  # of a summary before its last token
        excess, lack = excess_and_lack(document, prefix)
        return beta * excess, gamma * lack

    def final(log, length, coverage, lacking):
        divisor = ((5 + length + released) / 6) ** alpha
        return (log - coverage) / divisor - lacking if released else log / divisor - coverage - lacking

    running, finished = [(0.0, ())], []
    for length in range(1, LONG + 1):
        candidates = []
        for log, prefix in running:
            coverage, lacking = penalties(prefix)
            for token, value in enumerate(log_probabilities(document, prefix)):
                score = final(log + value, length, coverage, lacking)
                candidates.append((log + value - coverage, log + value, score, (*prefix, token)))
        candidates.sort(reverse=True)
        ended = [length == LONG or tokens[-1] in ends for *_, tokens in candidates]
        best = list(zip(candidates, ended, strict=True))
        finished += [(score, tokens) for (_, _, score, tokens), over in best[:BEAMS] if over]
        finished = sorted(finished, reverse=True)[:BEAMS]
        running = [(log, tokens) for (_, log, _, tokens), over in best if not over][:BEAMS]
        if len(finished) == BEAMS and running and early_stopping is not None:
            reach = []
            for log, tokens in running:
                coverage, lacking = penalties(tokens[:-1])
                at_best = max(lacking - gamma * (LONG - length), 0.0)
                reach.append(final(log, LONG if early_stopping == "never" else length, coverage, at_best))
            if early_stopping is True or max(reach) <= finished[-1][0]:
                return finished, length
    return finished, None


def table_search(documents, early_stopping, alpha=0.0, beta=0.0, gamma=0.0, penalty_form="paper", ends=(2,)):
    config = SimpleNamespace(
        num_beams=BEAMS, max_length=1 + LONG, early_stopping=early_stopping, output_scores=False,
        num_return_sequences=BEAMS, return_dict_in_generate=True,
        _eos_token_tensor=torch.tensor(ends), _pad_token_tensor=torch.tensor(0),
    )  # fmt: skip
    start = torch.zeros(len(documents) * BEAMS, 1, dtype=torch.long)
    search = _Search(None, start, config, Penalties(alpha, beta, gamma, True, penalty_form))
    if gamma:
        search.entities = torch.stack([salient(document) for document in documents])[:, None]

    def stopping(written, _):
        return torch.isin(written[:, -1], torch.tensor(ends)) | (written.shape[1] == config.max_length)

    stops = [LONG] * len(documents)
    while True:
        rows = search.rows()[:, 1:].tolist()
        steps = [next_token(documents[i // BEAMS], tuple(row)) for i, row in enumerate(rows)]
        if beta or gamma:
            search.attend(torch.stack([attention for _, attention in steps]))
        search.advance(torch.stack([log for log, _ in steps]), stopping)
        over = search.over()
        for index in (~search.open).nonzero().flatten().tolist():
            stops[index] = min(stops[index], search.tokens)
        if over:
            return search.output(config), stops


@pytest.mark.parametrize("early_stopping", [False, "never", True])
@pytest.mark.parametrize("penalties", STOPPING, ids=str)
def test_it_stops_when_plain_python_does(penalties, early_stopping):
    outputs, stops = table_search(range(MANY), early_stopping, **penalties)
    for document in range(MANY):
        expected, stopped = plain_search(document, early_stopping, **penalties)
        for rank, (score, tokens) in enumerate(expected):
            row = BEAMS * document + rank
            found = outputs.sequences[row, 1 : 1 + len(tokens)].tolist()
            assert tuple(found) == tokens, (document, rank)
            assert outputs.sequences_scores[row].item() == pytest.approx(score, rel=1e-5, abs=ABSOLUTE)
        assert stops[document] == (stopped or LONG), document


def test_never_stopping_early_loses_nothing_and_other_rules_do():
    """Otherwise the comparison above would show little."""
    stops, lost = set(), dict.fromkeys((False, True), 0)
    for penalties in STOPPING:
        found = {
            rule: [plain_search(document, rule, **penalties) for document in range(MANY)]
            for rule in (None, False, "never", True)
        }
        best = {rule: [summaries for summaries, _ in each] for rule, each in found.items()}
        assert best["never"] == best[None], penalties
        stops |= {stopped for _, stopped in found["never"]}
        for rule in lost:
            lost[rule] += best[rule] != best[None]
    assert stops >= {None, 3, 4, 5, 6} and lost[True] == len(STOPPING) and lost[False] > 2
