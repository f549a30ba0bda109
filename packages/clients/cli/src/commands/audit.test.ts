import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { runPaths } from '@cloche/layout';
import { json, startScriptedServer } from '@cloche/sdk/testing';
import { runInProcess } from '../../testing/run-in-process.ts';

const event = (seq: number, rest: object = {}) => ({
  seq,
  at: '2026-01-01T00:00:00.000Z',
  actor: { type: 'api_key', id: 'key_1' },
  action: 'sandbox.created',
  target: { type: 'sandbox', id: 'sbx_1' },
  outcome: 'allowed',
  ...rest,
});

describe('cloche audit', () => {
  it('cloche audit prints every page, filtered, with the error of a refusal', async () => {
    const refused = event(2, { outcome: 'denied', code: 'forbidden' });
    const pages = [
      { data: [event(1)], nextSeq: 1, hasMore: true },
      { data: [refused], nextSeq: 2, hasMore: false },
    ];
    for (const flags of [[], ['--json']]) {
      await using server = await startScriptedServer(pages.map((page) => json(200, page)));
      const env = { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'clk_test' };
      const { stdout, exitCode } = await runInProcess(['audit', '--actor', 'key_1', ...flags], { env });
      const lines = stdout.trimEnd().split('\n');
      assert.equal(exitCode, 0);
      assert.ok(server.requests.every(({ path }) => path.includes('actor=key_1')));
      if (flags.length > 0)
        assert.deepEqual(
          lines.map((line) => JSON.parse(line)),
          [event(1), refused],
        );
      else assert.match(lines.at(-1) ?? '', /^2 .* key_1 .* sandbox.created .* sbx_1 .* denied \(forbidden\)$/);
    }
  });
});

/** Serves `listener` as the operator's socket of an installation. */
async function serveOperator(listener: RequestListener) {
  const runDir = mkdtempSync(join(tmpdir(), 'cloche-cli-audit-'));
  const { operatorSocket } = runPaths(runDir);
  mkdirSync(dirname(operatorSocket), { recursive: true });
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(operatorSocket, resolve));
  return {
    env: { CLOCHE_RUN_DIR: runDir },
    async [Symbol.asyncDispose]() {
      await new Promise((resolve) => server.close(resolve));
      rmSync(runDir, { recursive: true, force: true });
    },
  };
}

const isRoot = process.getuid?.() === 0;
describe('cloche admin audit', { skip: !isRoot && 'needs root' }, () => {
  it('cloche admin audit verify fails with the problems that were found', async () => {
    const report = { orgId: 'org_1', events: 3, lastSeq: 3, lastHash: 'ab', problems: [] as object[], problemCount: 0 };
    const verify = async () => {
      await using operator = await serveOperator(({ url }, response) => {
        assert.equal(url, '/audit/verify?org=acme');
        response.end(JSON.stringify(report));
      });
      return await runInProcess(['admin', 'audit', 'verify', '--org', 'acme'], operator);
    };
    const clean = await verify();
    assert.deepEqual([clean.exitCode, clean.stdout.includes('3 audit events of org_1 checked')], [0, true]);
    report.problems = [{ seq: 2, kind: 'removed', message: 'Event 2 is missing.' }];
    report.problemCount = 1;
    const broken = await verify();
    assert.notEqual(broken.exitCode, 0);
    assert.match(broken.stdout, /^2 removed: Event 2 is missing\.$/m);
    assert.match(broken.stderr, /1 problem/);
  });

  it('cloche admin audit verify checks every organization if none is named, and names each that has problems', async () => {
    const report = (orgId: string, problems: object[] = []) => ({
      ...{ orgId, events: 3, lastSeq: 3, lastHash: 'ab', problems, problemCount: problems.length },
    });
    await using operator = await serveOperator(({ url }, response) => {
      assert.equal(url, '/audit/verify');
      const removed = { seq: 2, kind: 'removed', message: 'Event 2 is missing.' };
      response.end(JSON.stringify({ data: [report('org_1'), report('org_2', [removed]), report('org_3')] }));
    });
    const { exitCode, stdout, stderr } = await runInProcess(['admin', 'audit', 'verify'], operator);
    assert.notEqual(exitCode, 0);
    for (const orgId of ['org_1', 'org_2', 'org_3'])
      assert.match(stdout, new RegExp(`3 audit events of ${orgId} checked`));
    assert.match(stderr, /org_2 have 1 problem/);
    assert.doesNotMatch(stderr, /org_[13]/);
  });

  it('cloche admin audit export prints the lines of the service, and fails when they break off or are refused', async () => {
    const lines = [JSON.stringify(event(1)), JSON.stringify(event(2))];
    const run = async (listener: RequestListener) => {
      await using operator = await serveOperator(listener);
      return await runInProcess(
        ['admin', 'audit', 'export', '--org', 'acme', '--from', '2026-01-01', '--format', 'jsonl'],
        operator,
      );
    };
    const whole = await run(({ url }, response) => {
      assert.equal(url, '/audit/export?org=acme&from=2026-01-01');
      response.end(`${lines.join('\n')}\n`);
    });
    assert.deepEqual([whole.exitCode, whole.stdout], [0, `${lines.join('\n')}\n`]);
    const cut = await run((_request, response) => {
      response.write(`${lines[0]}\n`);
      setImmediate(() => response.destroy());
    });
    assert.notEqual(cut.exitCode, 0);
    const error = { code: 'not_found', message: 'There is no organization "acme".', requestId: 'req_1' };
    const refused = await run((_request, response) => {
      response.writeHead(404).end(JSON.stringify({ error }));
    });
    assert.notEqual(refused.exitCode, 0);
    assert.match(refused.stderr, /There is no organization "acme"/);
  });
});
