import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { EGRESS_PROTOCOL_VERSION } from '@cloche/protocol';
import { eventually } from '@cloche/testkit/eventually';
import { type Logger, pino } from 'pino';
import { EgressClient } from './egress-client.ts';
import { EgressGate } from './egress-gate.ts';

/** An egress that announces a version, and counts how often it is asked for it and gets policies. */
async function openEgress(version: number) {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-egress-gate-'));
  const socketPath = join(folder, 'control.sock');
  const egress = { socketPath, version, asked: 0, policies: 0 };
  const server = createServer((request, response) => {
    const operation = `${request.method} ${request.url}`;
    if (operation === 'GET /lifetime') return void response.writeHead(200).flushHeaders();
    if (operation === 'PUT /sandboxes') {
      egress.policies += 1;
      return void response.writeHead(204).end();
    }
    assert.equal(operation, 'GET /health');
    egress.asked += 1;
    const health = { status: 'ready', protocolVersion: egress.version, authorityCertificate: 'a certificate' };
    response.end(JSON.stringify(health));
  });
  await once(server.listen(socketPath), 'listening');
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    rmSync(folder, { recursive: true });
  };
  return Object.assign(egress, { [Symbol.asyncDispose]: close });
}

function openLog(): { log: Logger; warnings: string[] } {
  const warnings: string[] = [];
  return { log: pino({ level: 'warn' }, { write: (line: string) => void warnings.push(line) }), warnings };
}

describe('an egress of another release', () => {
  it('an egress of another release gets no policies, is reported once, and is used as soon as it is replaced', async () => {
    await using egress = await openEgress(EGRESS_PROTOCOL_VERSION + 1);
    const { log, warnings } = openLog();
    const gate = new EgressGate({ client: new EgressClient(egress.socketPath), trust: () => undefined, log });
    gate.open(new Map());
    try {
      await eventually(() => egress.asked >= 3, { because: 'it is asked again' });
      assert.equal(egress.policies, 0);
      assert.equal(warnings.length, 1);
      assert.match(warnings[0] ?? '', /restart egress: it is of another release/);

      egress.version = EGRESS_PROTOCOL_VERSION;
      await eventually(() => egress.policies > 0, { because: 'it gets the policies' });
    } finally {
      await gate.close();
    }
  });
});
