import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, describe, it } from 'node:test';
import * as contract from '@cloche/contract';
import { build } from 'esbuild';
import { CLIENT_CONTRACT, clientContractText } from '../client-contract.ts';
import { clientContract } from './client-contract.ts';

const SENT = ['id', 'method', 'path', 'idempotency'] as const;
const KINDS = ['upload', 'download', 'events'] as const;

describe('what clients in a checkout read of the contract', () => {
  it('what clients in a checkout read of the contract is current, and loads no schema', async () => {
    const remedy = 'run `node_modules/.bin/node scripts/client-contract.ts`';
    const text = readFileSync(CLIENT_CONTRACT, 'utf8');
    assert.equal(text, clientContractText(), remedy);
    const loaded = [...text.matchAll(/^(?:import (?!type )|export .* from ).*'(.*)'/gm)].map(([, path]) => path);
    assert.deepEqual(loaded, ['./limits.ts']);
  });
});

describe('the contract in bundles of clients', () => {
  let text: string;
  let bundled: typeof contract;
  before(async () => {
    const { outputFiles } = await build({
      stdin: { contents: "export * from '@cloche/contract'; export { isScope } from '@cloche/contract';" },
      bundle: true,
      format: 'esm',
      platform: 'neutral',
      write: false,
      plugins: [clientContract],
    });
    text = outputFiles[0]?.text ?? '';
    bundled = await import(`data:text/javascript;base64,${Buffer.from(text).toString('base64')}`);
  });

  it('the contract in bundles of clients has what sending a request of each operation needs', () => {
    assert.deepEqual(Object.keys(bundled.operations), Object.keys(contract.operations));
    const all: Readonly<Record<string, contract.Operation>> = bundled.operations;
    for (const source of Object.values(contract.operations) as contract.Operation[]) {
      const operation = all[source.id];
      for (const part of SENT) assert.equal(operation?.[part], source[part], `${source.id}.${part}`);
      for (const kind of KINDS)
        assert.equal(kind in (operation ?? {}), source[kind] !== undefined, `${source.id}.${kind}`);
    }
  });

  it('the contract in bundles of clients says for each error whether the request may be repeated', () => {
    const retryable = (errors: object) => Object.entries(errors).map(([code, error]) => [code, error.retryable]);
    assert.deepEqual(retryable(bundled.ERRORS), retryable(contract.ERRORS));
  });

  it('the contract in bundles of clients has the limits, constants and functions that clients use, with their values, and no schema', () => {
    assert.equal(bundled.LIMITS.waitMaxMs, contract.LIMITS.waitMaxMs);
    assert.deepEqual(bundled.SIGNALS, contract.SIGNALS);
    assert.deepEqual([bundled.isScope('code:run'), bundled.isScope('code:walk')], [true, false]);
    assert.equal('Sandbox' in bundled, false);
  });
});
