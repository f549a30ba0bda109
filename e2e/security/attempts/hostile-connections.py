"""Plays scripts of hostile connections, as `play-script.ts` does, from inside a sandbox.

`given`: the file of the scripts, how often each is played (default: once), and how many connections are open at a
time. Prints the number of connections that received something.
"""

import queue
import socket
import ssl
import struct
import threading
import time

LONGEST_S = 2


def context_of(script):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if "protocol" in script:
        context.set_alpn_protocols([script["protocol"]])
    return context


def play(script):
    received = 0
    raw = socket.create_connection((script["host"], script["port"]), timeout=LONGEST_S)
    connection = raw
    try:
        if script["tls"]:
            connection = context_of(script).wrap_socket(raw, server_hostname=script["host"])
        for step in script["steps"]:
            if step["do"] == "send":
                connection.sendall(step["bytes"].encode("latin-1"))
            elif step["do"] == "pause":
                time.sleep(step["ms"] / 1000)
            elif step["do"] == "await" and script["reads"]:
                connection.settimeout(step["ms"] / 1000)
                try:
                    received += len(connection.recv(65536))
                except TimeoutError:
                    pass
                connection.settimeout(LONGEST_S)
            elif step["do"] == "end":
                raw.shutdown(socket.SHUT_WR)
            elif step["do"] == "reset":
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                break
            else:
                break
    except OSError:
        pass
    finally:
        connection.close()
    return received


scripts = queue.SimpleQueue()
for script in json.load(open(given["file"])):
    for _ in range(given.get("times", 1)):
        scripts.put(script)
answered = []


def work():
    while True:
        try:
            script = scripts.get_nowait()
        except queue.Empty:
            return
        try:
            answered.append(play(script) > 0)
        except OSError:
            answered.append(False)


threads = [threading.Thread(target=work) for _ in range(given["at_once"])]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sum(answered))
