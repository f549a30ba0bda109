import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { describe, it } from 'node:test';
import { createServer as createTlsServer } from 'node:tls';
import { ERRORS, type ErrorCode } from '@cloche/contract';
import { ClocheError } from '@cloche/sdk';
import { recordedOutput, runInProcess } from '../testing/run-in-process.ts';
import { inWordsOf } from './error-words.ts';
import { buildProgram } from './program.ts';
import { reportError } from './report-error.ts';
import { unreachableWords } from './unreachable-words.ts';

/** Returns what a person reads when the service refuses `cloche …` so. */
async function shown(line: string, code: ErrorCode, message: string, details?: object): Promise<string> {
  const { output, text } = recordedOutput(false);
  const terminal = { out: output, err: output };
  const names = line.split(' ');
  let command = await buildProgram('1', names, terminal);
  for (const name of names) command = command.commands.find((each) => each.name() === name) ?? command;
  const error = new ClocheError(code, message, { status: 400, requestId: 'req_1', ...(details && { details }) });
  await reportError(inWordsOf(command, error), false, terminal);
  return text();
}

const issue = (path: string, message: string) => ({ issues: [{ path, message }] });

describe('an error of the service', () => {
  it('an error of the service has a next step, no field of the request, and few lines, whatever its code', async () => {
    for (const [code, { summary }] of Object.entries(ERRORS)) {
      const details = code === 'invalid_request' ? issue('body.ttlMs', 'must be at least 1000') : undefined;
      const text = await shown('sandbox create', code as ErrorCode, summary, details);
      assert.match(text, /^error: .+\n$/, code);
      assert.doesNotMatch(text, /\b(?:body|query|params|headers)\.\w/, code);
      assert.match(text, /`|--\w|Repeat|Wait|Change|; /, `${code}: ${text}`);
    }
  });

  it('an error of the service names options, arguments and durations as the command has them', async () => {
    for (const [line, path, message, expected] of [
      ['sandbox create', 'body.ttlMs', 'must be at least 1000', '--ttl must be at least 1 s'],
      ['sandbox create', 'body.idleTimeoutMs', 'must be at most 86400000 (1 day)', '--idle must be at most 1 d'],
      ['sandbox create', 'body.pause.afterIdleMs', 'must be at least 1000', '--pause-after must be at least 1 s'],
      ['sandbox create', 'body.pause.retainMs', 'must be at most 60000', '--retain must be at most 1 min'],
      ['sandbox create', 'body.resources.memoryMb', 'must be at most 512', '--memory must be at most 512'],
      ['sandbox create', 'body.resources.cpu', 'must be at most 2', '--cpu must be at most 2'],
      ['sandbox create', 'body.networkPolicy.hosts.0', 'is no host', '--network is no host'],
      ['sandbox create', 'body.secrets', 'has too many variables', '--secret has too many variables'],
      ['sandbox create', 'body.templateVersionId', 'is unknown', '--template-version is unknown'],
      ['sandbox create', 'body.projectId', 'is no id', '--project is no id'],
      ['sandbox create', 'body.metadata.team', 'is too long', '--metadata is too long'],
      ['sandbox get', 'params.sandboxId', 'is no id', '<sandbox> is no id'],
      ['sandbox ttl', 'body.ttlMs', 'must be at most 86400000', '<duration> must be at most 1 d'],
      ['job run', 'body.timeoutMs', 'must be at most 86400000', '--timeout must be at most 1 d'],
      ['job run', 'body.artifacts.1', 'is no pattern', '--artifact is no pattern'],
      ['job run', 'body.cwd', 'is outside', '--cwd is outside'],
      ['webhook create', 'body.url', 'must be a URL', '<url> must be a URL'],
      ['webhook update', 'body.url', 'must be a URL', '--to must be a URL'],
      ['artifact list', 'query.limit', 'must be at most 1000', '--limit must be at most 1000'],
      ['key create', 'body.projectIds.0', 'is no id', '--projects is no id'],
      ['key create', 'body.name', 'is too long', '<name> is too long'],
      ['sandbox create', 'body.unknown', 'is wrong', 'unknown is wrong'],
    ] as const) {
      const text = await shown(line, 'invalid_request', 'x', issue(path, message));
      assert.equal(text, `error: ${expected}\n`, `${line} ${path}`);
    }
  });

  it('an error of the service replaces the fields and words of a message that has no list of fields', async () => {
    const longer = 'body.ttlMs must be at most 3600000 (1 hour) at creation; extend the sandbox later for more.';
    assert.equal(
      await shown('sandbox create', 'sandbox_ttl_exceeded', longer),
      'error: --ttl must be at most 1 h at creation; extend the sandbox later for more.\n',
    );
    assert.equal(
      await shown('job get', 'not_found', 'There is no workspace run "wrun_x" that this key can see.', {
        resource: 'workspace_run',
      }),
      'error: There is no job "wrun_x" that this key can see. `cloche job list` shows what there is.\n',
    );
  });

  it('an error of the service is the answer of the service with --json', async () => {
    const { output, text } = recordedOutput(false);
    const error = new ClocheError('invalid_request', 'body.ttlMs is wrong', { status: 400, requestId: 'req_1' });
    const program = await buildProgram('1', ['sandbox'], { out: output, err: output });
    await reportError(inWordsOf(program, error), true, { out: output, err: output });
    const expected = { code: 'invalid_request', message: 'ttlMs is wrong', requestId: 'req_1' };
    assert.deepEqual(JSON.parse(text()).error, expected);
  });
});

describe('a service that cannot be reached', () => {
  const failureOf = async (url: string) =>
    (await runInProcess(['sandbox', 'get', 'sbx_1', '--url', url, '--api-key', 'k'])).stderr;

  it('a service that cannot be reached says what answers in its place', { timeout: 60_000 }, async () => {
    const [http, tls] = [createHttpServer(), createTlsServer()];
    tls.on('tlsClientError', () => undefined);
    for (const server of [http, tls]) await once(server.listen(0, '127.0.0.1'), 'listening');
    const [plain, secure] = [http, tls].map((server) => (server.address() as AddressInfo).port);
    try {
      assert.match(
        await failureOf(`https://127.0.0.1:${plain}`),
        /: it speaks plain HTTP there; use http:\/\/ in place/,
      );
      assert.match(await failureOf(`http://127.0.0.1:${secure}`), /; if it uses TLS, write https:\/\/ in place/);
    } finally {
      for (const server of [http, tls]) server.close();
    }
  });

  it('a service that cannot be reached tells to start one only on this machine', async () => {
    const free = createServer().listen(0, '127.0.0.1');
    await once(free, 'listening');
    const { port } = free.address() as AddressInfo;
    free.close();
    await once(free, 'close');
    assert.match(
      await failureOf(`http://127.0.0.1:${port}`),
      /\(ECONNREFUSED\): nothing listens there; start it with `/,
    );
    const refused = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
    for (const url of ['http://cloche.example.com', 'http://192.0.2.1:4680', 'http://[2001:db8::1]:4680', 'nonsense'])
      assert.match(unreachableWords(url, { cause: refused }, 'npm start'), /listens there; check the address that you/);
    for (const url of ['http://localhost:1', 'http://a.localhost', 'http://[::1]:1', 'https://127.0.0.2'])
      assert.match(unreachableWords(url, { cause: refused }, 'npm start'), /; start it with `npm start`, or give/);
  });

  it('a service that cannot be reached explains a certificate, a name and a route', () => {
    const words = (code: string) =>
      unreachableWords('https://cloche.example.com', { cause: Object.assign(new Error(''), { code }) }, 'npm start');
    for (const [code, expected] of [
      ['DEPTH_ZERO_SELF_SIGNED_CERT', /NODE_EXTRA_CA_CERTS/],
      ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', /NODE_EXTRA_CA_CERTS/],
      ['CERT_HAS_EXPIRED', /has expired/],
      ['ERR_TLS_CERT_ALTNAME_INVALID', /another name/],
      ['ENOTFOUND', /no host of that name; check the address/],
      ['EAI_AGAIN', /cannot be resolved now/],
      ['UND_ERR_CONNECT_TIMEOUT', /does not answer/],
      ['EHOSTUNREACH', /no route to it/],
      ['ESOMETHING', /\(ESOMETHING\); check the address/],
    ] as const)
      assert.match(words(code), expected, code);
  });
});
