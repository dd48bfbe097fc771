"""Run a notebook in a kernel of the Jupyter server that runs here, as a browser would; fed to ``python -``.

usage: python - NOTEBOOK TOKEN
Prints one JSON object: cells run, seconds until the first output and in all, errors, kinds of output.
"""

from __future__ import annotations

import glob
import json
import os
import struct
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

import websocket  # websocket-client: JupyterLab's server needs it anyway
from jupyter_core.paths import jupyter_runtime_dir

CELL_S = 240.0


class Server:
    """The server, through its REST interface."""

    def __init__(self, token: str) -> None:
        newest = max(glob.glob(f"{jupyter_runtime_dir()}/jpserver-*.json"))
        with open(newest) as file:
            about = json.load(file)
        self.place = f"127.0.0.1:{about['port']}{about['base_url']}"
        self.root = about["root_dir"]
        self.token = token

    def ask(self, path: str, body: dict | None = None, method: str | None = None) -> dict:
        """Return the answer to one request."""
        request = urllib.request.Request(
            f"http://{self.place}api/{path}", method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}", "Content-Type": "application/json"},
        )  # fmt: skip
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"{}")

    def channels(self, kernel: str) -> websocket.WebSocket:
        """Open a kernel's channels."""
        return websocket.create_connection(
            f"ws://{self.place}api/kernels/{kernel}/channels",
            header=[f"Authorization: token {self.token}"], timeout=CELL_S,
        )  # fmt: skip


def refused_without_token(server: Server) -> bool:
    """Whether the server keeps its files from those who do not know the token."""
    try:
        urllib.request.urlopen(f"http://{server.place}api/contents", timeout=30)
    except urllib.error.HTTPError as error:
        return error.code == 403
    return False


def parsed(frame: str | bytes) -> dict:
    """Read a message; one with binary buffers begins with their number and the offsets of all its parts."""
    if isinstance(frame, str):
        return json.loads(frame)
    (count,) = struct.unpack_from("!I", frame)
    offsets = [*struct.unpack_from(f"!{count}I", frame, 4), len(frame)]
    return json.loads(frame[offsets[0] : offsets[1]])


def execute(link: websocket.WebSocket, code: str, report: dict) -> None:
    """Run one cell and wait until its kernel is idle again."""
    identity = uuid.uuid4().hex
    header = {"msg_id": identity, "msg_type": "execute_request", "session": "trial", "username": "",
              "version": "5.3", "date": ""}  # fmt: skip
    content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False,
               "stop_on_error": True, "user_expressions": {}}  # fmt: skip
    link.send(json.dumps({"header": header, "parent_header": {}, "metadata": {}, "content": content,
                          "channel": "shell"}))  # fmt: skip
    while True:
        message = parsed(link.recv())
        if message["parent_header"].get("msg_id") != identity:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "error":
            report["errors"].append("\n".join(content["traceback"])[-3000:])
        elif kind in ("display_data", "execute_result"):
            report["outputs"] += sorted(content["data"])
        elif kind == "stream":
            report["printed"] += content["text"]
        elif kind == "status" and content["execution_state"] == "idle":
            return


def main() -> None:
    """Run the notebook."""
    notebook, token = sys.argv[1:3]
    begin = time.monotonic()
    server = Server(token)
    path = os.path.relpath(os.path.abspath(notebook), server.root)
    report: dict = {"refused_without_token": refused_without_token(server), "cells": 0, "errors": [],
                    "outputs": [], "printed": ""}  # fmt: skip
    cells = server.ask(f"contents/{urllib.parse.quote(path)}")["content"]["cells"]
    session = server.ask("sessions", {"path": path, "name": path, "type": "notebook",
                                      "kernel": {"name": "python3"}})  # fmt: skip
    link = server.channels(session["kernel"]["id"])
    try:
        for cell in cells:
            if cell["cell_type"] == "code" and not report["errors"]:
                execute(link, "".join(cell["source"]), report)
                report["cells"] += 1
                report.setdefault("first_cell_s", round(time.monotonic() - begin, 2))
    finally:
        link.close()
        server.ask(f"sessions/{session['id']}", method="DELETE")
    report["outputs"] = {kind: report["outputs"].count(kind) for kind in sorted(set(report["outputs"]))}
    report["seconds"] = round(time.monotonic() - begin, 2)
    report["printed"] = report["printed"][-1500:]
    print(json.dumps(report))


main()
