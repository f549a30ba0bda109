/** Enumerates what each failure of an agent becomes. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { AGENT_ERROR_CODES, AGENT_FILE_ERROR_CODES, type AgentErrorCode } from '@cloche/protocol';
import { AppError } from '../../platform/base/app-error.ts';
import { FileError } from '../driver/agent-files.ts';
import { AgentError, LaunchError } from '../driver/runtime-driver.ts';
import {
  fileError,
  fileRefusal,
  headRefusal,
  hostError,
  type OwnErrors,
  ownError,
  type RequestGroup,
  refusal,
  sandboxError,
  toAgentError,
  tooSlow,
  tunnelError,
} from './agent-errors.ts';
import { MalformedResponseError } from './bounded-body.ts';

type Kind = AgentError['kind'];

const GROUPS: readonly RequestGroup[] = ['contexts', 'commands', 'upgrades', 'files'];
const KINDS: Record<Kind, true> = {
  gone: true,
  misbehaved: true,
  invalid_cwd: true,
  not_found: true,
  conflict: true,
  language_unavailable: true,
  kernel_failed: true,
  process_limit: true,
  timeout: true,
  busy: true,
  port_closed: true,
  unusable: true,
  incompatible: true,
  internal: true,
};
const ALL_KINDS = Object.keys(KINDS) as Kind[];
const SANDBOX = { id: 'sbx_1', resources: { pids: 64 } };
const never = new AbortController().signal;

/** Code, status, seconds of `Retry-After`, message and details. */
type Row = readonly [string, number, number | undefined, string, object?];

function rowOf(error: AppError | undefined): Row | undefined {
  if (!error) return undefined;
  const { code, status, retryAfterSeconds, message, details } = error;
  return details === undefined
    ? [code, status, retryAfterSeconds, message]
    : [code, status, retryAfterSeconds, message, details];
}

function invalid(path: string, message: string): Row {
  return ['invalid_request', 400, undefined, `${path} ${message}`, { issues: [{ path, message }] }];
}

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

  it('that does not exist is internal, and its message is cut', () => {
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
    it(`by ${name} has a kind`, () => {
      for (const group of GROUPS) {
        const converted = toAgentError(error, never, group);
        assert.ok(converted instanceof AgentError);
        assert.equal(converted.kind, group === 'files' ? kindForFiles : kind, group);
        assert.equal(converted.cause, error);
      }
    });
  }

  it('to an agent whose queue of connections is full is not blamed on the agent', async () => {
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
      for (const error of [
        new AgentError('busy', 'x'),
        new FileError('conflict', 'x'),
        new AppError('conflict', 'x'),
      ]) {
        assert.equal(toAgentError(error, aborted, group), error);
      }
    }
  });
});

describe("the service's error", () => {
  const unusable = (why: string): Row => ['conflict', 409, undefined, `The sandbox cannot do this as it is: ${why}.`];
  const OTHERS: Row = ['unavailable', 503, 1, 'The operation failed inside the sandbox; try again.'];
  const expected: Partial<Record<Kind, Row>> = {
    gone: ['unavailable', 503, 1, 'The connection to the sandbox "sbx_1" broke; try again.'],
    invalid_cwd: invalid(
      'body.cwd',
      'must be an existing directory inside /workspace after symbolic links are followed',
    ),
    language_unavailable: invalid('body.language', "is not available in this sandbox's template"),
    timeout: ['unavailable', 503, 1, 'The interpreter did not start in time; try again with a larger timeoutMs.'],
    kernel_failed: [
      'unavailable',
      503,
      1,
      'The interpreter could not be started; if the sandbox is out of memory, delete a context or end processes.',
    ],
    process_limit: [
      'quota_exceeded',
      429,
      undefined,
      'The interpreter could not be started: the sandbox has reached its limit of processes and threads ' +
        '(resources.pids is 64); end some, or create a sandbox with a higher limit.',
      { quota: 'resources.pids', limit: 64, used: 64 },
    ],
    busy: ['unavailable', 503, 1, 'The sandbox has too many active and queued runs; try again when some have ended.'],
    port_closed: ['unavailable', 503, 1, 'No program listens on the port inside the sandbox.'],
    unusable: unusable('of the agent'),
    incompatible: [
      'sandbox_incompatible',
      409,
      undefined,
      'The sandbox "sbx_1" was launched by a version of the service that the server cannot work with. Create another ' +
        'one, or have the operator run a server of the version that launched it.',
    ],
  };
  for (const kind of ALL_KINDS) {
    it(`for ${kind} has its code, status, Retry-After and message`, () => {
      assert.deepEqual(rowOf(sandboxError(new AgentError(kind, 'of the agent'), SANDBOX)), expected[kind] ?? OTHERS);
    });
  }

  it('is never `internal`, whatever an agent answers', () => {
    for (const code of [...AGENT_ERROR_CODES, 'made up']) {
      for (const group of GROUPS) {
        const { code: answered } = sandboxError(refusal({ code, message: '' }, group), SANDBOX);
        assert.notEqual(answered, 'internal', `${code} of ${group}`);
      }
    }
  });

  const noTerminal: Row = [
    'not_found',
    404,
    undefined,
    'There is no terminal "pty_1" that this key can see.',
    { resource: 'terminal' },
  ];
  const own: Record<OwnErrors, Partial<Record<Kind, Row>>> = {
    command: {
      invalid_cwd: invalid('body.cwd', 'must be an existing directory that the user may enter'),
      busy: ['unavailable', 503, 1, 'The sandbox has too many running commands; end some.'],
      unusable: unusable('x'),
    },
    stdin: {
      conflict: [
        'conflict',
        409,
        undefined,
        'The command has ended or its standard input is closed; create the command with stdinOpen to write to it.',
      ],
      timeout: [
        'unavailable',
        503,
        5,
        'The command does not read its standard input. The data is buffered; send more when the command reads again.',
      ],
    },
    resize: {
      conflict: [
        'conflict',
        409,
        undefined,
        'The command has ended or has no terminal; create the command with terminal to resize it.',
      ],
    },
    newTerminal: {
      not_found: noTerminal,
      busy: ['unavailable', 503, 1, 'The sandbox has too many open terminals; close one.'],
    },
    openTerminal: {
      not_found: noTerminal,
      busy: ['unavailable', 503, 1, 'The terminal has its maximum number of clients; disconnect one.'],
    },
  };
  for (const [request, rows] of Object.entries(own) as [OwnErrors, Partial<Record<Kind, Row>>][]) {
    it(`of ${request} replaces the common one for some kinds only`, () => {
      for (const kind of ALL_KINDS) {
        assert.deepEqual(rowOf(ownError(request, new AgentError(kind, 'x'), 'pty_1')), rows[kind], kind);
      }
      assert.equal(ownError(request, new Error('x')), undefined);
    });
  }

  it('for the visitor of a preview names the port', () => {
    const rows: Partial<Record<Kind, readonly [string, string]>> = {
      port_closed: [
        'preview_port_closed',
        'No program listens on port 80 inside the sandbox. Start a server on this port.',
      ],
      busy: ['preview_busy', 'The sandbox has too many connections to its ports; close some.'],
    };
    for (const kind of ALL_KINDS) assert.deepEqual(tunnelError(new AgentError(kind, 'x'), 80), rows[kind], kind);
  });

  it('for a time limit and for the host may be retried', () => {
    assert.deepEqual(rowOf(tooSlow(10_000, undefined)), [
      'unavailable',
      503,
      1,
      'The sandbox did not respond within 10 seconds; try again.',
    ]);
    assert.deepEqual(rowOf(hostError(new LaunchError('unreachable', 'x'))), [
      'unavailable',
      503,
      1,
      'The host of the sandbox does not respond; try again.',
    ]);
  });
});

describe('a refusal about a file', () => {
  const expected: Record<(typeof AGENT_FILE_ERROR_CODES)[number], Row> = {
    permission_denied: ['permission_denied', 403, undefined, 'why', { path: '/a' }],
    not_found: ['not_found', 404, undefined, 'why'],
    conflict: ['conflict', 409, undefined, 'why'],
    precondition_failed: ['precondition_failed', 412, undefined, 'why'],
    range_not_satisfiable: ['range_not_satisfiable', 416, undefined, 'why', { sizeBytes: 5 }],
    disk_full: ['disk_full', 507, undefined, 'why'],
    invalid_path: invalid('path', 'why'),
    too_many: invalid('path', 'why'),
    bad_archive: invalid('body', 'cannot be unpacked: why. Nothing was written; send a corrected archive'),
  };
  for (const code of AGENT_FILE_ERROR_CODES) {
    it(`with ${code} has the code, status, message and details of the service`, () => {
      const error = fileRefusal({ code, message: 'why', path: '/a' }, 5);
      assert.ok(error instanceof FileError);
      assert.deepEqual(rowOf(fileError(error)), expected[code]);
    });
  }

  it('names the field of the request that has the path', () => {
    assert.deepEqual(rowOf(fileError(new FileError('invalid_path', 'why'), 'body.path')), invalid('body.path', 'why'));
  });

  it('with any other code is an internal failure of the agent', () => {
    for (const code of ['internal', 'queue_full', 'constructor']) {
      const error = fileRefusal({ code, message: 'why' }, undefined);
      assert.ok(error instanceof AgentError);
      assert.equal(error.kind, 'internal');
    }
  });

  it('to HEAD has an error by its status alone', () => {
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
      assert.deepEqual([error.kind, error.message, error.details], [kind, message, { sizeBytes: 7 }]);
    }
  });
});
