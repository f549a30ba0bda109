/** Holds E2B's protocol to clients that leave halfway, send too much, or may not do what they ask for. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { constants, gzipSync } from 'node:zlib';
import { eventually } from '@cloche/testkit/eventually';
import { Sandbox } from '@e2b/code-interpreter';
import { RateLimitError } from 'e2b';
import { type E2bOptions, e2bOptions, LASTING } from '../support/e2b-options.ts';
import { sharedService, type TestService } from '../support/service.ts';

const BOX = '49983';
const INTERPRETER = '49999';
const STREAM = 'application/connect+json';

let service: TestService;
let options: E2bOptions;
before(async () => {
  service = await sharedService();
  options = e2bOptions(service);
});
after(() => service?.close());

function headersOf(sandbox: Sandbox, port: string, type = 'application/json'): Record<string, string> {
  const { envdAccessToken } = sandbox as unknown as { envdAccessToken: string };
  return {
    'e2b-sandbox-id': sandbox.sandboxId,
    'e2b-sandbox-port': port,
    'x-access-token': envdAccessToken,
    'content-type': type,
  };
}

/** Begins a request whose body the caller writes. It fails when the caller leaves. */
function begin(path: string, headers: Record<string, string>): ClientRequest {
  const begun = request(options.sandboxUrl + path, { method: 'POST', headers });
  begun.on('error', () => undefined);
  return begun;
}

/** A frame of Connect. `announced`: the length that its head gives. */
function frame(message: object, announced?: number): Buffer {
  const text = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(announced ?? text.length, 1);
  return Buffer.concat([head, text]);
}

describe('a client of E2B that leaves', () => {
  let sandbox: Sandbox;
  before(async () => {
    sandbox = await Sandbox.create({ ...options, ...LASTING });
  });
  after(() => sandbox?.kill());

  it('in the middle of a frame of input has sent what was whole, and the process goes on', async () => {
    let seen = '';
    const line = 'read -r a; echo "first $a"; read -r b; echo "then $b"';
    const command = await sandbox.commands.run(line, {
      background: true,
      stdin: true,
      onStdout: (text) => {
        seen += text;
      },
    });
    const input = (text: string) => ({ data: { input: { stdin: Buffer.from(text).toString('base64') } } });
    const sent = begin('/process.Process/StreamInput', headersOf(sandbox, BOX, STREAM));
    sent.write(frame({ start: { process: { pid: command.pid } } }));
    sent.write(frame(input('whole\n')));
    sent.write(frame(input('cut off\n'), 1000));
    await eventually(() => seen === 'first whole\n');
    sent.destroy();
    await sandbox.commands.sendStdin(command.pid, 'another\n');
    assert.equal((await command.wait()).stdout, 'first whole\nthen another\n');
  });

  const NAMED = 'content-disposition: form-data; name="file"; filename="/home/user/up/kept"';
  const HALVES = {
    'plain bytes': { 'content-type': 'application/octet-stream', body: 'half' },
    gzip: {
      'content-type': 'application/octet-stream',
      'content-encoding': 'gzip',
      body: gzipSync('half', { finishFlush: constants.Z_SYNC_FLUSH }),
    },
    'a form': { 'content-type': 'multipart/form-data; boundary=X', body: `--X\r\n${NAMED}\r\n\r\nhalf` },
  };
  for (const [name, { body, ...headers }] of Object.entries(HALVES)) {
    it(`in the middle of an upload of ${name} leaves the file as it was, and no temporary one`, async () => {
      await sandbox.files.write('up/kept', 'as it was');
      const files = async () => (await sandbox.commands.run('ls -A up')).stdout.trim().split('\n');
      const sent = begin('/files?path=up/kept', { ...headersOf(sandbox, BOX), ...headers, 'content-length': '1000' });
      sent.write(body);
      await eventually(async () => (await files()).length === 2);
      sent.destroy();
      await eventually(async () => (await files()).join() === 'kept');
      assert.equal(await sandbox.files.read('up/kept'), 'as it was');
      await sandbox.files.write('up/kept', 'the next one');
      assert.equal(await sandbox.files.read('up/kept'), 'the next one');
    });
  }

  it('while its code runs ends the run, and its context can be used', async () => {
    const sent = begin('/execute', headersOf(sandbox, INTERPRETER));
    sent.end(JSON.stringify({ code: 'kept = 5\nprint("begun", flush=True)\nimport time; time.sleep(600)' }));
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    let text = '';
    for await (const chunk of answer) {
      text += chunk;
      if (text.includes('begun')) break;
    }
    sent.destroy();
    assert.equal((await sandbox.runCode('kept + 1', { requestTimeoutMs: 60_000 })).text, '6');
  });

  it('a client of E2B that leaves before the end of its JSON changes nothing', async () => {
    const sent = begin('/execute', { ...headersOf(sandbox, INTERPRETER), 'content-length': '1000' });
    sent.write('{"code":"left = 1');
    // The server has read it when it has answered a later request of the same sandbox.
    await sandbox.runCode('1');
    sent.destroy();
    assert.equal((await sandbox.runCode('left')).error?.name, 'NameError');
  });
});

describe('through E2B’s protocol hold', () => {
  it('the limit of requests, with the seconds to wait, in every part of it', async () => {
    const org = await service.createOrg('e2b-rate');
    const own = { ...options, apiKey: await service.createKey({ org, scopes: ['*'] }) };
    const sandbox = await Sandbox.create({ ...own, ...LASTING });
    await service.limitOrg(org, { requestsPerMinute: 1 });
    // A request is let through before the limit is in force, and again a minute after another one was.
    const refused = (send: () => Promise<Response>) =>
      eventually(async () => {
        const { status, headers } = await send();
        return status === 429 && /^[1-9]\d*$/.test(headers.get('retry-after') ?? '');
      });
    const control = () => fetch(`${options.apiUrl}/v2/sandboxes`, { headers: { 'x-api-key': own.apiKey } });
    const box = (path: string, port: string) =>
      fetch(options.sandboxUrl + path, { method: 'POST', headers: headersOf(sandbox, port), body: '{"code":"1"}' });
    await refused(control);
    await refused(() => box('/process.Process/List', BOX));
    await refused(() => box('/execute', INTERPRETER));
    const listed = () => Sandbox.list(own).nextItems();
    await eventually(async () => (await listed().catch((error) => error)) instanceof RateLimitError);
    await service.limitOrg(org, { requestsPerMinute: null });
    await eventually(async () => (await control()).status === 200);
    await sandbox.kill();
  });

  it('the scopes of the key, for files, commands and code', async () => {
    const sandbox = await Sandbox.create({ ...options, ...LASTING });
    const reading = { ...options, apiKey: await service.createKey({ scopes: ['sandbox:read', 'file:read'] }) };
    const reader = await Sandbox.connect(sandbox.sandboxId, reading);
    await sandbox.files.write('kept', 'as it was');
    assert.equal(await reader.files.read('kept'), 'as it was');
    await assert.rejects(reader.files.write('kept', 'changed'), /file:write/);
    await assert.rejects(reader.files.remove('kept'), /file:write/);
    await assert.rejects(reader.files.makeDir('made'), /file:write/);
    await assert.rejects(reader.commands.run('rm kept'), /command:run/);
    await assert.rejects(reader.runCode('1'), /403/);
    await assert.rejects(reader.createCodeContext(), /403/);
    await assert.rejects(reader.setTimeout(900_000), /sandbox:extend/);
    await assert.rejects(reader.kill(), /sandbox:kill/);
    assert.equal(await sandbox.files.read('kept'), 'as it was');
    await sandbox.kill();
  });
});
