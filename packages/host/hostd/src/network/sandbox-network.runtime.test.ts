import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect as connectSocket, createServer, type Server } from 'node:net';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { HostdProcess } from '../../testing/hostd-process.ts';
import { initPid, runInside } from '../../testing/inside.ts';
import { makeInstallation, makeSpec, type TestInstallation } from '../../testing/installation.ts';
import { hostLeftovers } from '../../testing/leftovers.ts';
import { guardTableName, tableName } from './nft-ruleset.ts';

/** A substitute for the internet: a documentation range, which sandboxes may reach, behind a link of this test. */
const INTERNET = {
  namespace: `clnet${process.pid}`,
  link: `cln${process.pid}`,
  ours: '198.51.100.1',
  theirs: '198.51.100.2',
};
/** An address in an operator's network on the same link. */
const PRIVATE = { ours: '10.254.253.1', theirs: '10.254.253.2' };
const PORT = 8123;
/** Wait for an answer that must not arrive; several times what an answer takes. */
const IN_VAIN_MS = 1000;
/** Time that a resolver waits for each answer of a silent server. */
const RESOLVER_PATIENCE_MS = 5000;

/** Serves one line with the client's address, using only programs of every template. */
const SERVE = `require('net').createServer((s) => s.end(s.remoteAddress + '\\n')).listen(${PORT}, '0.0.0.0')`;

describe('the network of a sandbox', () => {
  let installation: TestInstallation;
  let hostd: HostdProcess;
  let onHost: Server;
  const ended: (() => void)[] = [];

  before(async () => {
    await makeInternet(ended);
    onHost = createServer((socket) => socket.end('host\n')).listen(PORT, '0.0.0.0');
    await once(onHost, 'listening');
    installation = makeInstallation();
    hostd = await HostdProcess.start(installation, ['/usr/bin/env', 'node', '-e', SERVE]);
    await hostd.launch('sbx_open', await makeSpec(installation.config, { mode: 'unrestricted' }));
    await hostd.launch('sbx_other', await makeSpec(installation.config, { mode: 'unrestricted' }));
    await hostd.launch('sbx_closed', await makeSpec(installation.config, { mode: 'deny-all' }));
    for (const id of ['sbx_open', 'sbx_other', 'sbx_closed']) {
      await eventually(async () => (await connect(id, '127.0.0.1')) === '127.0.0.1', { because: `${id} serves` });
    }
  });

  after(async () => {
    for (const { sandboxId } of await hostd.list()) await hostd.stop(sandboxId);
    await hostd.close();
    onHost.close();
    for (const end of ended) end();
    assert.deepEqual(hostLeftovers(installation.config), []);
    installation[Symbol.dispose]();
  });

  /** Returns the answer, or the code of the failure. */
  async function connect(sandboxId: string, address: string, from = '', patienceMs = 10_000): Promise<string> {
    const script = `const s = require('net').connect({ host: '${address}', port: ${PORT}, timeout: ${patienceMs} ${from && `, localAddress: '${from}'`} });
      const say = (text) => { process.stdout.write(text); process.exit(0); };
      s.on('data', (d) => say(String(d).trim())).on('error', (e) => say(e.code)).on('timeout', () => say('TIMEOUT'));`;
    const command = `node -e "${script.replaceAll(/\s+/g, ' ')}"`;
    const { stdout, stderr } = await runInside(installation.config, sandboxId, command);
    return stdout || stderr;
  }

  /** Connects from the host: the control, which shows that the server is there and answers. */
  async function connectFromHost(address: string): Promise<string> {
    return (await text(connectSocket({ host: address, port: PORT }))).trim();
  }

  function addressOf(sandboxId: string): string {
    const pid = String(initPid(installation.config, sandboxId));
    const shown = execFileSync('nsenter', ['-t', pid, '-n', 'ip', '-4', '-o', 'addr', 'show', 'eth0'], {
      encoding: 'utf8',
    });
    return /inet ([\d.]+)/.exec(shown)?.[1] ?? assert.fail(shown);
  }

  describe('unrestricted', () => {
    test('unrestricted reaches the internet, by an address of the host', async () => {
      assert.equal(await connect('sbx_open', INTERNET.theirs), INTERNET.ours);
    });

    test('unrestricted reaches itself', async () => {
      assert.equal(await connect('sbx_open', addressOf('sbx_open')), addressOf('sbx_open'));
    });

    test('unrestricted reaches no network of the operator', async () => {
      // The same server on the same link at another address, so only the range differs.
      assert.equal(await connectFromHost(PRIVATE.theirs), PRIVATE.ours);
      assert.equal(await connect('sbx_open', PRIVATE.theirs), 'ECONNREFUSED');
    });

    test('unrestricted reaches no address of the host', async () => {
      assert.equal(await connectFromHost('127.0.0.1'), 'host');
      const gateway = addressOf('sbx_open').replace(/\d+$/, (last) => String(Number(last) - 1));
      for (const address of [INTERNET.ours, PRIVATE.ours, gateway]) {
        assert.equal(await connectFromHost(address), 'host');
        assert.equal(await connect('sbx_open', address), 'ECONNREFUSED', address);
      }
    });

    test('unrestricted reaches no other sandbox', async () => {
      assert.equal(await connect('sbx_other', addressOf('sbx_other')), addressOf('sbx_other'));
      assert.equal(await connect('sbx_open', addressOf('sbx_other')), 'ECONNREFUSED');
    });

    test('unrestricted cannot send from an address that is not its own', async () => {
      const pid = String(initPid(installation.config, 'sbx_open'));
      const forged = '198.51.100.77';
      execFileSync('nsenter', ['-t', pid, '-n', 'ip', 'addr', 'add', `${forged}/32`, 'dev', 'eth0']);
      assert.equal(await connect('sbx_open', INTERNET.theirs, forged, IN_VAIN_MS), 'TIMEOUT');
      assert.equal(await connect('sbx_open', INTERNET.theirs, addressOf('sbx_open')), INTERNET.ours);
    });

    test('unrestricted is closed while the rules of the host are flushed, and has its network again soon after', async () => {
      const table = tableName(installation.config.installationId);
      const hostsEnd = addressOf('sbx_open').replace(/\d+$/, (last) => String(Number(last) - 1));
      for (const address of [PRIVATE.theirs, PRIVATE.ours, INTERNET.ours, hostsEnd, addressOf('sbx_other')]) {
        // Removes the table whether or not it was restored since the last iteration.
        execFileSync('nft', [`add table inet ${table}; delete table inet ${table}`]);
        assert.equal(await connect('sbx_open', address), 'ECONNREFUSED', address);
      }
      await eventually(() => nftTables().includes(`${table}\n`), { because: 'the rules are back' });
      assert.equal(await connect('sbx_open', INTERNET.theirs), INTERNET.ours);
    });

    test('unrestricted has a second set of rules, which only hostd can remove', () => {
      const guard = guardTableName(installation.config.installationId, hostd.pid);
      assert.ok(nftTables().includes(guard));
      assert.throws(() => execFileSync('nft', ['delete', 'table', 'inet', guard], { stdio: 'pipe' }), /not permitted/);
    });

    test('unrestricted has no IPv6', async () => {
      const { stdout } = await runInside(installation.config, 'sbx_open', 'cat /proc/net/if_inet6');
      assert.equal(stdout, '');
    });
  });

  describe('deny-all', () => {
    test('deny-all has a loopback and nothing else', async () => {
      const { stdout } = await runInside(installation.config, 'sbx_closed', 'ls /sys/class/net');
      assert.deepEqual(
        stdout.split('\n').filter((name) => /^(lo|eth|cl)/.test(name)),
        ['lo'],
      );
      assert.equal(await connect('sbx_closed', '127.0.0.1'), '127.0.0.1');
      assert.equal(await connect('sbx_closed', INTERNET.theirs), 'ENETUNREACH');
    });

    test('deny-all gets an immediate error for a name look-up', async () => {
      const startedAt = performance.now();
      const { exitCode } = await runInside(installation.config, 'sbx_closed', 'getent hosts example.com');
      assert.notEqual(exitCode, 0);
      assert.ok(performance.now() - startedAt < RESOLVER_PATIENCE_MS);
    });
  });
});

function nftTables(): string {
  return execFileSync('nft', ['list', 'tables'], { encoding: 'utf8' });
}

async function makeInternet(ended: (() => void)[]): Promise<void> {
  const { namespace, link, ours, theirs } = INTERNET;
  const ip = (...args: string[]) => execFileSync('ip', args);
  ip('netns', 'add', namespace);
  ended.push(() => ip('netns', 'delete', namespace));
  ip('link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', namespace);
  for (const address of [ours, PRIVATE.ours]) ip('addr', 'add', `${address}/24`, 'dev', link);
  ip('link', 'set', link, 'up');
  for (const address of [theirs, PRIVATE.theirs]) ip('-n', namespace, 'addr', 'add', `${address}/24`, 'dev', 'eth0');
  for (const name of ['lo', 'eth0']) ip('-n', namespace, 'link', 'set', name, 'up');

  const served = `${SERVE}.on('listening', () => console.log('listening'))`;
  const server = spawn('ip', ['netns', 'exec', namespace, process.execPath, '-e', served]);
  ended.unshift(() => server.kill());
  await once(server.stdout, 'data');
}
