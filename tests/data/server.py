"""A local HTTP server with the faults of real ones: truncated answers, no ranges, no lengths, HTML pages."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Behaviour:
    """Files by name and how they are sent; ``requests`` collects path and Range header of each request."""

    files: dict[str, bytes]
    truncate_to: int | None = None  # bytes sent of each answer, while its length promises all
    ranges: bool = True
    content_type: str = "application/octet-stream"
    lengths: bool = True
    requests: list[tuple[str, str | None]] = field(default_factory=list)


class _Handler(BaseHTTPRequestHandler):
    behaviour: Behaviour

    def do_GET(self) -> None:
        name, requested = self.path.rsplit("/", 1)[1], self.headers.get("Range")
        self.behaviour.requests.append((self.path, requested))
        content = self.behaviour.files.get(name)
        if content is None:
            self.send_error(404)
            return
        start = int(requested.removeprefix("bytes=").rstrip("-")) if requested and self.behaviour.ranges else 0
        if start and start >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Type", self.behaviour.content_type)
        if self.behaviour.lengths:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:][: self.behaviour.truncate_to])

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test output quiet."""


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[str]:
    """Serve until the end of the block; yields the base address."""
    handler = type("Handler", (_Handler,), {"behaviour": behaviour})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
