#!/usr/bin/env python3
"""HTTPS servers with good and bad certificates, for one test: tls_peer.py FOLDER

Makes a CA and certificates in FOLDER with the openssl program, listens on ports of 127.0.0.1, prints "NAME PORT" for
each and "ready", and serves until its standard input ends. Each request is answered with "ok".

good      a certificate of FOLDER/ca.pem for localhost and 127.0.0.1
name      of that CA, but for another host
expired   of that CA, no longer valid
stranger  signed by itself
old       as good, but TLS 1.1 at most
cut       ends the connection in the middle of the handshake
"""
import os
import socket
import ssl
import subprocess
import sys
import threading

folder = sys.argv[1]


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def certificate(name, host, days):
    names = "subjectAltName=DNS:%s" % host + (",IP:127.0.0.1" if host == "localhost" else "")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", name + ".key",
            "-out", name + ".csr", "-subj", "/CN=" + host, "-addext", names)
    openssl("x509", "-req", "-in", name + ".csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-copy_extensions", "copy", "-days", str(days), "-out", name + ".pem")


def self_signed(name, subject):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
            name + ".key", "-out", name + ".pem", "-days", "2", "-subj", "/CN=" + subject, "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1")


def context(name, old):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if old:
        made.set_ciphers("ALL:@SECLEVEL=0")
        made.minimum_version = ssl.TLSVersion.TLSv1
        made.maximum_version = ssl.TLSVersion.TLSv1_1
    path = os.path.join(folder, name)
    made.load_cert_chain(path + ".pem", path + ".key")
    return made


def serve_one(connection, made):
    try:
        if made is None:
            connection.recv(100)
            return
        with made.wrap_socket(connection, server_side=True) as tls:
            data = b""
            while True:
                while b"\r\n\r\n" not in data:
                    more = tls.recv(65536)
                    if not more:
                        return
                    data += more
                data = data.split(b"\r\n\r\n", 1)[1]
                tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    except OSError:
        pass  # the client went away, as most of them should
    finally:
        connection.close()


def listen(name, made):
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)

    def accept():
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve_one, args=(connection, made), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    print(name, listener.getsockname()[1], flush=True)


self_signed("ca", "a CA for one test")
certificate("good", "localhost", 2)
certificate("name", "elsewhere.example", 2)
certificate("expired", "localhost", -1)
self_signed("stranger", "localhost")
for each in ("good", "name", "expired", "stranger"):
    listen(each, context(each, False))
listen("old", context("good", True))
listen("cut", None)
print("ready", flush=True)
sys.stdin.read()
