/** Enumerates what each failure of a request to an agent becomes. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { FinalError } from '@cloche/node-support';
import { AGENT_ERROR_CODES, type AgentErrorCode, HEAD_PAUSING } from '@cloche/protocol';
import { FileError } from '../driver/agent-files.ts';
import { AgentError } from '../driver/runtime-driver.ts';
import { fileRefusal, headRefusal, type RequestGroup, refusal, toAgentError } from './agent-errors.ts';
import { MalformedResponseError } from './bounded-body.ts';

type Kind = AgentError['kind'];

const GROUPS: readonly RequestGroup[] = ['contexts', 'commands', 'upgrades', 'files'];
const never = new AbortController().signal;

describe('an error code of the agent', () => {
  const expected: Record<AgentErrorCode, Partial<Record<RequestGroup, Kind>>> = {
    invalid_cwd: { contexts: 'invalid_cwd', commands: 'invalid_cwd' },
    not_found: { contexts: 'not_found', commands: 'not_found', upgrades: 'not_found' },
    conflict: { contexts: 'conflict', commands: 'conflict' },
    language_unavailable: { contexts: 'language_unavailable' },
    kernel_failed: { contexts: 'kernel_failed' },
    process_limit: { contexts: 'process_limit' },
    timeout: { contexts: 'timeout', commands: 'timeout' },
    queue_full: { contexts: 'busy', commands: 'busy', upgrades: 'busy' },
    port_closed: { upgrades: 'port_closed' },
    unusable: { contexts: 'unusable', commands: 'unusable', upgrades: 'unusable' },
    running: { contexts: 'conflict' },
    pausing: { contexts: 'pausing', commands: 'pausing', upgrades: 'pausing', files: 'pausing' },
    bad_request: {},
    internal: {},
  };
  for (const code of AGENT_ERROR_CODES) {
    it(`${code} has a kind for the requests that it can refuse, and is internal for others`, () => {
      for (const group of GROUPS) {
        assert.equal(refusal({ code, message: 'why' }, group).kind, expected[code][group] ?? 'internal', group);
      }
    });
  }

  it('an error code of the agent that does not exist is internal, and its message is cut', () => {
    for (const code of ['', 'constructor', '__proto__', 'gone']) {
      for (const group of GROUPS) assert.equal(refusal({ code, message: '' }, group).kind, 'internal');
    }
    assert.equal(refusal({ code: 'timeout', message: 'x'.repeat(1000) }, 'contexts').message.length, 500);
  });
});

describe('a failure of the connection', () => {
  const failures: [name: string, error: unknown, kind: Kind, kindForFiles: Kind][] = [
    ...[
      'ECONNREFUSED',
      'ECONNRESET',
      'ENOENT',
      'EPIPE',
      'ENOTSOCK',
      'UND_ERR_SOCKET',
      'UND_ERR_CONNECT_TIMEOUT',
      'UND_ERR_DESTROYED',
      'UND_ERR_CLOSED',
    ].map((code): [string, unknown, Kind, Kind] => [code, Object.assign(new Error('x'), { code }), 'gone', 'gone']),
    ['a malformed body', new MalformedResponseError('x'), 'misbehaved', 'misbehaved'],
    ['a response that is not HTTP', Object.assign(new Error('x'), { code: 'HPE_INVALID' }), 'misbehaved', 'gone'],
    ['any other error', 'x', 'misbehaved', 'gone'],
  ];
  for (const [name, error, kind, kindForFiles] of failures) {
    it(`a failure of the connection by ${name} has a kind`, () => {
      for (const group of GROUPS) {
        const converted = toAgentError(error, never, group);
        assert.ok(converted instanceof AgentError);
        assert.equal(converted.kind, group === 'files' ? kindForFiles : kind, group);
        assert.equal(converted.cause, error);
      }
    });
  }

  it('a failure of the connection to an agent whose queue of connections is full is not blamed on the agent', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'cloche-full-queue-'));
    const path = join(folder.path, 'agent.sock');
    const listen =
      'import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(0); print(flush=True); sys.stdin.read()';
    const agent = spawn('python3', ['-c', listen, path], { stdio: ['pipe', 'pipe', 'inherit'] });
    const clients: Socket[] = [];
    try {
      await once(agent.stdout, 'data');
      let error: NodeJS.ErrnoException | undefined;
      while (!error && clients.length < 8) {
        const client = connect(path);
        clients.push(client);
        error = await once(client, 'connect').then(
          () => undefined,
          (failure) => failure,
        );
      }
      assert.equal(error?.code, 'EAGAIN');
      for (const group of GROUPS) assert.equal((toAgentError(error, never, group) as AgentError).kind, 'gone', group);
    } finally {
      for (const client of clients) client.destroy();
      agent.stdin.end();
      await once(agent, 'exit');
    }
  });

  it('after an abort is the reason of the abort, and a converted error stays as it is', () => {
    const reason = new Error('left');
    const aborted = AbortSignal.abort(reason);
    for (const group of GROUPS) {
      assert.equal(toAgentError(new Error('x'), aborted, group), reason);
      for (const error of [new AgentError('busy', 'x'), new FileError('conflict', 'x'), new FinalError('x')]) {
        assert.equal(toAgentError(error, aborted, group), error);
      }
    }
  });
});

describe('a refusal about a file', () => {
  it('a refusal about a file with any other code is an internal failure of the agent', () => {
    for (const code of ['internal', 'queue_full', 'constructor']) {
      const error = fileRefusal({ code, message: 'why' }, undefined);
      assert.ok(error instanceof AgentError);
      assert.equal(error.kind, 'internal');
    }
  });

  it('a refusal about a file to HEAD has an error by its status alone', () => {
    const rows: [status: number, kind: FileError['kind'], message: string][] = [
      [400, 'invalid_path', 'is invalid: give a non-empty path of at most 4096 bytes without NUL'],
      [403, 'permission_denied', 'This user of the sandbox has no permission for the file.'],
      [404, 'not_found', 'The file does not exist.'],
      [412, 'precondition_failed', 'The file has a different ETag.'],
      [416, 'range_not_satisfiable', 'The range begins after the end of the file.'],
      [409, 'conflict', 'The file cannot be read.'],
      [500, 'conflict', 'The file cannot be read.'],
    ];
    for (const [status, kind, message] of rows) {
      const error = headRefusal(status, 7);
      assert.ok(error instanceof FileError);
      assert.deepEqual([error.kind, error.message, error.details], [kind, message, { sizeBytes: 7 }]);
    }
  });

  it('a refusal about a file to HEAD by a closed gate is one of the agent', () => {
    assert.equal(headRefusal(HEAD_PAUSING, 7).kind, 'pausing');
  });
});
