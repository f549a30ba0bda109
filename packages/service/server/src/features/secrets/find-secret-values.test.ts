import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openSecretServers, type SecretServer } from '../../../testing/secrets.ts';
import { DEFAULT_PROJECT } from '../../../testing/seeded-organizations.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import { FindSecretValues, type FindSecretValuesDeps } from './find-secret-values.ts';

describe('the value of a secret for a sandbox', () => {
  it('the value of a secret for a sandbox is found if a rotation ends between the query and the decryption', async () => {
    await using open = await openSecretServers(1);
    const [server] = open.servers as [SecretServer];
    const { id } = await server.create('value');
    let queries = 0;
    const secrets = {
      async listOfProject(...wanted: Parameters<typeof server.secrets.listOfProject>) {
        const found = await server.secrets.listOfProject(...wanted);
        queries += 1;
        if (queries === 1) await server.rotate();
        return found;
      },
    };
    const sandbox = { status: 'ready', projectId: DEFAULT_PROJECT, secrets: { placeholder: id } };
    const sandboxes = { find: async () => sandbox as Partial<SandboxRecord> };
    // Sound: nothing else of the repositories and of the sandbox is used.
    const deps = { sandboxes, secrets, keys: server.keys } as unknown as FindSecretValuesDeps;
    const questions = [{ placeholder: 'placeholder', host: { kind: 'name', name: 'api.test' } }] as const;
    const { values } = await new FindSecretValues(deps).find({ sandboxId: 'sbx_1', questions: [...questions] });
    assert.deepEqual([values, queries], [['value'], 2]);
  });
});
