/** Enumerates the service's error for each failure of an agent. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AGENT_ERROR_CODES, AGENT_FILE_ERROR_CODES } from '@cloche/protocol';
import { AgentError, LaunchError } from '@cloche/runtime';
import { fileRefusal, type RequestGroup, refusal } from '@cloche/runtime/agent-errors';
import { FileError } from '@cloche/runtime/agent-files';
import type { AppError } from '../../platform/base/app-error.ts';
import {
  fileError,
  hostError,
  type OwnErrors,
  ownError,
  sandboxError,
  tooSlow,
  tunnelError,
} from './agent-failures.ts';

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
  pausing: true,
  incompatible: true,
  internal: true,
};
const ALL_KINDS = Object.keys(KINDS) as Kind[];
const SANDBOX = { id: 'sbx_1', resources: { pids: 64 } };

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
    it(`the service's error for ${kind} has its code, status, Retry-After and message`, () => {
      assert.deepEqual(rowOf(sandboxError(new AgentError(kind, 'of the agent'), SANDBOX)), expected[kind] ?? OTHERS);
    });
  }

  it("the service's error is never `internal`, whatever an agent answers", () => {
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
    it(`the service's error of ${request} replaces the common one for some kinds only`, () => {
      for (const kind of ALL_KINDS) {
        assert.deepEqual(rowOf(ownError(request, new AgentError(kind, 'x'), 'pty_1')), rows[kind], kind);
      }
      assert.equal(ownError(request, new Error('x')), undefined);
    });
  }

  it("the service's error for the visitor of a preview names the port", () => {
    const rows: Partial<Record<Kind, readonly [string, string]>> = {
      port_closed: [
        'preview_port_closed',
        'No program listens on port 80 inside the sandbox. Start a server on this port.',
      ],
      busy: ['preview_busy', 'The sandbox has too many connections to its ports; close some.'],
    };
    for (const kind of ALL_KINDS) assert.deepEqual(tunnelError(new AgentError(kind, 'x'), 80), rows[kind], kind);
  });

  it("the service's error for a time limit and for the host may be retried", () => {
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
    it(`a refusal about a file with ${code} has the code, status, message and details of the service`, () => {
      const error = fileRefusal({ code, message: 'why', path: '/a' }, 5);
      assert.ok(error instanceof FileError);
      assert.deepEqual(rowOf(fileError(error)), expected[code]);
    });
  }

  it('a refusal about a file names the field of the request that has the path', () => {
    assert.deepEqual(rowOf(fileError(new FileError('invalid_path', 'why'), 'body.path')), invalid('body.path', 'why'));
  });
});
