import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import { arriveAt } from '../../testing/arriving-kernel.ts';
import { childrenOf, commandLine } from '../../testing/process-readings.ts';
import { makePythonHome } from '../../testing/python-home.ts';
import { StartedAgent } from '../../testing/started-agent.ts';
import { CACHE_DIR, findPythonPackages } from '../../testing/test-cache.ts';
import { readConfig } from '../config.ts';
import { buildGuest } from '../guest/build-guest.ts';
import { KernelsGroup } from '../processes/kernels-group.ts';
import { KernelArrivals } from './kernel-arrivals.ts';
import { KernelPipes } from './kernel-pipes.ts';
import { SandboxZygote } from './sandbox-zygote.ts';

const packages = findPythonPackages();
const FORKED = `import os; print(b"cloche_zygote" in open(f"/proc/{os.getppid()}/cmdline", "rb").read())`;

/** Modules that no zygote can have loaded. */
const BAD_MODULES = {
  raises: 'raise ValueError("no")',
  exits: 'import os; os._exit(0)',
  crashes: 'import ctypes; ctypes.string_at(0)',
  threads: 'import threading, time; threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()',
  hangs: 'while True: pass',
};

const stateOf = (pid: string) => readFileSync(`/proc/${pid}/stat`, 'utf8').split(' ')[2];

describe('a zygote of the sandbox’s own', { skip: packages === undefined && 'no template is built' }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-zygote-'));
  const place = join(folder, 'kernels');
  let agent: StartedAgent;
  before(async () => {
    chmodSync(folder, 0o755);
    const CLOCHE_PYTHON = makePythonHome(join(folder, 'python'), packages ?? '');
    agent = await StartedAgent.start('', {
      CLOCHE_PYTHON,
      CLOCHE_KERNELS_FOLDER: place,
      CLOCHE_OWN_ZYGOTE: '1',
      // Unset, because a forked kernel cannot apply variables that Python reads at its start.
      PYTHONPATH: undefined,
      PYTHONDONTWRITEBYTECODE: undefined,
    });
  });
  after(async () => {
    await agent[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  const zygotes = () => childrenOf(agent.process.pid).filter((pid) => commandLine(pid).includes('cloche_zygote'));
  const output = async (context: string, code: string) => {
    const { stdout, done } = await agent.run(context, code);
    assert.equal(done.error, undefined, JSON.stringify(done.error));
    return stdout.trim();
  };

  /** Opens contexts until one has a forked kernel. The zygote takes a moment to load, also after it was killed. */
  async function forkedContext(): Promise<string> {
    let forked = '';
    const opensForked = async () => {
      const context = await agent.open();
      if ((await output(context, FORKED)) === 'True') forked = context;
      else await agent.call('DELETE', `/contexts/${context}`);
      return forked !== '';
    };
    await eventually(opensForked, { within: 60_000, because: 'a context has a forked kernel' });
    return forked;
  }

  test('a zygote of the sandbox’s own does not load while a cell is run', async () => {
    const over = join(agent.workspace, 'over');
    const code = `import os, time\nprint("begun")\nwhile not os.path.exists(${JSON.stringify(over)}): time.sleep(0.01)`;
    const run = await agent.start(await agent.open(), code);
    await run[Symbol.asyncIterator]().next();
    await eventually(() => zygotes().every((pid) => stateOf(pid) === 'T'), { because: 'no zygote loads' });
    // Nothing happens for longer than loading is postponed.
    await delay(500);
    for (const pid of zygotes()) assert.equal(stateOf(pid), 'T');
    writeFileSync(over, '');
    await run.result();
    await forkedContext();
  });

  test('forks kernels that run as the user of the sandbox and connect to the agent', async () => {
    const context = await forkedContext();
    assert.equal(statSync(place).mode & 0o777, 0o711);
    const rights = 'import os; print(os.getresuid(), os.getsid(0) == os.getpid(), os.getcwd())';
    assert.equal(await output(context, rights), `(1000, 1000, 1000) True ${agent.workspace}`);
  });

  test('a zygote of the sandbox’s own gives each randomness of its own', async () => {
    const code =
      'import random, uuid, ssl, numpy; print(random.random(), uuid.uuid4(), ssl.RAND_bytes(8).hex(), numpy.random.random())';
    const [one = [], other = []] = [
      (await output(await forkedContext(), code)).split(' '),
      (await output(await forkedContext(), code)).split(' '),
    ];
    assert.equal(one.length, other.length);
    for (const [index, value] of one.entries()) assert.notEqual(value, other[index]);
    const seed = 'import numpy.random; print(numpy.random.get_bit_generator().seed_seq)';
    assert.equal(await output(await forkedContext(), seed), 'None', 'it would be the zygote’s');
  });

  test('a zygote of the sandbox’s own that is killed or stopped costs time and no context, and another one is loaded', async () => {
    const kept = await forkedContext();
    for (const signal of ['SIGKILL', 'SIGSTOP'] as const) {
      const [before = ''] = zygotes();
      process.kill(Number(before), signal);
      for (let count = 0; count < 3; count++) await output(await agent.open(), '1');
      await forkedContext();
      assert.notEqual(zygotes()[0], before);
    }
    assert.equal(await output(kept, FORKED), 'False', 'its parent has ended; it lives');
  });

  test('a zygote of the sandbox’s own leaves no pipe behind, and no kernel that has ended', async () => {
    const context = await forkedContext();
    const pid = await output(context, 'import os; print(os.getpid())');
    await agent.call('DELETE', `/contexts/${context}`);
    await eventually(() => commandLine(pid) === '', { because: 'the kernel ends' });
    const hasPipes = () => readdirSync(place).some((name) => /\.(stdout|stderr)$/.test(name));
    await eventually(() => !hasPipes(), { because: 'no pipe is left' });
  });

  test('a zygote of the sandbox’s own is the only one whose children are met, and none of root’s is', async () => {
    // A kernel of this name may arrive.
    const kernelId = new KernelPipes(place, { uid: 0, gid: 0 }).take();
    // The test's own process belongs to root.
    const socket = await arriveAt(place, { kernelId, pipes: false });
    await eventually(() => socket.destroyed || socket.closed, { because: 'the connection is refused' });
    assert.ok(readdirSync(place).includes(`${kernelId}.stdout`));
  });
});

describe('a zygote that is to be loaded', () => {
  const kernelsFolder = mkdtempSync(join(tmpdir(), 'cloche-zygote-'));
  const arrivals = new KernelArrivals(kernelsFolder);
  after(() => rmSync(kernelsFolder, { recursive: true }));

  async function zygoteWith(
    hasRoom: boolean,
    env: NodeJS.ProcessEnv = {},
    onReady?: () => void,
    importMs = 30_000,
  ): Promise<SandboxZygote> {
    const { guestDir } = await buildGuest({ cacheDir: CACHE_DIR });
    const config = readConfig({ ...process.env, CLOCHE_LISTEN_PATH: 'none', CLOCHE_GUEST_PATH: guestDir, ...env });
    return new SandboxZygote({ ...config, kernelsFolder }, arrivals, {
      hasRoom: () => hasRoom,
      group: new KernelsGroup([]),
      importMs,
      ...(onReady && { onReady }),
    });
  }

  test('a zygote that is to be loaded waits while it is postponed, and does not start once it is closed', async () => {
    const zygote = await zygoteWith(true);
    zygote.startSoon();
    assert.ok(zygote.isComing);
    zygote.postpone();
    // Nothing happens for longer than a start waits.
    await delay(500);
    assert.ok(!zygote.isComing);
    zygote.startSoon();
    assert.ok(zygote.isComing);
    await zygote.close();
    zygote.startSoon();
    assert.ok(!zygote.isComing);
  });

  test('a zygote that is to be loaded is paused while it is postponed halfway', {
    skip: packages === undefined && 'no template is built',
  }, async () => {
    chmodSync(kernelsFolder, 0o755);
    const python = makePythonHome(join(kernelsFolder, 'python'), packages ?? '');
    const ready = Promise.withResolvers<void>();
    const zygote = await zygoteWith(true, { CLOCHE_PYTHON: python }, ready.resolve);
    const states = () =>
      childrenOf(process.pid)
        .filter((pid) => commandLine(pid).includes('cloche_zygote'))
        .map(stateOf);
    zygote.startSoon(0);
    await eventually(() => states().length > 0, { because: 'the zygote starts' });
    zygote.postpone();
    await eventually(() => states()[0] === 'T', { because: 'the zygote is stopped' });
    zygote.startSoon(0);
    await ready.promise;
    zygote.postpone();
    assert.notEqual(states()[0], 'T', 'it is loaded, and costs nothing any more');
    await zygote.close();
  });

  test('a zygote that is to be loaded leaves out warm imports that fail, end the process, start threads or never end', {
    skip: packages === undefined && 'no template is built',
  }, async () => {
    const home = mkdtempSync(join(tmpdir(), 'cloche-imports-'));
    chmodSync(home, 0o755);
    const python = makePythonHome(join(home, 'python'), packages ?? '');
    const site = join(home, 'python/lib/python3.11/site-packages');
    for (const [name, code] of Object.entries(BAD_MODULES)) writeFileSync(join(site, `${name}.py`), code);
    for (const name of Object.keys(BAD_MODULES)) {
      const ready = Promise.withResolvers<void>();
      const env = { CLOCHE_PYTHON: python, CLOCHE_WARM_IMPORTS: `decimal,${name}` };
      const zygote = await zygoteWith(true, env, ready.resolve, 3_000);
      zygote.startSoon(0);
      await ready.promise;
      await zygote.close();
    }
    rmSync(home, { recursive: true });
  });

  test('disturbs nothing where it cannot be started', async () => {
    // An invalid user id: `spawn` throws.
    const zygote = await zygoteWith(true, { CLOCHE_PYTHON: process.execPath, CLOCHE_USER_UID: '-1' });
    zygote.startSoon(0);
    await eventually(() => !zygote.isComing, { because: 'the start is given up' });
    assert.equal(await zygote.fork(), undefined);
    await zygote.close();
  });

  test('a zygote that is to be loaded does not start where memory is short, and no context waits for it', async () => {
    const zygote = await zygoteWith(false);
    zygote.startSoon();
    await eventually(() => !zygote.isComing, { because: 'the start is given up' });
    assert.equal(await zygote.fork(), undefined);
    assert.ok(!zygote.release());
    await zygote.close();
  });
});
