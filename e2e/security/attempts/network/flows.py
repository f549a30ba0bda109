"""Takes entries of the host's connection tracking: connections that stay, connections that end, datagrams, look-ups."""

import json
import socket
import time

address = given["address"]
kept = globals().setdefault("kept", [])


def connections_that_stay(count):
    for _ in range(count):
        kept.append(socket.create_connection((address, 8000), 4))


def connections_that_end(count):
    done = 0
    for _ in range(count):
        try:
            with socket.create_connection((address, 7000), 4) as stream:
                stream.recv(100)
            done += 1
        except ConnectionRefusedError:
            pass
    return done


def datagrams(count):
    """Sends to `count` ports, each of which makes a flow. Repeats it, because new flows per second are limited too."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flood:
        for _ in range(4):
            for port in range(count):
                flood.sendto(b"x", (address, 20000 + port))
            time.sleep(0.8)


def look_ups(count):
    """Sends DNS queries from `count` ports, because the resolver has one port."""
    query = b"\0\1\1\0\0\1\0\0\0\0\0\0\1x\6denied\4test\0\0\1\0\1"
    for port in range(count):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.bind(("0.0.0.0", 20000 + port))
            one.sendto(query, ("192.0.2.1", 53))
        if port % 100 == 0:
            time.sleep(0.05)


def connections_to_itself(count):
    # To many addresses, because connections to one address reuse their ports.
    for host in range(1, 17):
        with socket.create_server((f"127.0.0.{host}", 0)) as server:
            for _ in range(count // 16):
                with socket.create_connection(server.getsockname()):
                    server.accept()[0].close()
    (ended,) = [line for line in open("/proc/net/sockstat") if line.startswith("TCP:")]
    return int(ended.split("tw ")[1].split()[0])


def connects():
    try:
        socket.create_connection((address, 7000), 4).close()
        return "connected"
    except OSError as error:
        return type(error).__name__


def own_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))
        return probe.getsockname()[0]
