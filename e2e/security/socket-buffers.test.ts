/** Socket buffers are kernel memory, which control groups v1 count separately from the sandbox's memory. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { skipUnless } from '../support/claims.ts';
import { sharedService, type TestService } from '../support/service.ts';
import { asUser, onHost } from './support/attackers.ts';

const MEMORY_MB = 160;
const PAIRS = 200;

/** Fills the buffers of many connected pairs of a protocol, and prints the mebibytes that all of them hold. */
const fill = (kind: 'SOCK_STREAM' | 'SOCK_DGRAM') => `
import socket
held, pairs = 0, []
for _ in range(${PAIRS}):
    reader = socket.socket(socket.AF_INET, socket.${kind})
    reader.bind(("127.0.0.1", 0))
    writer = socket.socket(socket.AF_INET, socket.${kind})
    for one in (reader, writer):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    if "${kind}" == "SOCK_STREAM":
        reader.listen(1)
        writer.settimeout(1)
        try: writer.connect(reader.getsockname())
        except OSError: break
        writer.setblocking(False)
        try:
            while True: held += writer.send(bytes(1 << 16))
        except OSError: pass
    else:
        writer.connect(reader.getsockname())
        for _ in range(400): writer.send(bytes(1 << 13))
        reader.setblocking(False)
    pairs.append((reader, writer))
if "${kind}" == "SOCK_DGRAM":
    for reader, _ in pairs:
        try:
            while True: held += len(reader.recv(1 << 16))
        except OSError: pass
print(held >> 20)`;

let service: TestService;
let attacker: string;
let neighbour: string;
before(async () => {
  service = await sharedService();
  attacker = (await service.api.readySandbox({ resources: { memoryMb: MEMORY_MB } })).id;
  neighbour = (await service.api.readySandbox()).id;
});
after(() => service?.close());

// In gVisor these buffers are memory of its own kernel, and the sandbox ends at the limit (`limits.test.ts`).
describe('sockets of a sandbox', skipUnless('memory', 'kernel'), () => {
  for (const kind of ['SOCK_STREAM', 'SOCK_DGRAM'] as const) {
    it(`buffer a small part of what they buffer outside of it with ${kind}, and a neighbour's connections go on`, async () => {
      const held = Number(await asUser(service, attacker, fill(kind)));
      const control = Number(
        await onHost('root', `import subprocess; subprocess.run(["ip", "link", "set", "lo", "up"])\n${fill(kind)}`),
      );
      // 76 to 167 MiB: what is in flight between two looks of the kernel at its account varies, more so while groups of
      // ended sandboxes hold pages.
      assert.ok(held < control / 4, `${held} MiB, outside of a sandbox ${control} MiB`);
      assert.ok(control > MEMORY_MB, `outside of a sandbox ${control} MiB`);
      const echoed = `
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
served, _ = server.accept()
client.sendall(b"x" * 100000)
left = 100000
while left: left -= len(served.recv(65536))
print("echoed")`;
      assert.equal((await asUser(service, neighbour, echoed)).trim(), 'echoed');
    });
  }
});
