"""Sends ambiguous requests, and connections that change their protocol."""


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
    more = (
        "Connection: Upgrade\nUpgrade: websocket\n"
        "Sec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n"
    )
    return word(exchange(get(host, "/", more), to))


@attempt("a WebSocket to an allowed host")
def _():
    return web_socket("allowed.test", address)


@attempt("a WebSocket to a denied host")
def _():
    return web_socket("denied.test", other)
