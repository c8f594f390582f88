"""What a published summarizer's `generate` is: transformers reads it from `custom_generate/generate.py` of a repository.

It also lends the search to other models:

    model.generate(ids, custom_generate="summarily/apeso", trust_remote_code=True, num_beams=5, alpha=0.9, beta=0.5)
"""

from typing import Any

from summarily.modeling.generation.summary_beam_search import is_penalised, summary_beam_search


def generate(model: Any, inputs=None, generation_config=None, **options):
    """`model.generate` with the penalties that it is given or that its generation config holds.

    Example:
        >>> import torch
        >>> from transformers import T5Config, T5ForConditionalGeneration
        >>> config = T5Config(vocab_size=20, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, decoder_start_token_id=0)
        >>> t5 = T5ForConditionalGeneration(config).eval()
        >>> generate(t5, torch.tensor([[5, 6, 1]]), num_beams=2, alpha=0.9, max_new_tokens=3, min_new_tokens=3).shape
        torch.Size([1, 4])
    """
    # Our own models search so by themselves, and have other arguments; their class comes with their weights.
    ours = any(base.__name__ == "SearchesWithPenalties" for base in type(model).__mro__)
    if not ours and is_penalised(model, generation_config, options):
        options["custom_generate"] = summary_beam_search
    return type(model).generate(model, inputs, generation_config, **options)
