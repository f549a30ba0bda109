import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import { issueAccessToken } from './access-token.ts';
import { KnownTokens, type SignedFile } from './known-tokens.ts';

let made = 0;
/** As the real seal, it makes another token each time. */
const SEAL = {
  seal: (text: string) => `${++made}:${text}`,
  open: (sealed: string) => sealed.slice(sealed.indexOf(':') + 1),
};

const tokensOf = () => new KnownTokens(SEAL, (apiKey) => apiKey);
const access = (org: string, sandbox: number) => ({ apiKey: org, sandboxId: `sbx_${sandbox}` });

function signedBy(token: string, path = '/tmp/file'): SignedFile {
  const digest = createHash('sha256').update(`${path}:read:user:${token}`).digest('base64');
  return { path, operation: 'read', user: 'user', expiration: undefined, signature: `v1_${digest.replace(/=+$/, '')}` };
}

describe('tokens that this server knows', () => {
  it('tokens that this server knows are found by what they have signed, and found again without a search', async () => {
    const tokens = tokensOf();
    const token = issueAccessToken(access('org', 1), tokens);
    const file = signedBy(token);
    assert.equal(tokens.findKnown(file), undefined);
    assert.deepEqual(await tokens.search(file), access('org', 1));
    assert.deepEqual(tokens.findKnown(file), access('org', 1));
    for (const changed of [
      { path: '/tmp/other' },
      { operation: 'write' as const },
      { expiration: '1' },
      { user: 'root' },
    ]) {
      assert.equal(await tokens.search({ ...file, ...changed }), undefined);
    }
  });

  it('tokens that this server knows are issued again for the same sandbox, so that a client that asks often displaces none', async () => {
    const tokens = tokensOf();
    const file = signedBy(issueAccessToken(access('quiet', 1), tokens));
    const issued = new Set(Array.from({ length: 10_000 }, () => issueAccessToken(access('busy', 2), tokens)));
    assert.equal(issued.size, 1);
    assert.deepEqual(await tokens.search(file), access('quiet', 1));
  });

  it('tokens that this server knows of an organization with few of them are not displaced by those of one with many', async () => {
    const tokens = tokensOf();
    const files = Array.from({ length: 10 }, (_, sandbox) =>
      signedBy(issueAccessToken(access('quiet', sandbox), tokens)),
    );
    for (let sandbox = 0; sandbox < 10_000; sandbox += 1) issueAccessToken(access('busy', sandbox), tokens);
    for (const [sandbox, file] of files.entries()) {
      assert.deepEqual(await tokens.search(file), access('quiet', sandbox));
    }
  });
});
