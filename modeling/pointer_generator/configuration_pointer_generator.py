"""Configuration of the pointer-generator."""

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from summarily.support.errors import InputError


@strict
class PointerGeneratorConfig(PreTrainedConfig):
    """A BiLSTM encoder and an LSTM decoder with additive attention that writes words or copies them.

    Reference: See et al. (2017), Get To The Point, in the form of the baseline of Eyal et al. (2019), Question
    Answering as an Automatic Evaluation Metric for News Article Summarization. Sizes are those of the latter.

    Token ids from `vocab_size` on are words of one source that the vocabulary has not got; see
    `PointerGeneratorTokenizer`. They may stand in `input_ids`, `labels` and `decoder_input_ids`, and come out of
    `generate`.

    Args:
        hidden_size: width of the encoder's states, half of it for each direction, and of the decoder.
        decoder_hidden_size: width of the decoder, if it is another (Clark et al. 2019: 128 beside 2 x 128).
        num_layers: of the encoder and of the decoder.
        coverage: attention also sees how much of it each source token has had so far (Eq. 11 of See et al.).
        coverage_weight: of the loss for attending to the same tokens again (their Eq. 12 and 13), which needs `coverage`.
        copy_switch_input: what decides between writing and copying: "output", what the decoder puts out, as in Eyal et
            al.; or "see", the context, the decoder's state and its input, as in See et al. (their Eq. 8).
        dropout: of embeddings, between layers, and of what the decoder puts out; the papers use none.
        unk_token_id: what the encoder and decoder read in place of a word beyond the vocabulary.
        init_range: all weights start uniformly between its negative and itself.
        decoder_start_token_id: by default the padding token, whose embedding is zero.

    Example:

    >>> PointerGeneratorConfig(vocab_size=30000, hidden_size=256, num_layers=2).embedding_size
    128
    """

    model_type = "summarily-pointer-generator"
    keys_to_ignore_at_inference = ["past_key_values"]
    attribute_map = {"num_hidden_layers": "num_layers"}

    vocab_size: int = 50000
    embedding_size: int = 128
    hidden_size: int = 512
    decoder_hidden_size: int | None = None
    num_layers: int = 1
    coverage: bool = False
    coverage_weight: float | int = 0.0
    copy_switch_input: str = "output"
    dropout: float = 0.0
    init_range: float = 0.1
    pad_token_id: int = 0
    eos_token_id: int | list[int] | None = 1
    bos_token_id: int | None = None
    unk_token_id: int = 2
    decoder_start_token_id: int = 0
    is_encoder_decoder: bool = True
    use_cache: bool = True
    tie_word_embeddings: bool = False

    def __post_init__(self, **kwargs):
        if self.hidden_size % 2:
            raise InputError(
                f"hidden_size={self.hidden_size} must be even: each direction of the encoder has half of it."
            )
        if (
            self.decoder_hidden_size is None
        ):  # not left so: transformers takes it for the width where a decoder is meant
            self.decoder_hidden_size = self.hidden_size
        if self.decoder_hidden_size < 2 or self.decoder_hidden_size % 2:
            raise InputError(
                f"decoder_hidden_size={self.decoder_hidden_size} must be even and above 0: it starts from both directions "
                "of the encoder."
            )
        if self.copy_switch_input not in ("output", "see"):
            raise InputError(f"copy_switch_input={self.copy_switch_input!r}; choose 'output' or 'see'.")
        if self.coverage_weight < 0 or (self.coverage_weight and not self.coverage):
            raise InputError(
                f"coverage_weight={self.coverage_weight} with coverage={self.coverage}; it is at least 0, and a loss on "
                "coverage needs coverage=True."
            )
        for name in ("pad_token_id", "unk_token_id", "decoder_start_token_id"):
            if not 0 <= getattr(self, name) < self.vocab_size:
                raise InputError(f"{name}={getattr(self, name)} is not below vocab_size={self.vocab_size}.")
        super().__post_init__(**kwargs)


__all__ = ["PointerGeneratorConfig"]
