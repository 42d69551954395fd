"""Colab as the setup cell sees it: its session says where the notebook was opened, and git finds a fork."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import quote

FORK = "https://github.com/some-one/a.fork"


def opened(branch: str = "main", url: str = FORK) -> str:
    """The session's path of notebook 02, opened from this branch on GitHub."""
    return "fileId=" + quote(f"{url}/blob/{branch}/notebooks/02_gae.ipynb", safe="")


def serve_session(path: str, answer: str | None = None) -> dict[str, str]:
    """The environment that finds a server of Colab's sessions, which answers with this path."""
    body = json.dumps([{"path": path}]) if answer is None else answer

    class Sessions(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/api/sessions" else 404)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *ignored):
            """Silent."""

    server = HTTPServer(("127.0.0.1", 0), Sessions)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return {"COLAB_JUPYTER_IP": "127.0.0.1", "KMP_TARGET_PORT": str(server.server_port)}


def lead_fork_to(bare: Path, folder: Path) -> dict[str, str]:
    """The environment in which git takes this bare repository for FORK."""
    (folder / "gitconfig").write_text(f'[url "{bare.as_uri()}"]\n\tinsteadOf = {FORK}\n')
    return {"GIT_CONFIG_GLOBAL": str(folder / "gitconfig")}
