"""Plain text tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Columns padded to their widest cell; columns named in `right` are right-aligned, empty ones left out.

    Example:
        >>> print(format_table(["metric", "mean"], [["rouge1", "0.5"]], right=[1]))
        metric  mean
        ------------
        rouge1   0.5
    """
    columns = [i for i in range(len(header)) if header[i] or any(row[i] for row in rows)]
    widths = {
        i: max(len(header[i]), *(len(row[i]) for row in rows)) if rows else len(header[i]) for i in columns
    }

    def line(cells: Sequence[str]) -> str:
        return "  ".join(
            cells[i].rjust(widths[i]) if i in right else cells[i].ljust(widths[i]) for i in columns
        ).rstrip()

    rule = "-" * (sum(widths.values()) + 2 * (len(columns) - 1))
    return "\n".join([line(header), rule, *map(line, rows)])
