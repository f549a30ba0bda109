"""Ways to the servers of a test internet, each by the word that it got: reached, denied, or how it failed."""
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
SECONDS = 4
attempts = {}

if "root" in given:
    # Where no gateway vouches for the servers, they are believed by their own authority.
    open("/tmp/test-root.pem", "w").write(given["root"])
    for name in ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"]:
        os.environ[name] = "/tmp/test-root.pem"


def attempt(name):
    def add(act):
        attempts[name] = act

    return add


def word(text):
    """What an answer amounts to."""
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
    """Sends bytes and gives back all that is answered, split at the heads of answers."""
    with socket.create_connection((to, port), SECONDS) as plain:
        stream = ssl.create_default_context().wrap_socket(plain, server_hostname=tls) if tls else plain
        stream.settimeout(SECONDS)
        for part in payload if isinstance(payload, list) else [payload]:
            stream.sendall(part.replace("\n", "\r\n").encode())
            answer = b""
            # One answer for each part that is sent.
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
    done = subprocess.run(args, capture_output=True, timeout=30, text=True)
    return done.stdout + done.stderr


# Programs, each with its own way to trust.
for scheme in ["http", "https"]:
    for kind, host in [("an allowed", "allowed.test"), ("a denied", "denied.test")]:
        url = f"{scheme}://{host}/{tag}"

        @attempt(f"{scheme} to {kind} host by urllib")
        def _(url=url):
            return fetch(url)

        @attempt(f"{scheme} to {kind} host by requests")
        def _(url=url):
            import requests

            return word(requests.get(url, timeout=SECONDS).text)

        @attempt(f"{scheme} to {kind} host by curl")
        def _(url=url):
            return word(command("curl", "-sS", "-m", str(SECONDS), url))

        @attempt(f"{scheme} to {kind} host by fetch of Node")
        def _(url=url):
            script = f"fetch('{url}').then((r) => r.text()).then(console.log, (e) => console.log(e.cause?.code))"
            return word(command("node", "-e", script))


for kind, host in [("an allowed", "allowed.test"), ("a denied", "denied.test")]:

    @attempt(f"https to {kind} host by pip")
    def _(host=host):
        command("pip", "download", "--no-deps", "-d", "/tmp", "--retries", "0", "-i", f"https://{host}/{tag}-pip/", "nothing")
        return "see the server"

    @attempt(f"https to {kind} host by git")
    def _(host=host):
        command("git", "ls-remote", f"https://{host}/{tag}-git")
        return "see the server"

    @attempt(f"https to {kind} host by npm")
    def _(host=host):
        command("npm", "view", "nothing", f"--registry=https://{host}/{tag}-npm/", "--fetch-retries=0")
        return "see the server"


# Names.
for name in ["a.wild.test", "deep.a.wild.test", "wild.test", "a.denied.test"]:

    @attempt(f"http to {name}")
    def _(name=name):
        return fetch(f"http://{name}/")


# The last two are the denied name to whoever maps names as browsers do.
for name in ["ALLOWED.TEST", "DENIED.TEST", "allowed.test.", "denied.test.", "Denied.test.:80", "denied\u3002test", "\uff44enied.test"]:

    @attempt(f"Host {name}")
    def _(name=name):
        return word(exchange(get(name), address if "allowed" in name.lower() else other))


@attempt("another port")
def _():
    return fetch("http://allowed.test:8000/")


@attempt("a redirect to a denied host")
def _():
    return fetch("http://allowed.test/?to=http://denied.test/")


@attempt("a name of a private address")
def _():
    return fetch("http://private.test/")


@attempt("a name that changes to a private address")
def _():
    words = {attempt_word(lambda: fetch("http://changing.test/")) for _ in range(6)}
    return "never private" if "reached a private address" not in words else "reached a private address"


@attempt("a server that nobody vouches for")
def _():
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return word(urllib.request.urlopen("https://untrusted.test:8443/", timeout=SECONDS, context=context).read())


# Requests that say two things.
@attempt("an allowed Host at the address of a denied one")
def _():
    return word(exchange(get("allowed.test"), other))


@attempt("a denied Host at the address of an allowed one")
def _():
    return word(exchange(get("denied.test"), address))


@attempt("a Host that differs from the server name of TLS")
def _():
    return word(exchange(get("denied.test"), address, 443, "allowed.test"))


@attempt("a server name of TLS that differs from Host")
def _():
    return word(exchange(get("allowed.test"), address, 443, "denied.test"))


@attempt("a second request on a connection, to a denied host")
def _():
    return word(exchange([get("allowed.test"), get("denied.test")]))


@attempt("a second request on a TLS connection, to a denied host")
def _():
    return word(exchange([get("allowed.test"), get("denied.test")], address, 443, "allowed.test"))


@attempt("a pipelined request to a denied host")
def _():
    exchange(get("allowed.test") + get("denied.test", f"/{tag}-pipelined", "Connection: close\n"))
    return "see the server"


@attempt("a request in the body of another, by two lengths")
def _():
    inner = get("denied.test", f"/{tag}-smuggled")
    head = "POST / HTTP/1.1\nHost: allowed.test\nTransfer-Encoding: chunked\n"
    exchange(f"{head}Content-Length: 4\n\n0\n\n{inner}")
    return "see the server"


@attempt("a request in the body of another, by an odd encoding")
def _():
    inner = get("denied.test", f"/{tag}-odd")
    exchange(f"POST / HTTP/1.1\nHost: allowed.test\nTransfer-Encoding: xchunked\n\n0\n\n{inner}")
    return "see the server"


@attempt("an absolute form that names a denied host")
def _():
    return word(exchange(get("allowed.test", "http://denied.test/")))


@attempt("two Host fields")
def _():
    return word(exchange("GET / HTTP/1.1\nHost: allowed.test\nHost: denied.test\n\n"))


@attempt("no Host field")
def _():
    return word(exchange("GET / HTTP/1.0\n\n", other))


def through_tunnel(connect_to, host):
    with socket.create_connection((address, 80), SECONDS) as stream:
        stream.settimeout(SECONDS)
        stream.sendall(f"CONNECT {connect_to} HTTP/1.1\r\nHost: {connect_to}\r\n\r\n".encode())
        opened = stream.recv(65536)
        if not opened.startswith(b"HTTP/1.1 200"):
            return word(opened)
        stream.sendall(get(host).replace("\n", "\r\n").encode())
        return word(stream.recv(65536))


@attempt("CONNECT to a denied host")
def _():
    return through_tunnel("denied.test:80", "denied.test")


@attempt("CONNECT to an allowed host")
def _():
    return through_tunnel("allowed.test:80", "allowed.test")


@attempt("CONNECT to an allowed host, and a request to a denied one inside")
def _():
    return through_tunnel("allowed.test:80", "denied.test")


def web_socket(host, to):
    more = "Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n"
    return word(exchange(get(host, "/", more), to))


@attempt("a WebSocket to an allowed host")
def _():
    return web_socket("allowed.test", address)


@attempt("a WebSocket to a denied host")
def _():
    return web_socket("denied.test", other)


# Addresses instead of names.
number = struct.unpack("!I", socket.inet_aton(other))[0]
parts = [int(part) for part in other.split(".")]
for notation, text in {
    "dotted": other,
    "decimal": str(number),
    "octal": ".".join(f"0{part:o}" for part in parts),
    "hexadecimal": hex(number),
    "short": f"{parts[0]}.{parts[1]}.{parts[2] * 256 + parts[3]}",
}.items():

    @attempt(f"a literal address, {notation}")
    def _(text=text):
        return word(exchange(get(text), other))


@attempt("a literal address, mapped into IPv6")
def _():
    with socket.socket(socket.AF_INET6) as stream:
        stream.settimeout(SECONDS)
        stream.connect((f"::ffff:{other}", 80))
        stream.sendall(get(f"[::ffff:{other}]").replace("\n", "\r\n").encode())
        return word(stream.recv(65536))


@attempt("https to a literal address")
def _():
    return word(exchange(get(other), other, 443, other))


# Look-ups.
def question(name):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", 1, 1)


def answer_word(answer):
    return "answered" if struct.unpack("!H", answer[6:8])[0] else "no such name"


for kind, suffix in [("denied", "denied.test"), ("unlisted", "data.test")]:

    @attempt(f"data in a {kind} name, by the system")
    def _(suffix=suffix):
        socket.getaddrinfo(f"{tag}-system.{suffix}", 80)
        return "answered"

    @attempt(f"data in a {kind} name, to another resolver")
    def _(suffix=suffix):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.settimeout(SECONDS)
            datagrams.sendto(question(f"{tag}-datagram.{suffix}"), (other, 53))
            return answer_word(datagrams.recv(512))

    @attempt(f"data in a {kind} name, to another resolver by TCP")
    def _(suffix=suffix):
        with socket.create_connection((other, 53), SECONDS) as stream:
            query = question(f"{tag}-stream.{suffix}")
            stream.sendall(struct.pack("!H", len(query)) + query)
            return answer_word(stream.recv(512)[2:])

    @attempt(f"data in a {kind} name, to a resolver over TLS")
    def _(suffix=suffix):
        with socket.create_connection((other, 853), SECONDS) as plain:
            stream = ssl.create_default_context().wrap_socket(plain, server_hostname="denied.test")
            query = question(f"{tag}-tls.{suffix}")
            stream.sendall(struct.pack("!H", len(query)) + query)
            return answer_word(stream.recv(512)[2:])

    @attempt(f"data in a {kind} name, to a resolver over HTTPS")
    def _(suffix=suffix):
        query = base64.urlsafe_b64encode(question(f"{tag}-https.{suffix}")).decode().rstrip("=")
        return answer_word(urllib.request.urlopen(f"https://denied.test/?dns={query}", timeout=SECONDS).read())


# No HTTP at all.
for kind, to in [("an allowed", address), ("a denied", other)]:

    @attempt(f"raw TCP to {kind} address")
    def _(to=to):
        with socket.create_connection((to, 7000), SECONDS) as stream:
            # Whichever side speaks first.
            stream.settimeout(1)
            try:
                return word(stream.recv(100))
            except TimeoutError:
                stream.settimeout(SECONDS)
                stream.sendall(b"\0hello\r\n")
                return word(stream.recv(100))

    @attempt(f"UDP to {kind} address")
    def _(to=to):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.settimeout(2)
            datagrams.sendto(b"hello", (to, 7000))
            return word(datagrams.recv(100))


def attempt_word(act):
    try:
        return act()
    except Exception as error:
        return told(error)


with concurrent.futures.ThreadPoolExecutor(12) as pool:
    chosen = {name: act for name, act in attempts.items() if name in given.get("only", attempts)}
    print(json.dumps(dict(zip(chosen, pool.map(attempt_word, chosen.values())))))
