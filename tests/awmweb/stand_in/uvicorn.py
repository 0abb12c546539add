"""Stands in for the web server: answers /health on the port it is given."""

import http.server
import os
import socket
import sys


class Health(http.server.BaseHTTPRequestHandler):
    """Answers everything with 200."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(os.getpid()).encode())


def serve():
    if os.environ.get("STAND_IN_WEB_FAILS"):
        sys.exit("no module named nothing")
    if "--fd" in sys.argv:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Health, bind_and_activate=False)
        server.socket = socket.socket(fileno=int(sys.argv[sys.argv.index("--fd") + 1]))
        server.server_activate()
    else:
        host, port = (sys.argv[sys.argv.index(name) + 1] for name in ("--host", "--port"))
        server = http.server.ThreadingHTTPServer((host, int(port)), Health)
    server.serve_forever()


if __name__ == "__main__":
    from awmweb.embedded import gate  # the environment server's stand-in serves, too, and does not see the product

    gate.wait()
    serve()
