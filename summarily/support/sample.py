"""The bundled sample: short invented news articles with references and the summaries of three systems."""

import json
from importlib.resources import files
from typing import Any

SYSTEMS = ("good", "mediocre", "broken")  # from best to worst for a human reader


def load_sample() -> list[dict[str, Any]]:
    """Return the 36 rows of the sample, in a fixed order.

    A row has `id`, `source`, `references` (one or two summaries) and one summary for each of `SYSTEMS`.

    Example:
        >>> rows = load_sample()
        >>> len(rows)
        36
        >>> predictions = [row["good"] for row in rows]
        >>> references = [row["references"] for row in rows]
    """
    text = files("summarily").joinpath("sample.jsonl").read_text(encoding="utf-8")
    # Not splitlines(): it would also cut at characters that JSON allows inside a string, such as U+2028.
    return [json.loads(line) for line in text.split("\n") if line]
