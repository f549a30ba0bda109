/** Tests that one gated sandbox cannot use up another's part of egress. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { eventually, settled } from '@cloche/testkit/eventually';
import { asUser } from './support/attackers.ts';
import { type PolicyWorld, policyWorld, type SandboxName } from './support/policy-world.ts';

/** Limits in `packages/host/egress/src`: a sandbox's requests at once, connections to servers, and DNS queries over UDP. */
const MAX_REQUESTS = 256;
const MAX_SERVER_CONNECTIONS = 320;
const MAX_QUESTIONS = 128;
const STREAMS = 600;
/** Memory limit in MiB. If small pieces were not joined, each of the uploads would take some 30. */
const MOST_MEMORY = 150;

let world: PolicyWorld;
before(async () => {
  world = await policyWorld();
});
after(() => world?.[Symbol.asyncDispose]());

const run = (name: SandboxName, code: string) => asUser(world.service, world.ids[name], code);

/** Starts Node in a sandbox, in the background, until the sandbox or `pkill` ends it. */
const inNode = (program: string) => `
import os, subprocess
environment = {**os.environ, "NODE_TLS_REJECT_UNAUTHORIZED": "0"}
subprocess.Popen(["node", "-e", ${JSON.stringify(program)}], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
`;

async function endAttack(name: SandboxName): Promise<void> {
  await run(name, 'import subprocess; subprocess.run(["pkill", "node"])');
  await eventually(async () => (await world.internet.seen()).held === 0);
}

/** Resolves with the number of requests that servers hold, once there is one and their number no longer changes. */
async function mostHeld(): Promise<number> {
  const held = async () => (await world.internet.seen()).held;
  await eventually(async () => (await held()) > 0);
  return settled(held, { forMs: 700 });
}

/** Returns the resident memory of egress in MiB. */
const memory = () =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${world.service.pid('egress')}/status`, 'utf8'))?.[1]) / 1024;
const descriptors = () => readdirSync(`/proc/${world.service.pid('egress')}/fd`).length;

/** Asserts that another sandbox gets DNS answers and responses through egress. */
async function neighbourIsServed(): Promise<void> {
  const code = `
import urllib.request
print(urllib.request.urlopen("http://allowed.test/neighbour", timeout=8).read().decode())`;
  assert.match(await run('deny', code), /^reached/);
}

/** HTTP/2 where a gateway speaks it; the test's servers speak HTTP/1.1, each request on a connection of its own. */
const MANY_STREAMS = `
const http2 = require("http2");
for (let connection = 0; connection < ${STREAMS} / 100; connection += 1) {
  const session = http2.connect("https://allowed.test").on("error", () => {});
  session.on("remoteSettings", () => {
    for (let stream = 0; stream < 100; stream += 1) session.request({ ":path": "/hold" }).on("error", () => {});
  });
}
setInterval(() => {}, 1000);`;
const MANY_REQUESTS = `
const agent = new (require("https").Agent)({ maxSockets: Infinity });
for (let request = 0; request < ${STREAMS}; request += 1) {
  require("https").get("https://allowed.test/hold", { agent }).on("error", () => {});
}
setInterval(() => {}, 1000);`;

describe('a sandbox that asks for more than its share', () => {
  it('a sandbox that asks for more than its share reaches all that it asks for where no gateway is between', async () => {
    await run('open', inNode(MANY_REQUESTS));
    assert.equal(await mostHeld(), STREAMS);
    await endAttack('open');
  });

  it('as streams of HTTP/2 has 256 requests at once, and a neighbour is served', async () => {
    const earlier = descriptors();
    await run('allow', inNode(MANY_STREAMS));
    assert.equal(await mostHeld(), MAX_REQUESTS);
    assert.ok(descriptors() - earlier <= MAX_SERVER_CONNECTIONS, `${descriptors() - earlier} descriptors`);
    await neighbourIsServed();
    await endAttack('allow');
  });

  it('a sandbox that asks for more than its share in one segment after the other of HTTP/1.1 has one request of each connection at once', async () => {
    const code = `
import socket
streams = [socket.create_connection(("${world.internet.address}", 80)) for _ in range(8)]
for stream in streams:
    stream.sendall(b"GET /hold HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n" * 30)`;
    await run('allow', code);
    assert.equal(await mostHeld(), 8);
    await neighbourIsServed();
    await run('allow', 'for stream in streams: stream.close()');
    await eventually(async () => (await world.internet.seen()).held === 0);
  });
});

const ASK = `
import socket, struct
def question(name, kind=1, flags=0x0100):
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return struct.pack("!6H", 7, flags, 1, 0, 0, 0) + labels + b"\\0" + struct.pack("!2H", kind, 1)
stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
stream.connect(("ADDRESS", 53))
stream.settimeout(3)
def answer(message):
    stream.send(message)
    return stream.recv(4096)[3] & 15
`;
const asking = (code: string) => ASK.replace('ADDRESS', world.internet.address) + code;

describe('the look-ups of a sandbox', () => {
  it('the look-ups of a sandbox that the resolver leaves without an answer are at most 128 at once, and a neighbour has its names', async () => {
    // The resolv.conf of an unrestricted sandbox names the gateway's address for DNS.
    const code = `
import re, socket, subprocess
stream.connect((re.search(r"nameserver (\\S+)", open("/etc/resolv.conf").read())[1], 53))`;
    const ask = 'for index in range(300): stream.send(question(f"a{index}.hold.test"))';
    // Names, because each is asked several times.
    const held = async () =>
      new Set((await world.internet.seen()).questions.filter((name) => name.endsWith('.hold.test'))).size;
    await run('open', asking(`${code}\n${ask}`));
    await eventually(async () => (await held()) > 0);
    assert.ok((await held()) <= MAX_QUESTIONS, `${await held()} questions`);
    await neighbourIsServed();
    // The control: the resolver itself accepts more.
    const relayed = await held();
    await run('open', asking(ask));
    await eventually(async () => (await held()) > relayed + MAX_QUESTIONS);
  });

  it('the look-ups of a sandbox reach the resolver as single questions alone: no update, notification, zone or garbage', async () => {
    const code = (resolver: string) => `
stream.connect((${resolver}, 53))
print(answer(question("cloche.test", flags=4 << 11)), answer(question("cloche.test", flags=5 << 11)))
print(answer(question("cloche.test", kind=252)), answer(question("cloche.test", kind=251)))
print(answer(question("cloche.test")[:18]))`;
    const own = 'next(line.split()[1] for line in open("/etc/resolv.conf") if line.startswith("nameserver"))';
    for (const name of ['open', 'allow', 'deny'] as const) {
      assert.equal(await run(name, asking(code(own))), '4 4\n5 5\n1\n', name);
    }
    // The control: queries that bypass the gateway all reach the resolver.
    const isStrange = (question: string) => /^opcode|^[AI]XFR|^garbage/.test(question);
    assert.deepEqual((await world.internet.seen()).questions.filter(isStrange), []);
    const direct = `
for message in [question("cloche.test", flags=5 << 11), question("cloche.test", kind=252), question("cloche.test")[:18]]:
    stream.send(message)`;
    await run('open', asking(direct));
    await eventually(async () => (await world.internet.seen()).questions.filter(isStrange).length === 3);
  });

  it('the look-ups of a sandbox fill no log when they cannot be read', async () => {
    const log = join(world.service.dataDir, 'logs', 'egress.log');
    const earlier = statSync(log).size;
    const code = `
for _ in range(3000): stream.send(question("cloche.test")[:18] + b"\\xc0" * 20)
stream.settimeout(1)
for _ in range(10):
    # The last of them may have been dropped with the others.
    try: answer(question("cloche.test")); break
    except TimeoutError: pass`;
    for (const name of ['open', 'allow'] as const) await run(name, asking(code));
    const grown = statSync(log).size - earlier;
    assert.ok(grown < 16 * 1024, `${grown} bytes`);
  });
});

// Last, because the requests that it leaves open end only with the sandbox.
it('a sandbox that uploads chunks of one byte takes little memory of egress, and a neighbour is served', async () => {
  const earlier = memory();
  const code = `
import socket
uploads = [socket.create_connection(("${world.internet.address}", 80)) for _ in range(32)]
for upload in uploads:
  upload.sendall(b"PUT /hold HTTP/1.1\\r\\nHost: allowed.test\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
  upload.setblocking(False)
for _ in range(40):
  for upload in uploads:
      try: upload.send(b"1\\r\\nx\\r\\n" * 10000)
      except BlockingIOError: pass`;
  await run('allow', code);
  await neighbourIsServed();
  assert.ok(memory() - earlier < MOST_MEMORY, `${memory() - earlier} MiB`);
});
