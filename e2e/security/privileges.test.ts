import assert from 'node:assert/strict';
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { runPaths } from '@cloche/layout';
import { execa } from 'execa';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
let sandboxId: string;
before(async () => {
  service = await sharedService();
  sandboxId = (await service.api.readySandbox()).id;
});
after(() => service?.close());

const NO_CAPABILITY = '0000000000000000';

function statusOf(pid: number): Record<string, string> {
  const lines = readFileSync(`/proc/${pid}/status`, 'utf8').trim().split('\n');
  return Object.fromEntries(lines.map((line) => line.split(/:\s*/, 2)));
}

describe('the parts that strangers talk to', () => {
  for (const part of ['server', 'egress'] as const) {
    it(`${part} runs without root and capabilities, and can gain none`, () => {
      const status = statusOf(service.pid(part));
      for (const ids of [status.Uid, status.Gid]) assert.match(ids ?? '', /^([1-9]\d*)(\t\1){3}$/);
      for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
        assert.equal(status[set], NO_CAPABILITY, set);
      assert.equal(status.NoNewPrivs, '1');
      assert.equal(status.Groups?.trim(), '');
    });

    it(`${part} cannot write the code that it runs, nor see what hostd keeps`, async () => {
      const code = readlinkSync(`/proc/${service.pid(part)}/cwd`);
      assert.equal(await asServiceUser(part, ['touch', join(code, 'package.json')]), false);
      assert.equal(await asServiceUser(part, ['ls', join(service.dataDir, 'hostd')]), false);
      assert.equal(await asServiceUser(part, ['ls', code]), true);
    });
  }

  it('differ in this from hostd, which is root and hides its mounts', () => {
    const status = statusOf(service.pid('hostd'));
    assert.notEqual(status.CapEff, NO_CAPABILITY);
    const namespaces = (['hostd', 'server', 'egress'] as const).map((part) =>
      readlinkSync(`/proc/${service.pid(part)}/ns/mnt`),
    );
    assert.equal(new Set([...namespaces, readlinkSync('/proc/self/ns/mnt')]).size, 4);
  });

  it('hold no descriptor of root: no disk, no sandbox folder, no database but their own', () => {
    const folder = `/proc/${service.pid('server')}/fd`;
    const files = readdirSync(folder).map((fd) => readlinkSync(join(folder, fd)));
    const foreign = files.filter((file) => file.startsWith('/') && !file.startsWith('/dev/'));
    assert.ok(foreign.length > 0);
    for (const file of foreign) assert.ok(file.startsWith(join(service.dataDir, 'server/')), file);
  });
});

describe('a gateway that has been taken over', () => {
  it("a gateway that has been taken over reaches neither the server's memory and database nor hostd", async () => {
    const { hostdSocket } = runPaths(service.runDir);
    const memory = `/proc/${service.pid('server')}/mem`;
    const attacks: Record<string, string[]> = {
      database: ['cat', join(service.dataDir, 'server/cloche.db')],
      memory: ['sh', '-c', `exec 3<${memory}`],
      hostd: ['curl', '-sSf', '-m', '5', '--unix-socket', hostdSocket, 'http://x/health'],
    };
    for (const [name, attack] of Object.entries(attacks)) {
      assert.equal(await asServiceUser('server', attack), true, `the server itself: ${name}`);
      assert.equal(await asServiceUser('egress', attack), false, name);
    }
  });
});

describe('the sockets', () => {
  const ask = (socket: string, path: string) => ['curl', '-sSf', '-m', '5', '--unix-socket', socket, `http://x${path}`];
  const asOtherUser = ['setpriv', '--reuid=54321', '--regid=54321', '--clear-groups'];
  const answers = async (command: string[]) =>
    (await execa(command[0] ?? '', command.slice(1), { reject: false })).exitCode === 0;

  it("the socket of hostd answers root and the server's user alone", async () => {
    const health = ask(runPaths(service.runDir).hostdSocket, '/health');
    assert.equal(await answers(health), true);
    assert.equal(await asServiceUser('server', health), true);
    assert.equal(await answers([...asOtherUser, ...health]), false);
  });

  it("the socket of an agent answers root and the server's user alone", async () => {
    const { instancesDir } = runPaths(service.runDir);
    const folder = join(instancesDir, service.instanceKey(sandboxId));
    const health = ask(join(folder, 'agent.sock'), '/health');
    assert.equal(await answers(health), true);
    assert.equal(await asServiceUser('server', health), true);
    assert.equal(await answers([...asOtherUser, ...health]), false);
    // A sandbox cannot replace the socket either: it does not own the folder.
    assert.equal(statSync(folder).uid, 0);
  });

  it('the socket of secrets answers the users of egress and of the server, and root, alone', async () => {
    const values = [...ask(runPaths(service.runDir).secretsSocket, '/values'), '-H', 'content-type: application/json'];
    const question = [...values, '-d', JSON.stringify({ sandboxId, questions: [] })];
    assert.equal(await answers(question), true);
    for (const part of ['server', 'egress'] as const) assert.equal(await asServiceUser(part, question), true, part);
    assert.equal(await answers([...asOtherUser, ...question]), false);
  });

  it('the socket of the operator answers root alone', async () => {
    const { operatorSocket } = runPaths(service.runDir);
    const orgs = ask(operatorSocket, '/orgs');
    const said = async (command: string[]) =>
      (
        await execa(
          command[0] ?? '',
          command.slice(1).filter((word) => word !== '-sSf'),
          { reject: false },
        )
      ).stdout;
    assert.match(await said(orgs), /^\{/);
    assert.equal(await said([...asOtherUser, ...orgs]), '');
  });
});

describe('hostd', () => {
  it('hostd takes no path and no unknown word from a caller', async () => {
    const socket = runPaths(service.runDir).hostdSocket;
    const put = async (path: string, body: unknown) => {
      const command = ['-sS', '-m', '10', '--unix-socket', socket, '--path-as-is', '-X', 'PUT', `http://x${path}`];
      const json = ['-H', 'content-type: application/json', '-d', JSON.stringify(body), '-w', '\n%{http_code}'];
      const lines = (await execa('curl', [...command, ...json])).stdout.split('\n');
      return Number(lines.at(-1));
    };
    const resources = { cpu: 1, memoryBytes: 64 << 20, diskBytes: 64 << 20, pids: 64 };
    const { templateVersionId } = (await service.api.get(`/v1/sandboxes/${sandboxId}`)).body.sandbox;
    const spec = { source: { kind: 'template', templateVersionId }, resources, network: { mode: 'deny-all' } };
    const lies: [string, unknown][] = [
      ['/instances/sbx_x/1', { ...spec, source: { kind: 'template', templateVersionId: '../../etc' } }],
      ['/instances/sbx_x/1', { ...spec, source: { kind: 'template', templateVersionId: 'tplv_../x' } }],
      ['/instances/sbx_x/1', { ...spec, rootfsDir: '/' }],
      ['/instances/sbx_x/1', { ...spec, resources: { ...resources, pids: 1e9 } }],
      ['/instances/sbx_x/1', { ...spec, resources: { ...resources, memoryBytes: '64' } }],
      ['/instances/sbx_x/1', { ...spec, network: { mode: 'host' } }],
      ['/instances/..%2F..%2Fetc/1', spec],
      ['/instances/sbx_x%2F..%2Fy/1', spec],
      ['/instances/sbx_x/1%00', spec],
      ['/instances/sbx_x/-1', spec],
    ];
    for (const [path, body] of lies) assert.equal(await put(path, body), 400, `${path} ${JSON.stringify(body)}`);
    // The control: the same message without the invalid part is accepted.
    assert.equal(await put('/instances/sbx_attackcontrol/1', spec), 200);
    await execa('curl', ['-sS', '--unix-socket', socket, '-X', 'DELETE', 'http://x/instances/sbx_attackcontrol/1']);
  });
});

/** Returns whether a command succeeds as the user of a service process, in that process's view of the machine. */
async function asServiceUser(part: 'server' | 'egress', command: readonly string[]): Promise<boolean> {
  const pid = service.pid(part);
  const { Uid = '', Gid = '' } = statusOf(pid);
  const drop = [
    `--reuid=${Uid.split('\t')[0]}`,
    `--regid=${Gid.split('\t')[0]}`,
    '--clear-groups',
    '--bounding-set=-all',
  ];
  const args = ['--target', String(pid), '--mount', 'setpriv', ...drop, '--no-new-privs', ...command];
  return (await execa('nsenter', args, { reject: false })).exitCode === 0;
}
