"""Every test process gets caches of its own and no Hub, whatever the machine has."""

import os
import tempfile

_HOME = tempfile.mkdtemp(prefix="summarily-tests-")
os.environ["HF_HOME"] = _HOME
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.pop("HF_MODULES_CACHE", None)
os.environ.pop("HF_METRICS_CACHE", None)


def pytest_sessionfinish(session, exitstatus):
    import shutil

    shutil.rmtree(_HOME, ignore_errors=True)
