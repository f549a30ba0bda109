import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { GatewayError } from '@cloche/kit';
import type { BoxSession } from './box-session.ts';
import { setVariables } from './variables-of-run.ts';

/** A sandbox whose code prints a text. */
function sandboxThatPrints(stdout: string): BoxSession {
  const call = async () => ({ run: { stdout } });
  return { cloche: { call }, sandboxId: 'sbx_1' } as unknown as BoxSession;
}

describe('variables of a run', () => {
  for (const printed of ['', 'no JSON', 'null', '{"NAME":1}', '{"NAME":{}}', `{"NAME":${'['.repeat(100_000)}`]) {
    it(`variables of a run are refused if the sandbox prints ${printed.slice(0, 20) || 'nothing'} for those that it had`, async () => {
      await assert.rejects(
        setVariables(sandboxThatPrints(printed), { language: 'python' }, { NAME: 'value' }),
        (error) => error instanceof GatewayError && error.status === 400,
      );
    });
  }

  it('variables of a run are restored from what the sandbox prints', async () => {
    await (await setVariables(sandboxThatPrints('{"NAME":null}\n'), { language: 'python' }, { NAME: 'value' }))();
  });
});
