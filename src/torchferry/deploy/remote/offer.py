"""Offers one file to other hosts until it is ended, at most for six hours. Runs on Python 3.6 and later.

Arguments: the file, its bytes, and a word that whoever wants it has to know. Prints port and process, and goes on in
the background. The file is open by then; the process has no rights left and can open no other.
"""

import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any


class Server(ThreadingMixIn, HTTPServer):
    """Answers several hosts at once, on any address of this one."""

    daemon_threads = True
    descriptor = -1
    size = 0
    token = ""


class Offer(BaseHTTPRequestHandler):
    """Answers with the file from the byte that is asked for."""

    server: Server

    def do_GET(self) -> None:
        """Send the rest of the file."""
        if self.path != "/" + self.server.token:
            self.send_error(404)
            return
        try:
            begin = int((self.headers.get("Range") or "bytes=0-")[len("bytes=") :].split("-")[0])
        except ValueError:
            self.send_error(400)
            return
        size = self.server.size
        self.send_response(206)
        self.send_header("Content-Length", str(max(0, size - begin)))
        self.end_headers()
        while begin < size:
            data = os.pread(self.server.descriptor, min(1 << 20, size - begin), begin)
            if not data:
                return
            self.wfile.write(data)
            begin += len(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing: nobody listens."""


def end_late() -> None:
    """End when nobody has ended us."""
    time.sleep(6 * 3600)
    os._exit(0)


def main() -> None:
    """Open the file, go into the background, give up all rights, and answer."""
    server = Server(("", 0), Offer)
    server.size, server.token = int(sys.argv[2]), sys.argv[3]
    server.descriptor = os.open(sys.argv[1], os.O_RDONLY | os.O_NOFOLLOW)
    if os.fstat(server.descriptor).st_size != server.size:
        sys.exit("the file is not complete here")
    child = os.fork()
    if child:
        print(server.server_port, child)
        return
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    threading.Thread(target=end_late, daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
