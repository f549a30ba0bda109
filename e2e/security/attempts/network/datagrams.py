"""Sends datagrams of every kind, including first packets of QUIC connections."""

UDP_SEGMENT = 103


def exchange_datagram(payload, to=address, port=7000, prepare=lambda datagrams: None):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.settimeout(2)
        prepare(datagrams)
        datagrams.connect((to, port))
        datagrams.send(payload)
        return word(datagrams.recv(65536))


def initial(way, version=1, first=0xC3, size=1200):
    """Returns a first packet of a client with the parts that are not encrypted: the header, and the size."""
    header = bytes([first]) + struct.pack("!IB8sB", version, 8, b"12345678", 0)
    return (header + f" {tag}-{way} ".encode()).ljust(size, b"\0")


def quic(way, port=7000, prepare=lambda datagrams: None, before=b"", **header):
    """Defines an attempt with a QUIC connection. The server records the `way` of each packet that arrives."""

    @attempt(f"QUIC {way}")
    def _():
        return exchange_datagram(before + initial(way.replace(" ", "-"), **header), port=port, prepare=prepare)


for port in [7000, 443, 4433, 123]:

    @attempt(f"a datagram to port {port}")
    def _(port=port):
        return exchange_datagram(b"hello", port=port)

    quic(f"to port {port}", port)

quic("to port 53", 53)
quic("of version 2", version=0x6B3343CF)
quic("of a draft", version=0xFF00001D)
quic("of Google, Q046", version=0x51303436)
quic("of an unknown version", version=0x0BADCAFE)
quic("without the fixed bit", first=0x83)
quic("in a small datagram", size=100)
quic("in fragments", size=4000)
quic(
    "behind options of IP",
    prepare=lambda it: it.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, b"\x07\x07\x04\0\0\0\0\0"),
)
# The kernel passes both on as one packet, whose first segment is harmless.
quic("in a second segment", prepare=lambda it: it.setsockopt(17, UDP_SEGMENT, 1200), before=b"x" * 1200)


@attempt("QUIC of Google, Q043")
def _():
    return exchange_datagram((b"\x0d12345678Q043\x01" + f" {tag}-Q043 ".encode()).ljust(1200, b"\0"))


@attempt("a packet of QUIC as the answer")
def _():
    return exchange_datagram(b"answer with QUIC")


@attempt("a request of NTP with an unsynchronized clock")
def _():
    return exchange_datagram(b"\xe3\0\x06\xec" + b"\0" * 44, port=123)


@attempt("video by RTP, without an answer")
def _():
    return exchange_datagram((b"\x80\x60\0\1\0\0\0\1" + b"\0" * 4).ljust(1250, b"v"))


@attempt("an ICMP echo")
def _():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as echo:
        echo.settimeout(2)
        echo.connect((address, 0))
        echo.send(b"\x08\0\0\0\0\1\0\1" + b"reached")
        return word(echo.recv(100))


for index, to in enumerate(given["closed"]):

    @attempt(f"a datagram to closed address {index}")
    def _(to=to):
        return exchange_datagram(b"hello", to)
