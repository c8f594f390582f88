"""Recipes: small typed files that say what a training run does.

A recipe is a TOML file with one table per section below. Keys and types are checked strictly, so that a
typing error stops the run before it starts:

    >>> recipe = load_recipe("attention_variants_reuters", ["training.max_steps=100"])
    >>> recipe.training.max_steps
    100
    >>> load_recipe("attention_variants_reuters", ["training.max_step=100"])  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    summarily.support.errors.RecipeError: training.max_step is not a key of a recipe; did you mean training.max_steps?

A recipe learns to summarize the pairs of its data section, unless it fills in the section of another task
(`denoising`, `self_critical`, `reading`, `rating`; see `tasks`). What a task does not read may not be set.

`[data] use = "xsum"` starts from `recipes/data/xsum.toml`, so that every model can use every data set;
`--set data.use=xsum` on the command line does the same.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from summarily.modeling.training.recipe_values import build, did_you_mean, set_value
from summarily.support.errors import InputError, RecipeError
from summarily.support.inputs import read_text
from summarily.support.keys import Key

RECIPES = Path(__file__).parent / "recipes"
LOSS = Key("loss", higher_is_better=False)


@dataclass(frozen=True)
class ModelSection:
    """`name` is a model type (built from scratch with `config`), a Hub id or a folder (loaded).

    `start` is how the weights of a new model begin: as its class draws them, or, for BART, as a copier
    (`bart_surgery.start_as_copier`). `word_vectors` are a file of fastText, GloVe or word2vec, or a pinned name
    (`support/vectors.py`), at which the words of a new model start. With `encoder` a pretrained T5 reads long documents:
    its encoder's self-attention becomes LED's or RED's, whose fields `config` may set.
    """

    name: str
    config: dict[str, Any] = field(default_factory=dict)
    revision: str | None = None
    gradient_checkpointing: bool = False
    start: Literal["usual", "copier"] = "usual"
    word_vectors: str | None = None
    encoder: Literal["own", "led", "red"] = "own"


@dataclass(frozen=True)
class AdapterSection:
    """With a `rank` the model stays as it is, and a low-rank difference from it (LoRA, by peft) is trained and saved."""

    rank: int | None = None
    alpha: int | None = None  # the difference counts alpha / rank times; by default once
    dropout: float = 0.0
    targets: list[str] = field(
        default_factory=list
    )  # names of layers; by default all linear ones but the head
    start: str | None = None  # the folder of an adapter of the same shape to go on from


@dataclass(frozen=True)
class TokenizerSection:
    """`pretrained` loads `name` (by default the model's own); the others train one on the training split.

    `copy` is `word` with ids for the unknown words of a source, for models that copy (`PointerGeneratorTokenizer`).
    """

    kind: Literal["pretrained", "word", "bpe", "copy"] = "pretrained"
    name: str | None = None
    vocabulary_size: int = 8000
    min_frequency: int = 2
    lowercase: bool = False
    digits_to_hash: bool = False
    split: Literal["words", "whitespace"] = "words"
    unknown: str = "<unk>"
    # "end": text </s>, with tensor2tensor's ids; "bart": <s> text </s>, with BART's ids and its <mask>.
    special_tokens: Literal["end", "bart"] = "end"


@dataclass(frozen=True)
class DataSection:
    """Where the pairs come from and what is done to them; see `corpora`."""

    use: str | None = None  # a file of recipes/data to start from
    also: list[str] = field(
        default_factory=list
    )  # files of recipes/data whose training rows are learned from, too
    name: str | None = None  # a data set of the Hub
    config: str | None = None
    revision: str | None = None
    files: dict[str, str] = field(
        default_factory=dict
    )  # split -> file (* for several), or DUC folder, under --data
    # Columns: "abstract", "sections[].text", ["title", "body"]; lists of strings are joined by `joiner`.
    source: str | list[str] = "document"
    target: str | list[str] = "summary"
    references: str | None = None  # a list column when there are several; the first is the target
    learned: str | None = None  # a column to learn in place of the target, which scores are still against
    headings: str | None = None  # one heading for each part of the source
    id: str | None = None  # without one, the content itself decides the split
    joiner: str = "\n"
    # Splits: a split's name, or "train@0-90": the rows of "train" whose hash falls into that percentage.
    train: str = "train"
    validation: str = "validation"
    test: str = "test"
    split_column: str | None = None  # the split of a row is the value of this column
    split_seed: int = 0
    limits: dict[str, int] = field(default_factory=dict)  # split -> rows to keep at most
    streaming: bool = False
    # Preprocessing of the papers.
    prefix: str = ""
    ptb_tokens: bool = False
    lowercase: bool = False
    digits_to_hash: bool = False
    rare_words_below: int = 0  # words seen less often in the training split become UNK
    headline_filter: bool = False  # of the training split alone
    drop_duplicates: bool = False
    min_source_words: int = 1
    min_target_words: int = 1
    max_copied: float = 1.0  # the share of the target's trigrams that the source may hold word by word
    # Of the training split alone: the share that the first `copied_words` of the source, by default all, must hold.
    min_copied: float = 0.0
    copied_words: int | None = None
    keep_headings: bool = False
    drop_unheaded: bool = (
        False  # parts without a heading; in papers taken from PDF, often the abstract itself
    )
    cut_after_conclusion: bool = False
    cnn_marker: Literal["keep", "strip"] = "keep"
    news_furniture: Literal["keep", "strip"] = (
        "keep"  # bylines, dates, "Scroll down for video"; see `articles`
    )
    first_paragraph: bool = False  # the source is its first line alone
    target_case: Literal["keep", "source"] = "keep"  # a target in capitals is cased as its source
    target_stops: bool = False  # a line of the target that ends in no punctuation gets a full stop
    sentence_marks: Literal["keep", "strip"] = "keep"
    math_marks: Literal["keep", "strip"] = "keep"
    # Truncation, in tokens, special tokens included.
    max_source_tokens: int = 1024
    max_target_tokens: int = 128
    max_test_source_tokens: int | None = None  # of the test split, if not as in training; 0 for whole sources
    starts: Literal["beginning", "random"] = "beginning"  # where a source that is too long starts
    starts_seed: int = 0
    # Mark the tokens of entities that answer a cloze question about the target: `salient_tokens`, for APESO.
    entities: bool = False


@dataclass(frozen=True)
class TextSource:
    """Texts to be denoised: a file under --data, the column with the text, and values that rows must have."""

    file: str
    column: str
    only: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DenoisingSection:
    """With `texts`, the run learns to restore them from BART's noise instead of summarizing; see `tasks.denoising`."""

    texts: list[TextSource] = field(default_factory=list)
    max_words: int = 1500  # of a document
    lengths: list[int] = field(default_factory=lambda: [64, 128, 256, 512])  # tokens of a piece, one of these
    masked: float = 0.3
    span: float = 3.0
    permute_sentences: bool = True


@dataclass(frozen=True)
class ReadingSection:
    """With `questions`, the run teaches a reader to answer cloze questions; see `tasks.reading`."""

    questions: str = ""  # their file, made from the articles of --data if it is not there
    collections: list[str] = field(default_factory=list)  # of which articles; see `cloze_corpus`
    articles: dict[str, int] = field(default_factory=dict)  # split -> how many of "cnndm"
    start: str | None = None  # the folder, or the name in hub_cards, of a reader to go on from
    max_words: int = 400  # of an article
    validation_articles: int = 150  # of each collection, at every evaluation
    test_articles: int | None = None  # of each collection


@dataclass(frozen=True)
class PairSource:
    """Pairs of texts: a file under --data and its columns.

    `rating` is what people say, from `low` to `high`; with `worse`, a column with another text for the same reference,
    the candidate is to have the higher score of the two (a duel); without either, the columns named like the model's
    signals are learned. Rows are held out if their `split` is "validation", or, without such a column, by chance. Duels
    need one, so that those of one article are on one side.
    """

    file: str
    reference: str = "reference"
    candidate: str = "candidate"
    rating: str | None = None
    worse: str | None = None
    low: float = 0.0
    high: float = 1.0
    split: str | None = None

    @property
    def by_people(self) -> bool:
        """Whether its labels are people's, not those of other metrics."""
        return self.rating is not None or self.worse is not None


@dataclass(frozen=True)
class RatingSection:
    """With `pairs`, the run teaches a BLEURT to rate them; see `tasks.rating`."""

    pairs: list[PairSource] = field(default_factory=list)
    joined: int = 0  # further rows, made of several pairs each, so that longer texts are seen too
    held_out: float = 0.1
    max_tokens: int = 256  # of a pair, special tokens included

    @property
    def has_duels(self) -> bool:
        return any(source.worse is not None for source in self.pairs)


@dataclass(frozen=True)
class BatchSection:
    """One optimizer step sees about `tokens` tokens, padding included, in forward passes of `micro_tokens`."""

    tokens: int = 8192
    micro_tokens: int | None = None
    max_examples: int | None = None
    pool: int = 8192  # rows that are sorted by length together


@dataclass(frozen=True)
class OptimizerSection:
    kind: Literal["adam", "adamw", "adagrad", "sgd"] = "adamw"
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    initial_accumulator: float = 0.1  # Adagrad's
    max_gradient_norm: float | None = None


@dataclass(frozen=True)
class ScheduleSection:
    """See `train.learning_rate` for the formulas."""

    kind: Literal["constant", "linear", "inverse_sqrt", "noam", "plateau"] = "constant"
    learning_rate: float = 1e-4
    warmup_steps: int = 0
    width: int | None = None  # noam: the model's width, by default its config's
    factor: float = 0.5  # plateau
    patience: int = 0  # plateau: evaluations without progress before the rate falls


@dataclass(frozen=True)
class TrainingSection:
    seed: int = 0
    max_steps: int | None = None
    max_epochs: int | None = None
    max_minutes: float | None = None
    label_smoothing: float = 0.0  # spread over the other words; whatever the model, this is the switch
    normalize: Literal["tokens", "examples"] = "tokens"
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    find_unused_parameters: bool = False
    log_every: int = 10
    evaluate_every: int = 500
    checkpoint_every: int = 500
    checkpoint_minutes: float = 10.0
    keep_checkpoints: int = 2
    patience: int | None = None  # evaluations without progress before the run stops
    tensorboard: bool = True  # if it is installed


@dataclass  # not frozen: the arguments of a trainer inherit from it
class SelfCriticalSection:
    """Learning from rewards, if any is named; see `self_critical`. Names in a recipe are those of our metrics."""

    rewards: list[str] = field(default_factory=list)
    reward_weights: list[float] = field(default_factory=list)  # of each reward, 1 when left out
    reward_options: dict[str, Any] = field(default_factory=dict)  # metric -> its options
    reward_workers: int = 1  # processes; 0: none of their own
    rl_gamma: float = 0.97  # the weight of the reward against the likelihood of the reference,
    rl_gamma_end: float = 0.999  # to which it rises
    rl_gamma_steps: int | None = None  # in this many steps; by default in those of the run
    loss_reduction: Literal["sum", "mean"] = "sum"  # over the tokens of a summary
    max_summary_tokens: int = 100  # of samples and greedy summaries
    # Below 1 the policy that is sampled from and learns is sharper than the model: its samples can rival greedy ones.
    sample_temperature: float = 1.0


@dataclass(frozen=True)
class EvaluationSection:
    """`select` is "loss", which needs no summaries to be written, or a score such as "bertscore_recall" (of ours the one
    that agrees best with people), "rougeL" or "rouge1_recall" of one of `metrics`.

    Readers are chosen by "accuracy" or "accuracy_gold", raters by "loss", "spearman" or "won" (duels).
    """

    select: str = str(LOSS)
    metrics: list[str] = field(default_factory=lambda: ["rouge"])
    preset: Literal["light", "paper"] = "light"
    validation_examples: int = 200  # summaries generated at each evaluation when `select` is not the loss
    test_examples: int | None = None  # 0: a study scores the model, not the run
    max_words: int | None = None
    max_bytes: int | None = None
    tokens: int | None = None  # batch size, by default that of a forward pass in training


@dataclass(frozen=True)
class HubSection:
    """What the folder for the Hub says and how its weights are stored."""

    name: str | None = None
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    license: str = "apache-2.0"
    language: str = "en"
    tags: list[str] = field(default_factory=list)
    note: str = ""
    limits: str = ""  # what it cannot do; without it, what every model of its task cannot
    citation: str = ""  # BibTeX of the work the model comes from


@dataclass(frozen=True)
class Recipe:
    """Everything a run depends on."""

    model: ModelSection
    data: DataSection = field(default_factory=DataSection)
    adapter: AdapterSection = field(default_factory=AdapterSection)
    tokenizer: TokenizerSection = field(default_factory=TokenizerSection)
    batch: BatchSection = field(default_factory=BatchSection)
    optimizer: OptimizerSection = field(default_factory=OptimizerSection)
    schedule: ScheduleSection = field(default_factory=ScheduleSection)
    training: TrainingSection = field(default_factory=TrainingSection)
    self_critical: SelfCriticalSection = field(default_factory=SelfCriticalSection)
    evaluation: EvaluationSection = field(default_factory=EvaluationSection)
    generation: dict[str, Any] = field(default_factory=dict)
    hub: HubSection = field(default_factory=HubSection)
    denoising: DenoisingSection = field(default_factory=DenoisingSection)
    reading: ReadingSection = field(default_factory=ReadingSection)
    rating: RatingSection = field(default_factory=RatingSection)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def task(self) -> str:
        """What is trained: the name of a file of `tasks`."""
        return next(iter(self._sections_of_tasks()), "summary")

    def _sections_of_tasks(self) -> list[str]:
        filled = {
            "denoising": self.denoising.texts,
            "self_critical": self.self_critical.rewards,
            "reading": self.reading.questions,
            "rating": self.rating.pairs,
        }
        return [name for name, value in filled.items() if value]

    @property
    def micro_tokens(self) -> int:
        return self.batch.micro_tokens or self.batch.tokens

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Recipe:
        """Build a recipe from nested dictionaries, checking every key and type.

        Example:
            >>> Recipe.from_dict({"model": {"name": "bart"}, "data": {"name": "EdinburghNLP/xsum"},
            ...                   "training": {"max_steps": 10}}).data.max_target_tokens
            128
        """
        return build(cls, values, "")


def load_recipe(name: str | Path, overrides: Iterable[str] = ()) -> Recipe:
    """Read a recipe file, or one of the recipes of this package by name, and apply `section.key=value`."""
    values = _read(_find(str(name), RECIPES))
    changes = [_split_override(text) for text in overrides]
    # `data.use` decides what every other override is applied to, so it goes first.
    for keys, text in changes:
        if keys == ["data", "use"]:
            values["data"] = {"use": text, **_lengths(values.get("data", {}))}
    values["data"] = _with_base(values.get("data", {}))
    for keys, text in changes:
        set_value(Recipe, values, keys, text)
    return Recipe.from_dict(values)


def _split_override(text: str) -> tuple[list[str], str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise RecipeError(f"{text!r} is not an override; write section.key=value.")
    return key.strip().split("."), value.strip()


def _lengths(data: Mapping[str, Any]) -> dict[str, Any]:
    """What belongs to the model rather than to the data set stays when the data set is exchanged."""
    return {key: data[key] for key in ("max_source_tokens", "max_target_tokens", "prefix") if key in data}


def _with_base(data: Mapping[str, Any]) -> dict[str, Any]:
    if not data.get("use"):
        return dict(data)
    base = _read(_find(str(data["use"]), RECIPES / "data"))
    return {**base.get("data", {}), **data}


def data_section(name: str, like: DataSection) -> DataSection:
    """The data section of a file of recipes/data, with the lengths and the prefix of another.

    Example:
        >>> data_section("arxiv_local", DataSection(prefix="summarize: ", max_source_tokens=512)).max_source_tokens
        512
    """
    values = _with_base({"use": name}) | {
        "max_source_tokens": like.max_source_tokens,
        "max_target_tokens": like.max_target_tokens,
        "prefix": like.prefix,
    }
    return build(DataSection, values, "data.")


def _find(name: str, folder: Path) -> Path:
    for path in (folder / f"{name}.toml", Path(name)):  # a name of ours, whatever lies in the working folder
        if path.is_file():
            return path
    known = sorted(path.stem for path in folder.glob("*.toml"))
    raise RecipeError(
        f"there is no recipe file {name!r}{did_you_mean(name, known)} Known names: {', '.join(known)}."
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except InputError as error:  # another encoding
        raise RecipeError(str(error)) from None
    except RecursionError:
        raise RecipeError(f"{path.name} is not TOML that can be read: it is nested too deeply.") from None
    except ValueError as error:  # TOMLDecodeError, and numbers of thousands of digits
        raise RecipeError(f"{path.name} is not valid TOML: {error}") from None


# --- checking ---------------------------------------------------------------------------------------------


def _check(recipe: Recipe) -> None:
    """The rules that types cannot say."""
    data, batch, training = recipe.data, recipe.batch, recipe.training
    positive = {
        "batch.tokens": batch.tokens,
        "batch.micro_tokens": batch.micro_tokens,
        "batch.max_examples": batch.max_examples,
        "batch.pool": batch.pool,
        "data.max_source_tokens": data.max_source_tokens,
        "data.max_target_tokens": data.max_target_tokens,
        "data.copied_words": data.copied_words,
        "schedule.learning_rate": recipe.schedule.learning_rate,
        "optimizer.epsilon": recipe.optimizer.epsilon,
        "optimizer.max_gradient_norm": recipe.optimizer.max_gradient_norm,
        "training.max_steps": training.max_steps,
        "training.max_epochs": training.max_epochs,
        "training.max_minutes": training.max_minutes,
        "training.log_every": training.log_every,
        "training.evaluate_every": training.evaluate_every,
        "training.checkpoint_every": training.checkpoint_every,
        "training.checkpoint_minutes": training.checkpoint_minutes,
        "training.keep_checkpoints": training.keep_checkpoints,
    }
    for key, value in positive.items():
        if value is not None and value <= 0:
            raise RecipeError(f"{key} is {value}; it must be above 0.")
    for key, rate in {"beta1": recipe.optimizer.beta1, "beta2": recipe.optimizer.beta2}.items():
        if not 0 <= rate < 1:
            raise RecipeError(f"optimizer.{key} is {rate}; expected 0 <= value < 1.")
    if recipe.optimizer.weight_decay < 0:
        raise RecipeError(
            f"optimizer.weight_decay is {recipe.optimizer.weight_decay}; it must not be below 0."
        )
    if not 0 <= training.label_smoothing < 1:
        raise RecipeError(f"training.label_smoothing is {training.label_smoothing}; expected 0 <= value < 1.")
    if training.max_steps is training.max_epochs is training.max_minutes is None:
        raise RecipeError("the run would never end: set training.max_steps, max_epochs or max_minutes.")
    if data.max_test_source_tokens is not None and data.max_test_source_tokens < 0:
        raise RecipeError(
            f"data.max_test_source_tokens is {data.max_test_source_tokens}; expected a number of tokens, or 0 for whole "
            "sources."
        )
    _check_self_critical(recipe.self_critical)
    if recipe.schedule.kind == "linear" and training.max_steps is training.max_minutes is None:
        raise RecipeError(
            "the linear schedule needs training.max_steps or training.max_minutes to fall to 0."
        )
    _check_task(recipe)
    pair, duels = recipe.rating.max_tokens, recipe.rating.has_duels
    longest, of = {
        "reading": (0, ""),
        "rating": (2 * pair, "twice rating.max_tokens") if duels else (pair, "rating.max_tokens"),
    }.get(
        recipe.task,
        (data.max_source_tokens + data.max_target_tokens, "data.max_source_tokens + data.max_target_tokens"),
    )
    if min(recipe.micro_tokens, batch.tokens) < longest:
        raise RecipeError(
            f"batch.tokens = {batch.tokens} and batch.micro_tokens = {recipe.micro_tokens} must hold one example of "
            f"{of} = {longest} tokens; raise them or shorten the data."
        )
    if (data.cut_after_conclusion or data.keep_headings or data.drop_unheaded) and not data.headings:
        raise RecipeError(
            "data.cut_after_conclusion, data.keep_headings and data.drop_unheaded need data.headings, the column with the "
            'heading of each part of the source, such as "sections[].heading".'
        )
    if not 0 <= data.min_copied <= 1:
        raise RecipeError(f"data.min_copied is {data.min_copied}; expected a share from 0 to 1.")
    if data.copied_words and not data.min_copied:
        raise RecipeError("data.copied_words says where data.min_copied looks; set that, too.")
    if data.streaming and data.also:
        raise RecipeError(
            "data.also adds the rows of files, which a stream does not take; turn one of the two off."
        )
    for name in data.also:  # before the run rather than in it
        data_section(name, data)
    if data.streaming and data.drop_duplicates:
        raise RecipeError(
            "data.drop_duplicates would remember every row of a stream; turn one of the two off."
        )
    if data.streaming and data.rare_words_below:
        raise RecipeError(
            "data.rare_words_below counts the whole training split, which a stream has not got; leave rare "
            "words to the tokenizer (tokenizer.kind = 'word' with vocabulary_size)."
        )
    _check_select(recipe)


# What a task does not read: it would be accepted and change nothing.
_NO_SUMMARIES = (
    r"data\.|adapter\.|generation\.|training\.label_smoothing$|model\.(revision|gradient_checkpointing|start)$"
    r"|evaluation\.(metrics|preset|validation_examples|test_examples|max_words|max_bytes)$"
)
_UNREAD = {
    "reading": _NO_SUMMARIES + r"|tokenizer\.(?!(kind|vocabulary_size)$)",
    "rating": _NO_SUMMARIES + r"|tokenizer\.|evaluation\.tokens$",
    "self_critical": r"training\.label_smoothing$",
    # `_check_denoising` says what takes the place of data.name and data.files.
    "denoising": r"data\.(?!use$|name$|files\.|limits\.|split_seed$|max_(source|target)_tokens$|lowercase$"
    r"|digits_to_hash$|ptb_tokens$|cnn_marker$|sentence_marks$|math_marks$)",
}


def _check_task(recipe: Recipe) -> None:
    named, data = recipe._sections_of_tasks(), recipe.data
    if len(named) > 1:
        raise RecipeError(
            f"a run has one task, but {' and '.join(named)} are filled in; leave out all but one."
        )
    if recipe.task in _UNREAD:
        default = _defaults()
        for key, value in flat(recipe.to_dict()).items():
            if re.match(_UNREAD[recipe.task], key) and value != default.get(key):
                raise RecipeError(f"{key} is {value!r}, but {recipe.task} does not read it; leave it out.")
    if recipe.task == "denoising":
        _check_denoising(recipe)
    elif recipe.task == "reading":
        _above_zero(recipe.reading, "reading", "max_words", "validation_articles", "test_articles")
    elif recipe.task == "rating":
        _above_zero(recipe.rating, "rating", "max_tokens")
        if recipe.rating.joined < 0 or not 0 < recipe.rating.held_out < 1:
            raise RecipeError(
                f"rating.joined is {recipe.rating.joined} and rating.held_out {recipe.rating.held_out}; expected at "
                "least 0, and a share between 0 and 1."
            )
        for source in recipe.rating.pairs:
            if source.worse is not None and (source.rating is not None or source.split is None):
                raise RecipeError(
                    f"rating.pairs of {source.file}: duels (worse = {source.worse!r}) have no rating, and need a split."
                )
    elif not data.name and not data.files:
        raise RecipeError("data.name (a data set of the Hub) or data.files (local files) must be set.")


def _defaults() -> dict[str, Any]:
    known: dict[str, Any] = {"model": ModelSection("")}
    for entry in dataclasses.fields(Recipe):
        if entry.default_factory is not dataclasses.MISSING:
            known[entry.name] = entry.default_factory()
    plain = {name: vars(value) if hasattr(value, "__dict__") else value for name, value in known.items()}
    return flat(plain)


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested sections as `section.key`.

    Example:
        >>> flat({"batch": {"tokens": 8}})
        {'batch.tokens': 8}
    """
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return found


def _above_zero(section: Any, name: str, *keys: str) -> None:
    for key in keys:
        value = getattr(section, key)
        if value is not None and value <= 0:
            raise RecipeError(f"{name}.{key} is {value}; it must be above 0.")


def _check_select(recipe: Recipe) -> None:
    """Before the run rather than at its first evaluation."""
    select, metrics = recipe.evaluation.select, recipe.evaluation.metrics
    own = {"reading": ("accuracy",), "rating": (str(LOSS), "spearman", "won")}.get(recipe.task)
    if own is not None:
        if not select.startswith(own):
            raise RecipeError(
                f"evaluation.select is {select!r}; {recipe.task} is chosen by {' or '.join(map(repr, own))}."
            )
        if select == "won" and not recipe.rating.has_duels:
            raise RecipeError("evaluation.select is 'won', but no rating.pairs has duels (worse).")
    elif select != LOSS and not any(select.startswith(name) for name in metrics):
        raise RecipeError(
            f"evaluation.select is {select!r}, which none of evaluation.metrics = {metrics} "
            "computes; choose 'loss' or add the metric."
        )


def _check_denoising(recipe: Recipe) -> None:
    section, data = recipe.denoising, recipe.data
    if data.name or data.files:
        raise RecipeError("denoising.texts take the place of data.name and data.files; leave those out.")
    if not section.lengths or min(section.lengths) < 8:
        raise RecipeError(f"denoising.lengths is {section.lengths}; expected lengths of at least 8 tokens.")
    longest = min(data.max_source_tokens, data.max_target_tokens)
    if max(section.lengths) > longest:
        raise RecipeError(
            f"denoising.lengths has {max(section.lengths)}, but data.max_source_tokens and max_target_tokens leave "
            f"{longest}."
        )
    if not 0 < section.masked < 1 or section.span <= 0:
        raise RecipeError(
            f"denoising.masked is {section.masked} and denoising.span {section.span}; expected a share between 0 and "
            "1, and a mean length above 0."
        )


def _check_self_critical(section: SelfCriticalSection) -> None:
    for key in ("rl_gamma", "rl_gamma_end"):
        if not 0 <= getattr(section, key) <= 1:
            raise RecipeError(f"self_critical.{key} is {getattr(section, key)}; expected 0 <= value <= 1.")
    if section.reward_workers < 0 or section.max_summary_tokens < 1:
        raise RecipeError(
            f"self_critical.reward_workers is {section.reward_workers} and max_summary_tokens "
            f"{section.max_summary_tokens}; expected at least 0 and 1."
        )
    if section.sample_temperature <= 0:
        raise RecipeError(
            f"self_critical.sample_temperature is {section.sample_temperature}; expected a positive number."
        )
    if section.reward_weights and len(section.reward_weights) != len(section.rewards):
        raise RecipeError(
            f"self_critical.reward_weights has {len(section.reward_weights)} values for {len(section.rewards)} rewards."
        )
    unknown = sorted(set(section.reward_options) - set(section.rewards))
    if unknown:
        raise RecipeError(
            f"self_critical.reward_options.{unknown[0]} is not one of the rewards {section.rewards}."
        )
