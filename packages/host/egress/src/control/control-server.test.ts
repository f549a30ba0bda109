import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { DecisionPage, EGRESS_PROTOCOL_VERSION, EgressHealth } from '@cloche/protocol';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { Value } from 'typebox/value';
import { EgressRig } from '../../testing/egress-rig.ts';
import { RecentDecisions } from '../decisions/recent-decisions.ts';
import { openControlServer } from './control-server.ts';

const POLICY = { mode: 'allowlist' as const, hosts: ['allowed.example'] };
let rig: EgressRig;
before(async () => {
  rig = await EgressRig.open(POLICY);
});
after(() => rig[Symbol.asyncDispose]());

async function call(
  method: string,
  path: string,
  message?: unknown,
): Promise<{ status: number | undefined; body: string }> {
  const body = message === undefined ? undefined : JSON.stringify(message);
  const headers = body === undefined ? {} : { 'content-type': 'application/json' };
  const asked = request({ socketPath: join(rig.folder, 'control.sock'), method, path, headers }).end(body);
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  return { status: answer.statusCode, body: await text(answer) };
}

describe('the control socket', () => {
  test('says that it is ready, and which authority sandboxes trust', async () => {
    const { body } = await call('GET', '/health');
    const health = Value.Parse(EgressHealth, JSON.parse(body));
    assert.equal(health.protocolVersion, EGRESS_PROTOCOL_VERSION);
    assert.equal(health.authorityCertificate, rig.egress.authorityCertificate);
  });

  test('the control socket puts, lists, replaces and deletes sandboxes', async () => {
    const other = { sandboxId: 'sbx_other', policy: { mode: 'deny-all' } };
    assert.equal((await call('PUT', '/sandboxes/198.18.0.6', other)).status, 204);
    assert.equal((await call('PUT', '/sandboxes/198.18.0.6', other)).status, 204);
    const listed = JSON.parse((await call('GET', '/sandboxes')).body);
    assert.deepEqual(listed.sandboxes, [
      { address: '127.0.9.1', sandboxId: 'sbx_test', policy: POLICY },
      { address: '198.18.0.6', ...other },
    ]);
    const all = { sandboxes: [{ address: '127.0.9.1', sandboxId: 'sbx_test', policy: POLICY }] };
    assert.equal((await call('PUT', '/sandboxes', all)).status, 204);
    assert.deepEqual(JSON.parse((await call('GET', '/sandboxes')).body), all);
    assert.equal((await call('DELETE', '/sandboxes/198.18.0.6')).status, 204);
  });

  test('the control socket tells what was decided, and refuses what it does not know', async () => {
    const { status, body } = await call('GET', '/decisions?afterSeq=0&sandboxId=sbx_none&waitMs=1');
    const page = Value.Parse(DecisionPage, JSON.parse(body));
    assert.deepEqual([status, page.decisions, page.missed], [200, [], 0]);
    for (const query of ['afterSeq=x', 'waitMs=-1', 'path=/etc']) {
      assert.equal((await call('GET', `/decisions?${query}`)).status, 400, query);
    }
  });

  test('the control socket keeps what is under way of a sandbox that is put again as it was', async () => {
    const known = rig.egress.sandboxes.find('127.0.9.1');
    await call('PUT', '/sandboxes', { sandboxes: [{ address: '127.0.9.1', sandboxId: 'sbx_test', policy: POLICY }] });
    assert.ok(known && rig.egress.sandboxes.find('127.0.9.1') === known && !known.signal.aborted);
    await call('PUT', '/sandboxes/127.0.9.1', { sandboxId: 'sbx_next', policy: POLICY });
    assert.ok(known.signal.aborted);
  });

  test('the control socket changes nothing for a message that is wrong in any part', async () => {
    const before = (await call('GET', '/sandboxes')).body;
    const wrong = { sandboxId: 'sbx_x', policy: { mode: 'allowlist', hosts: ['Not A Host'] } };
    const right = { sandboxId: 'sbx_y', policy: { mode: 'deny-all' } };
    for (const [path, message] of [
      ['/sandboxes/198.18.0.6', wrong],
      ['/sandboxes/localhost', right],
      ['/sandboxes/198.18.0.6', { ...right, policy: { mode: 'unrestricted' } }],
      ['/sandboxes/198.18.0.6', { ...right, more: 1 }],
      [
        '/sandboxes',
        {
          sandboxes: [
            { address: '198.18.0.6', ...right },
            { address: '198.18.0.10', ...wrong },
          ],
        },
      ],
    ] as const) {
      const { status, body } = await call('PUT', path, message);
      assert.equal(status, 400, body);
      assert.equal(JSON.parse(body).error.code, 'bad_request');
    }
    assert.equal((await call('GET', '/sandboxes')).body, before);
  });

  test('the control socket counts decisions', async () => {
    rig.setPolicy(POLICY);
    await rig.send('GET / HTTP/1.1\r\nHost: other.example\r\n\r\n');
    const { body } = await call('GET', '/metrics');
    assert.match(body, /cloche_egress_decisions_total\{protocol="http",verdict="denied",reason="policy"\} 1/);
    assert.match(body, /cloche_egress_connections \d/);
  });

  test('the control socket is open to its owner alone, and answers no other user', async () => {
    assert.equal(statSync(join(rig.folder, 'control.sock')).mode & 0o777, 0o600);
    const folder = mkdtempSync(join(tmpdir(), 'cloche-control-'));
    const asked: (number | undefined)[] = [];
    const socketPath = join(folder, 'control.sock');
    const { sandboxes, authorityCertificate } = rig.egress;
    const isTrusted = (uid: number | undefined) => {
      asked.push(uid);
      return false;
    };
    const app = await openControlServer({
      socketPath,
      sandboxes,
      authorityCertificate,
      registry: new Registry(),
      decisions: new RecentDecisions(),
      log: pino({ level: 'silent' }),
      isTrusted,
    });
    await assert.rejects(once(request({ socketPath, path: '/health' }).end(), 'response'), /hang up|EPIPE|ECONNRESET/);
    assert.deepEqual(asked, [process.getuid?.()]);
    await app.close();
    rmSync(folder, { recursive: true });
  });

  test('the control socket holds /lifetime open for as long as it lives', async () => {
    const lasting = await EgressRig.open(POLICY);
    const asked = request({ socketPath: join(lasting.folder, 'control.sock'), path: '/lifetime' }).end();
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    const ended = new Promise((resolve) => answer.on('error', () => {}).once('close', resolve));
    await lasting[Symbol.asyncDispose]();
    await ended;
  });
});
