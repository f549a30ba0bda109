import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FakeClock } from '@cloche/testkit';
import { unauthorized } from '../keys/authenticator.ts';
import type { Credential } from '../keys/credential.ts';
import { CheckKey } from './check-key.ts';
import type { CredentialSource } from './credential-sources.ts';

/** A kind of credential in a header of its own: `valid` has a credential, any other value is wrong. */
function sourceOf(header: string): { source: CredentialSource; credential: Credential } {
  const credential = { apiKeyId: header } as unknown as Credential;
  const credentialOf = async (headers: Record<string, unknown>) => {
    if (headers[header] === undefined) return undefined;
    if (headers[header] !== 'valid') throw unauthorized(`wrong ${header}`);
    return credential;
  };
  return { source: { credentialOf }, credential };
}

describe('a request with several kinds of credentials', () => {
  const [first, second] = [sourceOf('first'), sourceOf('second')];
  const checkKey = new CheckKey({ sources: [first.source, second.source], clock: new FakeClock() });
  const check = (headers: Record<string, string>) => checkKey.check(headers, '192.0.2.1');

  it('a request has the credential of the first kind that it carries', async () => {
    assert.equal(await check({ first: 'valid', second: 'wrong' }), first.credential);
    assert.equal(await check({ second: 'valid' }), second.credential);
  });

  it('a request whose first kind is wrong is refused, whatever it carries besides', async () => {
    await assert.rejects(check({ first: 'wrong', second: 'valid' }), { code: 'unauthorized', message: 'wrong first' });
  });

  it('a request that carries no kind is told what to send', async () => {
    await assert.rejects(check({}), { code: 'unauthorized', message: /key is missing: send/ });
  });
});
