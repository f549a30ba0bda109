import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { CodeRunEvent } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import { lines } from './run-lines.ts';

/** Returns the types and names of the lines of a run that ends with this error. */
async function linesOf(error: Error): Promise<unknown[]> {
  async function* events(): AsyncGenerator<CodeRunEvent> {
    yield { type: 'stdout', data: 'before' };
    throw error;
  }
  const seen: unknown[] = [];
  for await (const line of lines(events())) {
    const { type, name, value } = JSON.parse(line);
    seen.push(name === undefined ? type : [type, name, value]);
  }
  return seen;
}

it('a refusal after the head of a run’s response is a line of it, and does not break the connection', async () => {
  assert.deepEqual(await linesOf(new GatewayError(400, 'The variables cannot be set.')), [
    'stdout',
    ['error', 'invalid_request', 'The variables cannot be set.'],
    'end_of_execution',
  ]);
});

it('the end of a sandbox breaks the connection of its run, since clients look only then whether it was killed', async () => {
  await assert.rejects(linesOf(new GatewayError(502, 'The sandbox has ended.')), /has ended/);
  await assert.rejects(linesOf(new TypeError('a fault of ours')), TypeError);
});
