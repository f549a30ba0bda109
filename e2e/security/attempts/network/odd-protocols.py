"""Sends HTTP and HTTPS to a denied host in forms that lenient servers accept and that look like other protocols."""

import time

# Ports of the test internet: Python's own server, HTTP/2 without TLS, TLS that skips other records.
LENIENT_PORT, CLEAR_HTTP2_PORT, LENIENT_TLS_PORT = 8002, 8003, 8444
DENIED_GET = b"GET / HTTP/1.1\r\nHost: denied.test\r\nConnection: close\r\n\r\n"


def read_all(stream):
    answer = b""
    while chunk := stream.recv(65536):
        answer += chunk
    return answer


def said(parts, port, pause=0.0):
    """Returns the word for the answer to bytes that are sent part by part."""
    with socket.create_connection((address, port), SECONDS) as stream:
        stream.settimeout(SECONDS)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            time.sleep(pause)
            stream.sendall(part)
        return word(read_all(stream))


for blank in [0x0B, 0x0C, 0x0D, 0x1C, 0x1D, 0x1E, 0x1F, 0x20, 0x85, 0xA0]:

    @attempt(f"a method that ends with byte {blank:#x}")
    def _(blank=bytes([blank])):
        return said([DENIED_GET.replace(b" ", blank, 1)], LENIENT_PORT)

    @attempt(f"a method that follows byte {blank:#x}")
    def _(blank=bytes([blank])):
        return said([blank + DENIED_GET], LENIENT_PORT)


@attempt("a request of HTTP/0.9, its blank byte 0x1c")
def _():
    # The request names no host, so only its own answer shows that it arrived.
    return said([b"GET\x1c/\r\n\r\n"], LENIENT_PORT)


@attempt("a request after blank lines")
def _():
    return said([b"\r\n\r\n", DENIED_GET], 80)


@attempt("a request, one byte at a time")
def _():
    return said([bytes([byte]) for byte in DENIED_GET], 80, 0.002)


@attempt("a request after a silence")
def _():
    return said([DENIED_GET], 80, 0.6)


@attempt("a request after its first letter and a silence")
def _():
    return said([DENIED_GET[:1], DENIED_GET[1:]], 80, 0.6)


@attempt("a request behind a method that does not end")
def _():
    # A server that refuses the first request may keep the connection open.
    return said([b"X" * 65, b" / HTTP/1.1\r\nHost: allowed.test\r\n\r\n" + DENIED_GET], 80, 0.2)


@attempt("a request behind a line of the PROXY protocol")
def _():
    return said([b"PROXY TCP4 192.0.2.1 192.0.2.2 1 80\r\n" + DENIED_GET], 8000)


@attempt("bytes of no protocol, at a port of HTTP")
def _():
    return said([b"\0\x01\x02\r\n"], 80)


def clear_http2(pause):
    def frame(kind, flags, stream, payload=b""):
        return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload

    def literal(name, value):
        return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value

    fields = {b":method": b"GET", b":scheme": b"http", b":path": b"/", b":authority": b"denied.test"}
    head = frame(1, 5, 1, b"".join(literal(*field) for field in fields.items()))
    with socket.create_connection((address, CLEAR_HTTP2_PORT), SECONDS) as stream:
        stream.settimeout(SECONDS)
        time.sleep(pause)
        stream.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + head)
        answer = b""
        while b"reached" not in answer:
            chunk = stream.recv(65536)
            answer += chunk
            if not chunk:
                break
        return "reached" if b"reached" in answer else word(answer[:12])


@attempt("HTTP/2 without TLS")
def _():
    return clear_http2(0)


@attempt("HTTP/2 without TLS, where the server speaks first")
def _():
    return clear_http2(0.8)


for record, begin in {
    "an alert": b"\x15\x03\x01\0\x02\x01\x5a",
    "an alert of another version": b"\x15\x09\x09\0\x02\x01\x5a",
    "a change of cipher": b"\x14\x03\x03\0\x01\x01",
    "an empty record": b"\x17\x03\x01\0\0",
    "a heartbeat": b"\x18\x03\x01\0\x03\x01\0\0",
}.items():

    @attempt(f"TLS behind {record}")
    def _(begin=begin):
        context = ssl.create_default_context()
        with socket.create_connection((address, LENIENT_TLS_PORT), SECONDS) as plain:
            plain.settimeout(SECONDS)
            plain.sendall(begin)
            with context.wrap_socket(plain, server_hostname="denied.test") as stream:
                stream.sendall(DENIED_GET)
                return word(read_all(stream))
