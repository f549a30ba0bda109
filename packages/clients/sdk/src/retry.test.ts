import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ERRORS, type ErrorCode } from '@cloche/contract';
import { ClocheError, type ClocheErrorCode } from './cloche-error.ts';
import { retryKind } from './retry.ts';

const kindOf = (code: ClocheErrorCode, repeatable: boolean, status?: number) =>
  retryKind(new ClocheError(code, 'any text', { status }), { repeatable });

describe('what follows a failure', () => {
  it('comes from the catalogue of errors, for each code', () => {
    for (const [code, { retryable }] of Object.entries(ERRORS) as [ErrorCode, (typeof ERRORS)[ErrorCode]][]) {
      if (code === 'idempotency_request_in_progress') continue;
      assert.equal(kindOf(code, false) === 'again', retryable === 'after', code);
      assert.equal(kindOf(code, true) === 'again', retryable !== false, code);
    }
  });

  it('depends on the code and not on the status', () => {
    assert.equal(kindOf('rate_limited', false, 429), 'again');
    assert.equal(kindOf('quota_exceeded', true, 429), 'never');
    assert.equal(kindOf('idempotency_request_in_progress', true, 409), 'outcome');
    assert.equal(kindOf('conflict', true, 409), 'never');
  });

  it('what follows a failure is final for a code that this SDK does not know, whatever its name', () => {
    for (const code of ['of_a_newer_service', 'toString', '__proto__']) {
      assert.equal(kindOf(code as ErrorCode, true, 503), 'never');
    }
  });
});
