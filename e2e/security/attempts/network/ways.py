"""Functions for attempts to reach a test internet. The outcome of each is a word: reached, denied, or the error."""

import base64
import concurrent.futures
import json
import os
import re
import socket
import ssl
import struct
import subprocess
import urllib.error
import urllib.request

address, other, private, tag = (given[key] for key in ["address", "other", "private", "tag"])
# Longest wait for an answer. A gateway refuses at once, so only a permitted request on a slow machine takes long.
SECONDS = 20
# Longest time of a program, of which several start at once: pip and npm each load for seconds.
PROGRAM_SECONDS = 100
attempts = {}

if "root" in given:
    # Without a gateway, the certificates of the servers come from their own authority.
    open("/tmp/test-root.pem", "w").write(given["root"])
    for name in [
        "SSL_CERT_FILE",
        "REQUESTS_CA_BUNDLE",
        "PIP_CERT",
        "NODE_EXTRA_CA_CERTS",
        "CURL_CA_BUNDLE",
        "GIT_SSL_CAINFO",
    ]:
        os.environ[name] = "/tmp/test-root.pem"


def attempt(name):
    def add(act):
        attempts[name] = act

    return add


def word(text):
    """Returns the outcome that an answer shows."""
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    if "reached" in text:
        where = re.search(r" at ([0-9.]+)", text)
        if where is None:
            return "reached"
        places = {address: "reached", other: "reached the other address", private: "reached a private address"}
        return places.get(where[1], f"reached {where[1]}")
    if "egress_denied" in text:
        return "denied"
    status = re.match(r"HTTP/1.1 (\d+)", text)
    return f"status {status[1]}" if status else text.strip() or "nothing"


def told(error):
    while isinstance(getattr(error, "reason", None), Exception):
        error = error.reason
    if isinstance(error, urllib.error.HTTPError):
        return word(error.read() or f"HTTP/1.1 {error.code}")
    if isinstance(error, (TimeoutError, socket.timeout, subprocess.TimeoutExpired)):
        return "nothing"
    if isinstance(error, ssl.SSLCertVerificationError):
        return "untrusted"
    return type(error).__name__


def exchange(payload, to=address, port=80, tls=None, wait_for=1):
    """Sends each part of the payload, waits for its answer, and returns the last answer."""
    with socket.create_connection((to, port), SECONDS) as plain:
        stream = ssl.create_default_context().wrap_socket(plain, server_hostname=tls) if tls else plain
        stream.settimeout(SECONDS)
        for part in payload if isinstance(payload, list) else [payload]:
            stream.sendall(part.replace("\n", "\r\n").encode())
            answer = b""
            # Each part has one answer.
            while True:
                chunk = stream.recv(65536)
                answer += chunk
                if not chunk or is_complete(answer):
                    break
        return answer


def is_complete(answer):
    head, found, body = answer.partition(b"\r\n\r\n")
    if not found:
        return False
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    if length:
        return len(body) >= int(length[1])
    return body.endswith(b"0\r\n\r\n")


def get(host, path="/", more=""):
    return f"GET {path} HTTP/1.1\nHost: {host}\n{more}\n"


def fetch(url):
    return word(urllib.request.urlopen(url, timeout=SECONDS).read())


def command(*args):
    done = subprocess.run(args, capture_output=True, timeout=PROGRAM_SECONDS, text=True)
    return done.stdout + done.stderr
