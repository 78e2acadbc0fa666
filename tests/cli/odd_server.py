# Servers that are no store, for tests of what a wrong endpoint is told. usage: odd_server.py MODE; prints its port.
#   silent  accepts and never answers
#   page    a web server: 404 and a page in HTML, whatever is asked
#   yes     200 and a document that says nothing, whatever is asked
#   https   400, as a server that wants https answers to http
#   plain   400, as a server of http answers to TLS
#   closes  accepts and ends the connection, once it was asked something
import socket, sys, threading

PAGE = b"<!DOCTYPE html>\n<html><head><title>%s</title></head><body>nothing here</body></html>\n"
LINES = {"page": b"404 Not Found", "yes": b"200 OK", "https": b"400 Bad Request"}
TITLES = {"page": b"404", "https": b"400 The plain HTTP request was sent to HTTPS port"}
mode = sys.argv[1]


def request(lines):
    """The method of the next request, its body read as well; None at the end."""
    method, left = None, 0
    for line in lines:
        if method is None:
            method = line.split(b" ")[0]
        if line.lower().startswith(b"content-length:"):
            left = int(line.split(b":")[1])
        if line in (b"\r\n", b"\n"):
            lines.read(left)
            return method
    return None


def serve(peer):
    lines = peer.makefile("rb")
    try:
        if mode == "plain":
            peer.recv(4096)
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        while (method := request(lines)) is not None and mode != "closes":
            if mode == "silent":
                continue
            body = b"<ok/>" if mode == "yes" else PAGE % TITLES[mode]
            head = b"HTTP/1.1 %s\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % (LINES[mode], len(body))
            peer.sendall(head if method == b"HEAD" else head + body)
        peer.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


listener = socket.create_server(("127.0.0.1", 0), backlog=128)
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
