import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type TestService, testService } from '../support/service.ts';
import { type TestInternet, testInternet } from '../support/test-internet.ts';

let internet: TestInternet;
let service: TestService;
let open: string;
let closed: string;
before(async () => {
  internet = await testInternet();
  service = await testService({ CLOCHE_DNS_UPSTREAM: `${internet.address}:53` });
  open = (await service.api.readySandbox()).id;
  closed = (await service.api.readySandbox({ networkPolicy: { mode: 'deny-all' } })).id;
});
after(async () => {
  await service?.close();
  await internet?.[Symbol.asyncDispose]();
});

/** Sends an HTTP request from inside a sandbox. Resolves with the body or the kind of failure. */
async function reach(sandboxId: string, url: string): Promise<string> {
  const code = `
import urllib.request
try:
    answer = urllib.request.urlopen(${JSON.stringify(url)}, timeout=3).read().decode()
except Exception as e:
    answer = "failed: " + str(e)
print(answer, end="")`;
  return (await service.api.run(sandboxId, code)).stdout;
}

describe('unrestricted', () => {
  it('a sandbox with the network policy unrestricted reaches the internet by address and by name', async () => {
    assert.match(await reach(open, `http://${internet.address}:8000/`), /^reached/);
    assert.match(await reach(open, 'http://cloche.test:8000/'), /^reached cloche.test/);
  });

  it('a sandbox with the network policy unrestricted does not reach a private range, which the host itself reaches', async () => {
    assert.match(await (await fetch(`http://${internet.privateAddress}:8000/`)).text(), /^reached/);
    assert.match(await reach(open, `http://${internet.privateAddress}:8000/`), /^failed/);
  });

  it("a sandbox with the network policy unrestricted does not reach the host's own addresses, which the host itself reaches", async () => {
    assert.match(await (await fetch(`http://${internet.hostAddress}:8001/`)).text(), /^reached/);
    assert.match(await reach(open, `http://${internet.hostAddress}:8001/`), /^failed/);
    assert.match(await reach(open, `${service.url}/healthz`), /^failed/);
  });

  it('a sandbox with the network policy unrestricted does not reach another sandbox, which is reached from inside itself', async () => {
    const other = (await service.api.readySandbox()).id;
    const address = `
import socket, threading, http.server
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("${internet.address}", 9)); mine = s.getsockname()[0]
threading.Thread(target=http.server.HTTPServer(("0.0.0.0", 8080), http.server.SimpleHTTPRequestHandler).serve_forever, daemon=True).start()
print(mine, end="")`;
    const there = (await service.api.run(other, address)).stdout;
    assert.doesNotMatch(await reach(other, `http://${there}:8080/`), /^failed/);
    assert.match(await reach(open, `http://${there}:8080/`), /^failed/);
    await service.api.delete(`/v1/sandboxes/${other}`);
  });

  it('a sandbox with the network policy unrestricted has no IPv6', async () => {
    const run = await service.api.run(
      open,
      'print(open("/proc/net/if_inet6").read() if __import__("os").path.exists("/proc/net/if_inet6") else "", end="")',
    );
    assert.equal(run.stdout, '');
  });
});

describe('deny-all', () => {
  it('a sandbox with the network policy deny-all reaches nothing, by address or by name, and does not hang', async () => {
    for (const url of [`http://${internet.address}:8000/`, 'http://cloche.test:8000/']) {
      assert.match(await reach(closed, url), /^failed/);
    }
  });

  it('still has a loopback', async () => {
    const code = `
import socket, threading
s = socket.create_server(("127.0.0.1", 0)); threading.Thread(target=lambda: s.accept()[0].send(b"hi"), daemon=True).start()
print(socket.create_connection(s.getsockname(), 3).recv(2).decode(), end="")`;
    assert.equal((await service.api.run(closed, code)).stdout, 'hi');
  });
});
