import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { LIMITS } from '@cloche/contract';
import { sameWithEachRuntime } from '../support/claims.ts';
import { lentService } from '../support/lent-service.ts';
import { residentBytes } from '../support/process.ts';
import type { TestService } from '../support/service.ts';

let service: TestService;
let sandboxId: string;
before(async () => {
  service = await lentService();
  sandboxId = (await service.api.readySandbox()).id;
});
after(() => service.close());

describe('what a run prints', () => {
  it('includes what os.system, subprocesses and C code write', async () => {
    const run = await service.api.run(
      sandboxId,
      'import os, subprocess, ctypes\nos.system("echo system")\nsubprocess.run(["echo", "process"])\nctypes.CDLL(None).puts(b"libc")\nos.write(1, b"raw\\n")\nprint("print")\nimport sys; sys.stderr.write("problem\\n"); os.system("echo worse >&2")',
    );
    for (const word of ['system', 'process', 'libc', 'raw', 'print'])
      assert.match(run.stdout, new RegExp(`^${word}$`, 'm'));
    assert.match(run.stderr, /problem/);
    assert.match(run.stderr, /worse/);
  });

  it('what a run prints can be written through /dev/stdout, as shell scripts do', async () => {
    const run = await service.api.run(sandboxId, '!echo through > /dev/stdout');
    assert.match(run.stdout, /through/);
  });

  it('what a run prints becomes valid UTF-8 when it is binary', async () => {
    const run = await service.api.run(sandboxId, 'import os\nos.write(1, bytes(range(256)))\nNone');
    assert.equal(run.error, undefined);
    assert.match(run.stdout, /ABC/);
    assert.ok(run.stdout.includes('\ufffd'));
  });

  it('what a run prints keeps characters whole that are written in pieces', async () => {
    const run = await service.api.run(
      sandboxId,
      'import os, time\nfor b in "日本".encode():\n    os.write(1, bytes([b])); time.sleep(0.01)\nNone',
    );
    assert.equal(run.stdout, '日本');
  });

  const cut = sameWithEachRuntime('the agent cuts it, and the memory of the server is measured');
  it('output of 50 MB is cut at the bound, says so, and does not grow the server', cut, async () => {
    const before = residentBytes(service.pid('server'));
    const run = await service.api.run(
      sandboxId,
      'import sys\nline = "x" * 99 + "\\n"\nfor _ in range(500_000): sys.stdout.write(line)',
    );
    const grown = residentBytes(service.pid('server')) - before;
    assert.equal(run.error, undefined);
    assert.ok(Buffer.byteLength(run.stdout) < LIMITS.outputStreamBytes + 1000);
    // In JSON, the end of each line takes two characters.
    const kept = Math.floor((LIMITS.outputStreamBytes * 100) / 101);
    assert.ok(Math.abs((run.truncated?.stdout ?? 0) - (50_000_000 - kept)) < 2);
    assert.match(run.stdout.slice(-300), new RegExp(String(run.truncated?.stdout)));
    assert.ok(grown < 200 * 1024 * 1024, `grew by ${(grown / 2 ** 20).toFixed(0)} MiB`);
    assert.equal((await service.api.run(sandboxId, '1')).outputs[0]?.value, '1');
  });

  it('what a run prints does not leak from a background process into a later run', async () => {
    await service.api.run(sandboxId, 'import subprocess; subprocess.Popen("sleep 0.5; echo leaked", shell=True); None');
    const run = await service.api.run(sandboxId, '"clean"');
    assert.equal(run.stdout, '');
  });
});

describe('standard input', () => {
  it('standard input is empty in all languages', async () => {
    const python = await service.api.run(sandboxId, 'input()');
    assert.equal(python.error?.name, 'EOFError');
    const shell = await service.api.run(sandboxId, '!cat; echo ended');
    assert.match(shell.stdout, /ended/);
    const js = await service.api.run(
      sandboxId,
      'let n = 0; for await (const chunk of process.stdin) n += chunk.length; n',
      { language: 'javascript', timeoutMs: 10_000 },
    );
    assert.equal(js.outputs[0]?.value, '0');
  });
});

describe('a kernel that dies', () => {
  it('a kernel that dies ends the run with KernelDiedError, and the next one has a fresh kernel and says so', async () => {
    const died = await service.api.run(sandboxId, 'import os; os.kill(os.getpid(), 9)');
    assert.equal(died.error?.name, 'KernelDiedError');
    const next = await service.api.run(sandboxId, '1 + 1');
    assert.equal(next.outputs[0]?.value, '2');
    assert.equal(next.stateLost, true);
    assert.equal((await service.api.run(sandboxId, '1')).stateLost, undefined);
  });
});

describe('memory', () => {
  it('memory that runs out ends that run with OutOfMemoryError while another context goes on', async () => {
    const small = (await service.api.readySandbox({ resources: { memoryMb: 512 } })).id;
    const contexts = `/v1/sandboxes/${small}/code/contexts`;
    const [bomb, other] = await Promise.all(
      [1, 2].map(async () => (await service.api.post(contexts, { language: 'python' })).body.context.id as string),
    );
    await service.api.run(small, 'kept = bytearray(50 << 20)', { contextId: other ?? '' });
    const run = await service.api.run(small, 'hog = []\nwhile True: hog.append(bytearray(16 << 20))', {
      contextId: bomb ?? '',
    });
    assert.equal(run.error?.name, 'OutOfMemoryError');
    assert.equal(
      (await service.api.run(small, 'len(kept)', { contextId: other ?? '' })).outputs[0]?.value,
      String(50 << 20),
    );
    const fresh = await service.api.run(small, '"back"', { contextId: bomb ?? '' });
    assert.equal(fresh.stateLost, true);
  });
});
