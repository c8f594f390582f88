"""Learning to summarize, from pairs of documents and summaries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import set_seed

from summarily.modeling.data import LOSS_ONLY, data_of
from summarily.modeling.training import card
from summarily.modeling.training.building import build_model, build_tokenizer
from summarily.modeling.training.collators import SummaryCollator
from summarily.modeling.training.corpora import Corpus, encode, load_corpus
from summarily.modeling.training.evaluation import score_summaries, summarize, token_loss
from summarily.modeling.training.objective import summary_loss
from summarily.modeling.training.recipe import LOSS, DataSection
from summarily.modeling.training.task import Evaluation, Task

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from summarily.modeling.training.progress import RunResult


class SummaryTask(Task):
    """Any encoder-decoder on the pairs of the recipe's data section."""

    limits = (
        "Small models trained on little data invent: do not publish what it writes unread. What it was not trained on "
        "(other languages, other kinds of text) has not been measured."
    )
    kept_texts: tuple[str, ...] = ()  # columns of texts that the loss reads

    corpus: Corpus
    tokenizer: PreTrainedTokenizerBase
    splits: dict[str, Any]

    def read(self) -> Corpus:
        """The texts of every split."""
        return load_corpus(self.recipe.data, self.data)

    def encode(self) -> dict[str, Any]:
        """Token ids of every split. A stream is encoded as it is read; its held-out splits are kept in memory."""
        recipe = self.recipe
        rows = {
            name: encode(split, self.tokenizer, recipe.data, name)
            for name, split in self.corpus.splits.items()
        }
        columns = ["input_ids", "labels", *(LOSS_ONLY if recipe.data.entities else ())]
        columns += [name for name in self.kept_texts if name in (rows["train"].column_names or ())]
        if not recipe.data.streaming:
            return rows | {"train": rows["train"].select_columns(columns)}
        from datasets import Dataset

        stream = rows["train"].select_columns(columns)

        def read(epoch: int) -> Any:
            return stream.shuffle(recipe.training.seed + epoch, buffer_size=recipe.batch.pool)

        held_out = {name: Dataset.from_list(list(rows[name])) for name in ("validation", "test")}
        return {"train": read, **held_out}

    # --- the task ---

    def load(self) -> PreTrainedModel:
        with self.accelerator.main_process_first():  # the others then find the work done in the cache
            self.corpus = self.read()
        self.tokenizer = build_tokenizer(self.recipe, self.corpus, self.folder, self.accelerator)
        set_seed(self.recipe.training.seed)
        model = build_model(self.recipe, self.tokenizer)
        with self.accelerator.main_process_first():
            self.splits = self.encode()
        self.class_name = type(model).__name__
        self._collate = SummaryCollator(
            pad_token_id=self.tokenizer.pad_token_id,
            padding_side=self.tokenizer.padding_side,
            # Without the model's own loss (label smoothing) the decoder's inputs are ours to make.
            decoder_start_token_id=model.config.decoder_start_token_id
            if self.recipe.training.label_smoothing
            else None,
            keep_texts=self.kept_texts,
        )
        return model

    def rows(self) -> Any:
        return self.splits["train"]

    def collate(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return self._collate(rows)

    def loss(self, model: torch.nn.Module, batch: dict[str, Any]) -> torch.Tensor:
        return summary_loss(model, batch, self.recipe.training)

    def evaluate(self, model: Any, split: str) -> Evaluation:
        """The loss; and the scores of generated summaries in a test, or if the best checkpoint is chosen by them."""
        section = self.recipe.evaluation
        rows = self.splits[split]
        test = split == "test"
        if test:
            rows = _first(rows, section.test_examples)
        if not len(rows):
            return Evaluation(predictions=[])
        tokens = section.tokens or self.recipe.micro_tokens
        found = Evaluation({LOSS: token_loss(model, rows, self._collate, tokens, self.accelerator)})
        if section.select == LOSS and not test:
            return found
        if not test:
            rows = _first(rows, section.validation_examples)
        texts = summarize(model, self.tokenizer, rows, self._collate, section, tokens, self.accelerator)
        scores, found.signatures = score_summaries(texts, rows, section, self.accelerator)
        found.scores |= scores
        if test:
            found.examples = len(rows)
            found.predictions = [
                {"id": row["id"], "prediction": text, "references": row["references"]}
                for row, text in zip(rows.select_columns(["id", "references"]), texts, strict=True)
            ]
        return found

    def save(self, model: PreTrainedModel, folder: Path) -> None:
        recipe = self.recipe
        if recipe.adapter.rank is not None:
            save_adapter(folder, recipe, model)
            return
        before = model.dtype
        try:
            model.to(dtype=getattr(torch, recipe.hub.dtype)).save_pretrained(folder)  # type: ignore[call-arg]
        finally:
            model.to(dtype=before)  # type: ignore[call-arg]
        declare_float32(folder / "config.json")
        self.tokenizer.save_pretrained(folder)

    # --- the card ---

    def card(self, result: RunResult, examples: int) -> str:
        recipe = self.recipe
        name = recipe.hub.name or recipe.model.name.rstrip("/").split("/")[-1]
        beside = data_of(self.tokenizer).texts  # what decoding needs of an encoding but the ids
        return card.render(
            "summary",
            self,
            result,
            class_name=self.class_name,
            name=name,
            front_matter=self._front_matter(result, name),
            beside="".join(f", {text}=inputs.{text}" for text in beside),
            data=self.data_name(),
            what_is_learned=self.what_is_learned(),
            max_source_tokens=recipe.data.max_source_tokens,
            max_target_tokens=recipe.data.max_target_tokens,
            splits=card.bullets(self.corpus.report().splitlines()),
            changed=json.dumps(changed(recipe.data), indent=1, ensure_ascii=False),
            best_score=f"{result.best_score:.4f}",
            scores=self._scores(result, examples),
        )

    def data_name(self) -> str:
        """What to call the data: its name on the Hub, or its files without their folders."""
        section = self.recipe.data
        return section.name or card.file_names(section.files.values())

    def what_is_learned(self) -> str:
        """What the model was trained to do with the data."""
        section = self.recipe.data
        return f"source `{_plain(section.source)}`, target `{_plain(section.references or section.target)}`"

    def tested_split(self) -> str:
        """What the Hub is told that the scores are of."""
        return self.recipe.data.test

    def _scores(self, result: RunResult, examples: int) -> str:
        """What the test split was scored with, and the signatures; or that this run scored nothing."""
        if not examples:
            return "Not scored by this run."
        section = self.recipe.evaluation
        limits = [(section.max_words, "words"), (section.max_bytes, "bytes")]
        cuts = [f"{limit} {unit}" for limit, unit in limits if limit is not None]
        return card.fill(
            "scores",
            examples=f"{examples:,}",
            generation=json.dumps(self.recipe.generation),
            cut=f", cut at {' and '.join(cuts)}" if cuts else "",
            table=card.scores_table(result),
            signatures=card.bullets(f"`{text}`" for text in result.signatures.values()),
        )

    def _front_matter(self, result: RunResult, name: str) -> str:
        recipe, data = self.recipe, self.data_name()
        meta: dict[str, Any] = {
            "pipeline_tag": "summarization",
            "tags": ["summarization", "summarily", *recipe.hub.tags],
            "metrics": recipe.evaluation.metrics,
        }
        if recipe.data.name:
            meta["datasets"] = [recipe.data.name]
        if recipe.model.name.count("/") == 1:
            meta["base_model"] = recipe.model.name
        dataset = {"name": data, "type": data, "split": self.tested_split()}
        measured = {key: round(value, 4) for key, value in result.scores.items()}
        meta["model-index"] = card.model_index(name, {"type": "summarization"}, dataset, measured)
        return card.front_matter(recipe, meta)


def declare_float32(config: Path) -> None:
    """Weights that are stored in half precision load in float32, unless a user asks for less: float16 overflows when a
    model is trained further, and is slow on a CPU."""
    values = json.loads(config.read_text(encoding="utf-8"))
    values["dtype"] = "float32"
    config.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def save_adapter(folder: Path, recipe: Any, model: PreTrainedModel) -> None:
    """The difference alone, as peft stores it, with the config of the whole and the name of what it differs from."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    dtype = getattr(torch, recipe.hub.dtype)
    state = get_peft_model_state_dict(model, save_embedding_layers=False)
    tensors = {f"base_model.model.{name}": tensor.to(dtype).contiguous() for name, tensor in state.items()}
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    configs: Any = model.peft_config
    [config] = configs.values()
    stored = config.to_dict() | {"base_model_name_or_path": recipe.model.name, "inference_mode": True}
    (folder / "adapter_config.json").write_text(json.dumps(stored, indent=1, default=sorted) + "\n")
    whole = model.config.to_dict()
    whole.pop("_name_or_path", None)  # a folder of this machine; the adapter's config names the base
    if whole["model_type"].endswith("t5") and not whole.get("scale_decoder_outputs", True):
        # As its head is its own; transformers 5 writes true for every T5.
        whole["tie_word_embeddings"] = False
    if recipe.data.prefix:
        whole["task_specific_params"] = {"summarization": {"prefix": recipe.data.prefix}}
    (folder / "config.json").write_text(json.dumps(whole, indent=1) + "\n")
    model.generation_config.save_pretrained(folder)


def changed(section: DataSection) -> dict[str, Any]:
    """The values of the data section that are not defaults, but for names and folders."""
    default = DataSection()
    hidden = ("use", "name", "files", "source", "target", "references")
    return {k: v for k, v in vars(section).items() if v != getattr(default, k) and k not in hidden}


def _first(rows: Any, limit: int | None) -> Any:
    return rows if limit is None else rows.select(range(min(limit, len(rows))))


def _plain(columns: str | list[str]) -> str:
    return columns if isinstance(columns, str) else " + ".join(columns)
