"""Locks outlive a fork, and a module of evaluate outlives threads."""

import os
import threading

import pytest

from summarily.support.processes import Lock


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_lock_that_another_thread_holds_is_free_in_a_forked_process():
    lock = Lock()
    held, done = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    child = os.fork()
    if child == 0:
        with lock:
            os._exit(7)
    try:
        _, status = os.waitpid(child, 0)  # for ever, with a lock that stays taken
    finally:
        done.set()
        thread.join()
    assert os.waitstatus_to_exitcode(status) == 7


def test_a_lock_keeps_other_threads_out_and_lets_its_own_in_again():
    lock = Lock()
    seen = []

    def work(name):
        with lock, lock:
            seen.append(name)
            seen.append(name)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen[::2] == seen[1::2]


def test_threads_that_share_a_module_of_evaluate_get_their_own_scores():
    from concurrent.futures import ThreadPoolExecutor

    from summarily.metrics.rouge.rouge import Rouge

    module = Rouge()
    texts = ["a cat sat", "a dog", "snow fell in the north"]

    def score(number):
        text = texts[number % 3]
        result = module.compute(
            predictions=[text] * (1 + number % 3), references=["a cat sat"] * (1 + number % 3)
        )
        return len(result["rouge1_per_example"]), result["rouge1"]

    expected = [score(number) for number in range(3)]
    with ThreadPoolExecutor(4) as pool:
        for number, found in enumerate(pool.map(score, range(24))):
            assert found == expected[number % 3]
