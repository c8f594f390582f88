"""Rewards in a module of their own, which worker processes import quickly."""

import os


def first_word_is_a(completions, references, **columns):
    return [float(text.startswith("a")) for text in completions]


def not_a_number(completions, references, **columns):
    return [float("nan")] * len(completions)


def one_too_many(completions, references, **columns):
    return [0.0] * (len(completions) + 1)


def echo_of_the_source(completions, references, sources, **columns):
    return [float(source == text) for source, text in zip(sources, completions, strict=True)]


def process_number(completions, references, **columns):
    return [float(os.getpid())] * len(completions)
