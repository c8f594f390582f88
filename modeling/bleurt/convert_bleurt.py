"""The PyTorch ports of BLEURT on the Hub, in our terms.

Two layouts are published. `Elron/bleurt-*` are BERT classifiers with one output. `lucadiliello/bleurt-*` name the same
parts differently, and `lucadiliello/BLEURT-20*` have small embeddings and a projection, which is RemBERT.
`BleurtForScoring.from_pretrained` reads them as they are; this makes a folder of ours of one:

    python -m summarily.modeling.bleurt.convert_bleurt lucadiliello/BLEURT-20-D12 bleurt-20-d12
"""

import argparse
from collections.abc import Mapping
from typing import Any

import torch

from summarily.support.errors import InputError

PORTS = ("bert", "bleurt", "rembert")
"""The model types that a port's config may name."""

_PREFIXES = ("bert.", "bleurt.", "rembert.")
# Fields that say how the port was saved or used, not what its encoder is.
_NOT_OF_THE_ENCODER = frozenset(
    [
        "_name_or_path",
        "architectures",
        "classifier_dropout",
        "dtype",
        "embedding_dropout_prob",
        "id2label",
        "label2id",
        "num_labels",
        "position_embedding_type",
        "problem_type",
        "torch_dtype",
        "transformers_version",
        "use_cache",
    ]
)


def is_port(values: Mapping[str, Any]) -> bool:
    """Whether a config.json is that of a port.

    Example:

    >>> is_port({"model_type": "bleurt"}), is_port({"model_type": "summarily-bleurt"})
    (True, False)
    """
    return values.get("model_type") in PORTS


def port_config(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of our config for a port's config.json.

    Example:

    >>> config = port_config({"model_type": "bleurt", "hidden_size": 8, "embedding_size": 4})["encoder_config"]
    >>> config["model_type"], config["input_embedding_size"]
    ('rembert', 4)
    """
    labels = values.get("id2label")
    if labels is not None and len(labels) != 1:
        raise InputError(f"this is a classifier of {len(labels)} classes; BLEURT has one output, its score.")
    encoder = {key: value for key, value in values.items() if key not in _NOT_OF_THE_ENCODER}
    narrow = encoder.pop("embedding_size", None) or encoder.pop("input_embedding_size", None)
    encoder["model_type"] = "rembert" if narrow else "bert"
    if narrow:
        encoder |= {"input_embedding_size": narrow, "bos_token_id": None, "eos_token_id": None}
    else:
        encoder.pop("output_embedding_size", None)
    return {"encoder_config": encoder, "pooling": "first"}


def port_state(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A port's weights under our names.

    Example:

    >>> sorted(port_state({"bleurt.pooler.dense.bias": torch.zeros(1), "classifier.weight": torch.zeros(1, 1)}))
    ['encoder.pooler.dense.bias', 'head.weight']
    """
    converted = {}
    for name, tensor in state.items():
        if name.endswith("position_ids"):  # once a saved buffer
            continue
        prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), None)
        if prefix is not None:
            own = "encoder." + name.removeprefix(prefix)
            own = own.replace("encoder.embedding_projection.", "encoder.embedding_hidden_mapping_in.")
            own = own.replace(".gamma", ".weight").replace(".beta", ".bias")  # of checkpoints from TensorFlow
        elif name.startswith("classifier."):
            own = "head." + name.removeprefix("classifier.")
        else:
            raise InputError(f"the checkpoint has {name}, which no port of BLEURT has.")
        converted[own] = tensor
    if "head.weight" not in converted:
        raise InputError("the checkpoint has no classifier.weight: it is an encoder without BLEURT's head.")
    return converted


def main(arguments: list[str] | None = None) -> None:
    from summarily.modeling.bleurt.modeling_bleurt import BleurtForScoring
    from summarily.modeling.bleurt.tokenization_bleurt import PairTokenizer

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("port", help="a Hub id or a folder")
    parser.add_argument("folder")
    parser.add_argument("--revision", help="of the Hub id")
    options = parser.parse_args(arguments)
    BleurtForScoring.from_pretrained(options.port, revision=options.revision).save_pretrained(options.folder)
    PairTokenizer.from_pretrained(options.port, revision=options.revision).save_pretrained(options.folder)


if __name__ == "__main__":
    main()
