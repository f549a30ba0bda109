import assert from 'node:assert/strict';
import { it } from 'node:test';
import { makePlaceholder, type SecretQuestion } from '@cloche/protocol';
import { placeSecrets } from './placed-secrets.ts';
import type { SandboxSecrets } from './sandbox-secrets.ts';

it('a value that begins another one leaves nothing of it readable in a response', async () => {
  const [short, long] = ['token-of-one', 'token-of-one-and-more'];
  const values = new Map([short, long].map((value) => [makePlaceholder(), value]));
  const secrets: Pick<SandboxSecrets, 'find'> = {
    find: async (questions: readonly SecretQuestion[]) => questions.map(({ placeholder }) => values.get(placeholder)),
  };
  for (const placeholders of [[...values.keys()], [...values.keys()].reverse()]) {
    const fields = placeholders.flatMap((placeholder) => ['x-key', placeholder]);
    const host = { kind: 'name', name: 'example.com' } as const;
    const { hide } = await placeSecrets(fields, host, secrets as SandboxSecrets);
    const shown = hide(`${long} ${short}`);
    assert.deepEqual(
      shown.split(' ').map((placeholder) => values.get(placeholder)),
      [long, short],
    );
  }
});
