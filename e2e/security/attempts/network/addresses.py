"""Connects to addresses instead of names, and without HTTP."""

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


for index, to in enumerate(given["closed"]):

    @attempt(f"HTTP to closed address {index}")
    def _(to=to):
        return word(exchange(get(to), to))

    @attempt(f"another port of closed address {index}")
    def _(to=to):
        return word(exchange(get(to), to, 8000))


for kind, to in [("an allowed", address), ("a denied", other)]:

    @attempt(f"raw TCP to {kind} address")
    def _(to=to):
        with socket.create_connection((to, 7000), SECONDS) as stream:
            # Either side may speak first.
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
