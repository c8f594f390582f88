"""A small server that speaks the part of the Hub's API that publishing uses: repositories, trees, LFS, commits.

It keeps everything in memory, counts commits, and can be told to fail.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_API = re.compile(
    r"/api/(model|space)s/([^/]+/[^/]+)(?:/(tree|preupload|commit|revision)/([^/?]+))?(?:/.*)?$"
)


@dataclass
class Repo:
    files: dict[str, bytes] = field(default_factory=lambda: {".gitattributes": b"*.safetensors lfs\n"})
    lfs: set[str] = field(default_factory=set)
    commits: list[str] = field(default_factory=lambda: ["0" * 40])
    private: bool = False


@dataclass
class Hub:
    """What the server holds, and how it shall misbehave."""

    repos: dict[tuple[str, str], Repo] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    puts: list[str] = field(default_factory=list)
    url: str = ""
    # For each kind of request, the answers to give instead of the right one, one after the other.
    failures: dict[str, list[int]] = field(default_factory=dict)
    lost_answers: int = 0  # commits that are made, but whose answer never arrives

    def fails(self, kind: str) -> int | None:
        waiting = self.failures.get(kind)
        return waiting.pop(0) if waiting else None


def is_large(path: str) -> bool:
    return path.endswith((".safetensors", ".png"))


@contextlib.contextmanager
def running() -> Iterator[Hub]:
    """Serve a hub on a free port."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: Any) -> None:
        pass

    def answer(self, status: int, content: Any = None) -> None:
        body = json.dumps(content if content is not None else {}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == 404:
            self.send_header("X-Error-Code", "RepoNotFound")
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_GET(self) -> None:
        match = _API.match(self.path.partition("?")[0])
        repo = self.hub.repos.get((match[1], match[2])) if match else None
        if repo is None:
            return self.answer(404, {"error": "Repository not found"})
        if match[3] == "tree":
            return self.answer(200, [_entry(repo, name) for name in sorted(repo.files)])
        return self.answer(200, {"id": match[2], "sha": repo.commits[-1], "siblings": []})

    def do_POST(self) -> None:
        content = self.body()
        if self.path == "/api/validate-yaml":
            return self.answer(200, {"errors": [], "warnings": []})
        if self.path == "/api/repos/create":
            return self.create(json.loads(content))
        if self.path.endswith("/info/lfs/objects/batch"):
            return self.batch(json.loads(content))
        match = _API.match(self.path.partition("?")[0])
        repo = self.hub.repos.get((match[1], match[2])) if match else None
        if repo is None:
            return self.answer(404, {"error": "Repository not found"})
        if match[3] == "preupload":
            files = [
                {
                    "path": f["path"],
                    "uploadMode": "lfs" if is_large(f["path"]) else "regular",
                    "shouldIgnore": False,
                }
                for f in json.loads(content)["files"]
            ]
            return self.answer(200, {"files": files})
        return self.commit(match[1], match[2], repo, [json.loads(line) for line in content.splitlines()])

    def do_PUT(self) -> None:
        content = self.body()
        if status := self.hub.fails("put"):
            return self.answer(status, {"error": "made to fail"})
        oid = self.path.rsplit("/", 1)[1]
        if hashlib.sha256(content).hexdigest() != oid:
            return self.answer(400, {"error": "wrong content"})
        self.hub.large[oid] = content
        self.hub.puts.append(oid)
        return self.answer(200)

    def create(self, wish: dict[str, Any]) -> None:
        if status := self.hub.fails("create"):
            return self.answer(status, {"error": "made to fail"})
        key = (wish.get("type", "model"), f"{wish['organization']}/{wish['name']}")
        if key in self.hub.repos:
            return self.answer(409, {"error": "exists"})
        if key[0] == "space" and wish.get("sdk") != "gradio":
            return self.answer(400, {"error": "a Space needs an sdk"})
        self.hub.repos[key] = Repo(private=wish.get("private") is True or wish.get("visibility") == "private")
        return self.answer(200, {"url": f"{self.hub.url}/{key[1]}"})

    def batch(self, wish: dict[str, Any]) -> None:
        objects = []
        for thing in wish["objects"]:
            known = thing["oid"] in self.hub.large
            actions = (
                {} if known else {"actions": {"upload": {"href": f"{self.hub.url}/large/{thing['oid']}"}}}
            )
            objects.append({**thing, **actions})
        return self.answer(200, {"transfer": "basic", "objects": objects})

    def commit(self, kind: str, name: str, repo: Repo, lines: list[dict[str, Any]]) -> None:
        if status := self.hub.fails("commit"):
            return self.answer(status, {"error": "made to fail"})
        header = lines[0]["value"]
        if header.get("parentCommit") not in (None, repo.commits[-1]):
            return self.answer(412, {"error": "the branch has moved"})
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                repo.files[value["path"]] = base64.b64decode(value["content"])
                repo.lfs.discard(value["path"])
            elif line["key"] == "lfsFile":
                repo.files[value["path"]] = self.hub.large[value["oid"]]  # KeyError: it was never uploaded
                repo.lfs.add(value["path"])
            elif line["key"] == "deletedFile":
                del repo.files[value["path"]]
                repo.lfs.discard(value["path"])
        repo.commits.append(hashlib.sha1(str((header, len(repo.commits))).encode()).hexdigest())
        if self.hub.lost_answers:
            self.hub.lost_answers -= 1
            self.close_connection = True
            return None
        page = f"{self.hub.url}/{'spaces/' if kind == 'space' else ''}{name}/commit/{repo.commits[-1]}"
        return self.answer(200, {"commitUrl": page, "commitOid": repo.commits[-1]})


def _entry(repo: Repo, name: str) -> dict[str, Any]:
    content = repo.files[name]
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    entry: dict[str, Any] = {"type": "file", "path": name, "size": len(content), "oid": blob}
    if name in repo.lfs:
        entry["oid"] = "f" * 40  # the pointer's, not the content's
        entry["lfs"] = {"size": len(content), "oid": hashlib.sha256(content).hexdigest(), "pointerSize": 130}
    return entry
