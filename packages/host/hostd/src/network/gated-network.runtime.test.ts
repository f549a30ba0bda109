import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { FakeEgress } from '../../testing/fake-egress.ts';
import { HostdProcess } from '../../testing/hostd-process.ts';
import { initPid, runInside } from '../../testing/inside.ts';
import { makeInstallation, makeSpec, type TestInstallation } from '../../testing/installation.ts';
import { hostLeftovers, instanceLeftovers } from '../../testing/leftovers.ts';
import { guardTableName, tableName } from './nft-ruleset.ts';

const INTERNET = {
  namespace: `clgat${process.pid}`,
  link: `clh${process.pid}`,
  ours: '203.0.113.1',
  theirs: '203.0.113.2',
};
const PORT = 8124;
/** Wait for an answer that must not arrive; several times what an answer takes. */
const IN_VAIN_MS = 1000;
const POLICY = { mode: 'allowlist', hosts: ['example.com'] } as const;

/** Answers connections and datagrams with the client's address. */
const SERVE = `require('net').createServer((s) => s.end(s.remoteAddress + '\\n')).listen(${PORT}, '0.0.0.0');
  for (const port of [53, ${PORT}]) { const u = require('dgram').createSocket('udp4');
    u.on('message', (m, from) => u.send(from.address, from.port, from.address)).bind(port, '0.0.0.0'); }`;

describe('a gated sandbox', () => {
  let installation: TestInstallation;
  let hostd: HostdProcess;
  let egress: FakeEgress;
  const ended: (() => void)[] = [];

  before(async () => {
    await makeInternet(ended);
    installation = makeInstallation();
    hostd = await HostdProcess.start(installation);
    egress = new FakeEgress(installation.config);
    await egress.start();
    await hostd.launch('sbx_open', await makeSpec(installation.config, { mode: 'unrestricted' }));
    await launchGated('sbx_gated');
  });

  after(async () => {
    for (const { sandboxId } of await hostd.list()) await hostd.stop(sandboxId);
    await hostd.close();
    await egress.stop();
    for (const end of ended) end();
    assert.deepEqual(hostLeftovers(installation.config), []);
    installation[Symbol.dispose]();
  });

  async function launchGated(sandboxId: string) {
    return hostd.launch(sandboxId, await makeSpec(installation.config, { ...POLICY, hosts: [...POLICY.hosts] }));
  }

  /** Returns the answer, or the code of the failure; `TIMEOUT` when nothing arrives within `patienceMs`. */
  async function ask(
    sandboxId: string,
    kind: 'tcp' | 'udp',
    address: string,
    port = PORT,
    patienceMs = 10_000,
  ): Promise<string> {
    const say = `const say = (text) => { process.stdout.write(String(text).trim()); process.exit(0); };
      setTimeout(() => say('TIMEOUT'), ${patienceMs});`;
    const tcp = `const s = require('net').connect(${port}, '${address}'); s.on('data', say).on('error', (e) => say(e.code));`;
    const udp = `const u = require('dgram').createSocket('udp4'); u.on('message', say).on('error', (e) => say(e.code));
      u.connect(${port}, '${address}', () => u.send('hello'));`;
    const script = `${say} ${kind === 'tcp' ? tcp : udp}`.replaceAll(/\s+/g, ' ');
    const { stdout, stderr } = await runInside(installation.config, sandboxId, `node -e "${script}"`);
    return stdout || stderr;
  }

  function addressOf(sandboxId: string): string {
    const pid = String(initPid(installation.config, sandboxId));
    const shown = execFileSync('nsenter', ['-t', pid, '-n', 'ip', '-4', '-o', 'addr'], { encoding: 'utf8' });
    return /inet (198[\d.]+)/.exec(shown)?.[1] ?? assert.fail(shown);
  }

  async function isTold(sandboxId: string): Promise<void> {
    const address = addressOf(sandboxId);
    await eventually(() => egress.sandboxes.has(address), { because: 'egress is told' });
    assert.deepEqual(egress.sandboxes.get(address), { sandboxId, policy: POLICY });
  }

  describe('has traffic', () => {
    test('a gated sandbox has traffic that ends at egress, whatever its destination', async () => {
      const own = addressOf('sbx_gated');
      assert.equal(await ask('sbx_open', 'tcp', INTERNET.theirs), INTERNET.ours);
      const hostsEnd = own.replace(/\d+$/, (last) => String(Number(last) - 1));
      for (const address of [INTERNET.theirs, INTERNET.ours, hostsEnd, addressOf('sbx_open'), '10.1.2.3', '1.1.1.1']) {
        assert.equal(await ask('sbx_gated', 'tcp', address), 'egress', address);
      }
    });

    test('a gated sandbox has traffic whose DNS look-ups end at egress, whatever their resolver', async () => {
      assert.equal(await ask('sbx_open', 'udp', INTERNET.theirs, 53), INTERNET.ours);
      assert.equal(await ask('sbx_gated', 'udp', INTERNET.theirs, 53), 'egress');
      assert.equal(await ask('sbx_gated', 'tcp', INTERNET.theirs, 53), 'egress');
    });

    test('a gated sandbox has traffic of no other kind', async () => {
      assert.equal(await ask('sbx_open', 'udp', INTERNET.theirs), INTERNET.ours);
      const answer = await ask('sbx_gated', 'udp', INTERNET.theirs, PORT, IN_VAIN_MS);
      assert.match(answer, /TIMEOUT|EHOSTUNREACH|EACCES|ECONNREFUSED/);
    });

    test('a gated sandbox has traffic that no other sandbox can send in its name', async () => {
      assert.equal(await ask('sbx_open', 'tcp', addressOf('sbx_gated')), 'ECONNREFUSED');
    });

    test('a gated sandbox has traffic that the kernel does not forward even while the rules are flushed', async () => {
      execFileSync('nft', ['delete', 'table', 'inet', tableName(installation.config.installationId)]);
      const [open, gated] = await Promise.all([
        ask('sbx_open', 'udp', INTERNET.theirs),
        ask('sbx_gated', 'udp', INTERNET.theirs, PORT, IN_VAIN_MS),
      ]);
      // Its own address, as no masquerading hides it now, unless another installation's rules do.
      assert.match(open, /^198\.18\.|^203\.0\.113\.1$/);
      assert.match(gated, /^(TIMEOUT|E[A-Z]+)$/);
      await eventually(async () => (await ask('sbx_gated', 'tcp', INTERNET.theirs)) === 'egress', {
        because: 'the rules are back',
      });
    });
  });

  describe('with a denylist', () => {
    const denied = '203.0.113.99';

    before(async () => {
      const network = { mode: 'denylist', hosts: ['example.com', denied] } as const;
      await hostd.launch('sbx_deny', await makeSpec(installation.config, { ...network, hosts: [...network.hosts] }));
    });

    test('a gated sandbox with a denylist sends datagrams, by an address of the host, and none to a denied address', async () => {
      assert.equal(await ask('sbx_deny', 'udp', INTERNET.theirs), INTERNET.ours);
      assert.equal(await ask('sbx_deny', 'tcp', INTERNET.theirs), 'egress');
      assert.equal(await ask('sbx_deny', 'udp', INTERNET.theirs, 53), 'egress');
      assert.deepEqual(senders(), [`${addressOf('sbx_deny')}`, `${addressOf('sbx_deny')} . ${denied}`]);
    });

    test('a gated sandbox with a denylist sends no TCP, no look-ups and nothing to closed ranges while the rules are flushed', async () => {
      execFileSync('nft', ['delete', 'table', 'inet', tableName(installation.config.installationId)]);
      const refused = /^(TIMEOUT|E[A-Z]+)$/;
      const ways = [
        ['tcp', INTERNET.theirs, PORT],
        ['udp', INTERNET.theirs, 53],
        ['udp', addressOf('sbx_open'), PORT],
      ] as const;
      const answers = await Promise.all(ways.map(([kind, to, port]) => ask('sbx_deny', kind, to, port, IN_VAIN_MS)));
      for (const answer of answers) assert.match(answer, refused);
      await eventually(async () => (await ask('sbx_deny', 'tcp', INTERNET.theirs)) === 'egress', {
        because: 'the rules are back',
      });
      assert.equal(await ask('sbx_deny', 'udp', INTERNET.theirs), INTERNET.ours);
    });

    test('a gated sandbox with a denylist sends datagrams again when hostd was killed and started again, with the same addresses denied', async () => {
      const before = senders();
      await hostd.kill();
      hostd = await HostdProcess.start(installation);
      assert.deepEqual(senders(), before);
      assert.equal(await ask('sbx_deny', 'udp', INTERNET.theirs), INTERNET.ours);
    });

    test('a gated sandbox with a denylist is removed from the rules when it is stopped', async () => {
      await hostd.stop('sbx_deny');
      await eventually(() => senders().length === 0, { because: 'it is not listed' });
    });

    /** Returns the elements of the sets, which are the same in the rules and in the guard table. */
    function senders(): string[] {
      const { installationId } = installation.config;
      const tables = [tableName(installationId), guardTableName(installationId, hostd.pid)];
      const [inRules = [], inGuard = []] = tables.map((table) =>
        ['datagram_senders', 'denied_to_senders'].flatMap((set) => {
          const shown = execFileSync('nft', ['list', 'set', 'inet', table, set], { encoding: 'utf8' });
          return /elements = \{ ([^}]*) \}/.exec(shown)?.[1]?.split(/,\s+/) ?? [];
        }),
      );
      assert.deepEqual(inGuard, inRules);
      return inRules;
    }
  });

  test("trusts egress and the host's authorities; others do not trust egress", async () => {
    const trusted = async (id: string) =>
      (await runInside(installation.config, id, 'cat /etc/ssl/certs/ca-certificates.crt')).stdout;
    assert.ok((await trusted('sbx_gated')).endsWith(egress.certificate));
    assert.equal(
      (await trusted('sbx_gated')).replace(egress.certificate, '').trim(),
      (await trusted('sbx_open')).trim(),
    );
  });

  test('a gated sandbox has its policy enforced before it has a link', async () => {
    let linksThen: string[] = [];
    egress.onPut = () => {
      linksThen = gatedLinks();
    };
    const linksBefore = gatedLinks();
    await launchGated('sbx_order');
    egress.onPut = () => {};
    assert.deepEqual(linksThen, linksBefore);
    assert.equal(gatedLinks().length, linksBefore.length + 1);
    const address = addressOf('sbx_order');
    await hostd.stop('sbx_order');
    assert.equal(egress.sandboxes.has(address), false);
  });

  test('a gated sandbox is not launched when egress refuses its policy, and nothing is left', async () => {
    egress.onPut = () => {
      throw new Error('no such policy');
    };
    const leftovers = instanceLeftovers(installation.config);
    const { status, body } = await launchGated('sbx_refused');
    egress.onPut = () => {};
    assert.deepEqual([status, body.error.code], [500, 'launch_failed']);
    assert.deepEqual(instanceLeftovers(installation.config), leftovers);
    assert.equal(
      [...egress.sandboxes.values()].some(({ sandboxId }) => sandboxId === 'sbx_refused'),
      false,
    );
  });

  describe('when egress dies', () => {
    test('a gated sandbox when egress dies has no network until egress is back', async () => {
      await egress.stop();
      assert.equal(await ask('sbx_gated', 'tcp', INTERNET.theirs), 'ECONNREFUSED');
      assert.match(await ask('sbx_gated', 'udp', INTERNET.theirs, 53, IN_VAIN_MS), /TIMEOUT|ECONNREFUSED/);
      await egress.start();
      await isTold('sbx_gated');
      assert.equal(await ask('sbx_gated', 'tcp', INTERNET.theirs), 'egress');
    });

    test('a gated sandbox when egress dies cannot be launched, and leaves nothing', async () => {
      await egress.stop();
      const leftovers = instanceLeftovers(installation.config);
      const { status, body } = await launchGated('sbx_late');
      assert.deepEqual([status, body.error.code], [422, 'network_mode_unsupported']);
      assert.deepEqual(instanceLeftovers(installation.config), leftovers);
      await egress.start();
      await isTold('sbx_gated');
    });

    test('a gated sandbox when egress dies is launched after egress is back, if that is soon', async () => {
      await egress.stop();
      const launched = launchGated('sbx_soon');
      // After some failed attempts of hostd to reach it.
      setTimeout(() => void egress.start(), 400);
      assert.equal((await launched).status, 200);
      assert.equal((await hostd.stop('sbx_soon')).status, 200);
    });

    test('a gated sandbox when egress dies and is stopped, is not registered with the next egress', async () => {
      await launchGated('sbx_gone');
      const address = addressOf('sbx_gone');
      await egress.stop();
      assert.equal((await hostd.stop('sbx_gone')).status, 200);
      await egress.start();
      await isTold('sbx_gated');
      assert.equal(egress.sandboxes.has(address), false);
    });
  });

  test('a gated sandbox is known to egress when hostd is killed and started again, and is swept away when it died meanwhile', async () => {
    await launchGated('sbx_died');
    const address = addressOf('sbx_died');
    await hostd.kill();
    process.kill(initPid(installation.config, 'sbx_died'), 'SIGKILL');
    egress.sandboxes.clear();
    hostd = await HostdProcess.start(installation);
    await isTold('sbx_gated');
    assert.equal(egress.sandboxes.has(address), false);
    assert.equal(await ask('sbx_gated', 'tcp', INTERNET.theirs), 'egress');
  });

  test('a gated sandbox has an address that was not used just before, and keeps link and policy when a dead instance is removed', async () => {
    await launchGated('sbx_before');
    const address = addressOf('sbx_before');
    const links = gatedLinks();
    process.kill(initPid(installation.config, 'sbx_before'), 'SIGKILL');
    await eventually(() => gatedLinks().length < links.length, { because: 'its link is gone' });
    await launchGated('sbx_after');
    assert.notEqual(addressOf('sbx_after'), address);
    const linksAfter = gatedLinks();
    assert.equal((await hostd.stop('sbx_before')).status, 200);
    assert.deepEqual(gatedLinks(), linksAfter);
    await isTold('sbx_after');
    assert.equal(await ask('sbx_after', 'tcp', INTERNET.theirs), 'egress');
  });

  function gatedLinks(): string[] {
    return readdirSync('/sys/class/net').filter((name) => name.startsWith(`ce${installation.config.installationId}`));
  }
});

async function makeInternet(ended: (() => void)[]): Promise<void> {
  const { namespace, link, ours, theirs } = INTERNET;
  const ip = (...args: string[]) => execFileSync('ip', args);
  ip('netns', 'add', namespace);
  ended.push(() => ip('netns', 'delete', namespace));
  ip('link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', namespace);
  ip('addr', 'add', `${ours}/32`, 'peer', `${theirs}/32`, 'dev', link);
  ip('link', 'set', link, 'up');
  ip('-n', namespace, 'addr', 'add', `${theirs}/32`, 'peer', `${ours}/32`, 'dev', 'eth0');
  for (const name of ['lo', 'eth0']) ip('-n', namespace, 'link', 'set', name, 'up');
  ip('-n', namespace, 'route', 'add', '198.18.0.0/16', 'via', ours, 'dev', 'eth0');

  const served = `${SERVE} setTimeout(() => console.log('listening'), 100)`;
  const server = spawn('ip', ['netns', 'exec', namespace, process.execPath, '-e', served]);
  ended.unshift(() => server.kill());
  await once(server.stdout, 'data');
}
