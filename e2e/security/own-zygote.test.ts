/** Tests what code can do to the zygote of its own sandbox, and to the channel between the agent and its kernels. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { eventually } from '@cloche/testkit/eventually';
import { skipUnless } from '../support/claims.ts';
import { forkedContext, openContext } from '../support/forked-kernels.ts';
import { sharedService, type TestService } from '../support/service.ts';
import { asRoot } from './support/attackers.ts';

const forkedWithin = skipUnless('pythonKernels', 'forked within');

const PLACE = '/run/cloche-kernels';
/** Defines `say`, which connects as a kernel and returns whether the agent keeps the connection instead of closing it. */
const SAY = `
import json, os, socket, struct
def say(kernel_id, pid):
    agent = socket.socket(socket.AF_UNIX)
    agent.settimeout(3)
    agent.connect("${PLACE}/kernels.sock")
    hello = json.dumps({"type": "hello", "kernelId": kernel_id, "pid": pid}).encode()
    agent.sendall(struct.pack(">I", len(hello)) + hello)
    try:
        return agent.recv(1) != b""
    except ConnectionResetError:
        return False
    except TimeoutError:
        return True
`;

let service: TestService;
let id: string;
let contextId: string;
before(async () => {
  if (forkedWithin.skip) return;
  service = await sharedService();
  id = (await service.api.readySandbox()).id;
  contextId = await forkedContext(service, id);
});
after(() => service?.close());

async function output(code: string): Promise<string> {
  const { stdout, error } = await service.api.run(id, code, { contextId });
  assert.equal(error, undefined, JSON.stringify(error));
  return stdout.trim();
}

/** A kernel that the agent would expect: it has the pipes, as the agent makes them while one arrives. */
const EXPECTED = 'e'.repeat(32);

/** Makes the pipes of `EXPECTED`. */
async function expectKernel(): Promise<void> {
  await asRoot(
    service,
    id,
    `import os
for stream in ("stdout", "stderr"):
    path = f"${PLACE}/${EXPECTED}.{stream}"
    os.mkfifo(path, 0o600)
    os.chown(path, 1000, 1000)`,
  );
}

/** Returns the names of the files where kernels arrive. */
async function listed(): Promise<string[]> {
  return (await asRoot(service, id, `import os; print(*os.listdir("${PLACE}"))`)).trim().split(' ').sort();
}

describe('where an agent meets kernels of its sandbox’s own zygote', forkedWithin, () => {
  it('the socket for kernels of a sandbox’s own zygote shows no names to code, which can put nothing there either', async () => {
    const attempt = (call: string) => `import os
try: print(${call})
except OSError as error: print(type(error).__name__)`;
    assert.equal(await output(attempt(`os.listdir("${PLACE}")`)), 'PermissionError');
    assert.equal(await output(attempt(`os.mkfifo("${PLACE}/00.stdout")`)), 'PermissionError');
    assert.equal(await output(attempt(`os.symlink("/etc/shadow", "${PLACE}/00.stdout")`)), 'PermissionError');
    assert.equal(await output(attempt(`os.unlink("${PLACE}/kernels.sock")`)), 'PermissionError');
    // The warm-up of the sandbox listens there until it ends.
    await eventually(async () => isDeepStrictEqual(await listed(), ['kernels.sock']), {
      because: 'a name is there only while its kernel arrives',
    });
  });

  it('the socket for kernels of a sandbox’s own zygote accepts no process of another user as a kernel, which would be killed with its context, and no process without a name', async () => {
    await expectKernel();
    assert.equal(await output(`${SAY}\nprint(say("00-11", os.getpid()), say("${EXPECTED}", 1))`), 'False False');
    assert.ok((await listed()).includes(`${EXPECTED}.stdout`));
    const child = `${SAY}\npid = os.fork()\nif pid == 0:\n    import time; os.setsid(); time.sleep(60)\n`;
    assert.equal(
      await output(`${child}print(say("${EXPECTED}", pid))`),
      'True',
      'its own it takes: code is its kernels',
    );
  });

  it('a flood of the socket for kernels of a sandbox’s own zygote costs no context', async () => {
    await output(`${SAY}
flood = [socket.socket(socket.AF_UNIX) for _ in range(100)]
for one in flood:
    one.setblocking(False)
    try: one.connect("${PLACE}/kernels.sock")
    except BlockingIOError: pass`);
    const next = await openContext(service, id);
    assert.equal((await service.api.run(id, '1 + 1', { contextId: next })).outputs[0]?.value, '2');
  });
});

describe('a zygote of the sandbox’s own', forkedWithin, () => {
  it('a zygote of the sandbox’s own has the rights of its user, as its kernels have, and so has nothing that code could take from it', async () => {
    const rights = `import os
def rights(process):
    status = dict(line.split(':', 1) for line in open(f'/proc/{process}/status'))
    return [status[name].split() for name in ('Uid', 'Gid', 'CapPrm', 'CapEff', 'CapInh', 'Seccomp')]
print(rights('self') == rights(os.getppid()), rights('self')[0])`;
    assert.equal(await output(rights), "True ['1000', '1000', '1000', '1000']");
  });
});
