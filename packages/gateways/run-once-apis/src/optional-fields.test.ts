import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { z } from 'zod';
import { RUN_APIS, type RunApi } from './run-apis-router.ts';

/** A body with the required fields alone, and the fields that a client may leave out. */
const BODIES: Readonly<Record<RunApi, { least: Record<string, unknown>; optional: readonly string[] }>> = {
  dify: { least: { language: 'python3', code: '1' }, optional: ['enable_network', 'preload'] },
  piston: {
    least: { language: 'python', version: '*', files: [{ content: '1' }] },
    optional: [
      'stdin',
      'args',
      'run_timeout',
      'compile_timeout',
      'run_memory_limit',
      'compile_memory_limit',
      'run_cpu_time',
      'compile_cpu_time',
    ],
  },
  'sandbox-fusion': {
    least: { language: 'python', code: '1' },
    optional: ['stdin', 'files', 'fetch_files', 'run_timeout', 'compile_timeout', 'memory_limit_MB', 'args'],
  },
};

/** Fields of a file of Piston. */
const FILE = ['name', 'encoding'];

describe('an optional field of a run API', () => {
  for (const [api, { least, optional }] of Object.entries(BODIES)) {
    // Sound: the table has the names of all APIs.
    const body: z.ZodObject = RUN_APIS[api as RunApi].body;
    const without = body.parse(least);
    const withStdin = { ...without, ...('stdin' in without ? { stdin: without.stdin ?? undefined } : {}) };

    for (const field of optional) {
      it(`an optional field of a run API that is null is as one that is left out: ${api}, ${field}`, () => {
        const { stdin, ...rest } = body.parse({ ...least, [field]: null }) as Record<string, unknown>;
        const { stdin: otherwise, ...others } = withStdin as Record<string, unknown>;
        assert.deepEqual([rest, stdin ?? undefined], [others, otherwise]);
      });
    }

    it(`an optional field of a run API may be null with all others: ${api}`, () => {
      assert.ok(body.safeParse({ ...least, ...Object.fromEntries(optional.map((field) => [field, null])) }).success);
    });

    for (const field of Object.keys(least)) {
      it(`an optional field of a run API may be null, but a required one must not: ${api}, ${field}`, () => {
        assert.equal(body.safeParse({ ...least, [field]: null }).success, false);
      });
    }
  }

  for (const field of FILE) {
    it(`an optional field of a run API that is null is as one that is left out: a file of piston, ${field}`, () => {
      const { files } = RUN_APIS.piston.body.parse({
        ...BODIES.piston.least,
        files: [{ content: '1', [field]: null }],
      });
      assert.deepEqual([files[0]?.name ?? undefined, files[0]?.encoding], [undefined, 'utf8']);
    });
  }

  it('an optional field of a run API has its default if it is the time limit 0 of piston', () => {
    assert.equal(RUN_APIS.piston.body.parse({ ...BODIES.piston.least, run_timeout: 0 }).run_timeout, 3000);
  });

  it('an optional field of a run API has its wrong type refused as before', () => {
    for (const wrong of [{ stdin: 5 }, { args: 'x' }, { run_timeout: '3' }, { run_timeout: -1 }, { files: {} }])
      assert.equal(RUN_APIS.piston.body.safeParse({ ...BODIES.piston.least, ...wrong }).success, false);
  });
});
