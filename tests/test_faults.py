"""The faults of tests/faults.py harm a job that writes in place, and not one that writes atomically."""

import random
import sys
import time

import pytest

from tests import faults

ATOMIC = "from summarily.support.files import write_atomically as write; write('out', 'x' * 9000)"
IN_PLACE = """
import os, sys, time
if not os.path.exists('out'):
    with open('out', 'w') as file:
        file.write('half'); file.flush(); time.sleep(2); file.write(' and half')
"""
SILENT = "import sys; sys.exit(3)"


def job(code, needs_cache=False):
    return faults.Job(
        lambda folder: [sys.executable, "-c", code], lambda folder: faults._digest(folder, "out"), needs_cache
    )


def strike(fault, code, tmp_path):
    start = (
        time.monotonic()
    )  # moments are drawn from the time that it takes on this machine, as busy as it is
    expected = faults._outcome(job(code), faults._prepare(tmp_path / "undisturbed"))
    seconds = time.monotonic() - start
    folder = faults._prepare(tmp_path / "struck")
    faults.FAULTS[fault](job(code), folder, expected, seconds, random.Random(0))


def test_a_job_that_writes_in_place_is_found_out(tmp_path):
    with pytest.raises(AssertionError):
        strike("kill -9", IN_PLACE, tmp_path)


def test_a_traceback_is_found_out(tmp_path):
    with pytest.raises(AssertionError, match="Traceback"):
        strike("full disk", ATOMIC, tmp_path)  # nobody makes a sentence of it


@pytest.mark.parametrize("fault", ["kill -9", "two at once", "unwritable cache"])
def test_a_job_that_writes_atomically_is_not_harmed(tmp_path, fault):
    strike(fault, ATOMIC, tmp_path)


def test_a_job_that_says_nothing_is_found_out(tmp_path):
    with pytest.raises(AssertionError):
        faults.full_disk(job(SILENT), faults._prepare(tmp_path / "struck"), "", 0.1, random.Random(0))
