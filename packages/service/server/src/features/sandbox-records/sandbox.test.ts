import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SANDBOX_STATUSES } from '@cloche/contract';
import { allows, isSettled, type RecordStatus, TRANSITIONS, type TransitionName } from './sandbox.ts';

const RECORD_STATUSES = SANDBOX_STATUSES.filter(
  (status): status is RecordStatus => status !== 'running' && status !== 'idle',
);

describe('the transitions of a sandbox', () => {
  it('are these and no others', () => {
    const table = (Object.keys(TRANSITIONS) as TransitionName[]).flatMap((name) =>
      RECORD_STATUSES.filter((from) => allows(name, from)).map((from) => `${from} -${name}-> ${TRANSITIONS[name].to}`),
    );
    assert.deepEqual(table.sort(), [
      'creating -end-> expiring',
      'creating -fail-> failed',
      'creating -launch-> starting',
      'creating -open-> ready',
      'creating -relaunch-> creating',
      'expiring -destroy-> destroyed',
      'failed -end-> expiring',
      'ready -end-> expiring',
      'ready -fail-> failed',
      'starting -end-> expiring',
      'starting -fail-> failed',
      'starting -open-> ready',
      'starting -relaunch-> creating',
    ]);
  });

  it('lead nowhere from destroyed', () => {
    for (const name of Object.keys(TRANSITIONS) as TransitionName[]) assert.ok(!allows(name, 'destroyed'));
  });
});

describe('a wait for a status', () => {
  it('is over when the status is there', () => {
    for (const status of SANDBOX_STATUSES) assert.ok(isSettled(status, status));
  });

  it('goes on while the status can still come', () => {
    assert.ok(!isSettled('creating', 'ready'));
    assert.ok(!isSettled('idle', 'running'));
    assert.ok(!isSettled('ready', 'destroyed'));
  });

  it('is over when the status cannot come any more', () => {
    for (const ended of ['expiring', 'destroyed', 'failed'] as const) assert.ok(isSettled(ended, 'ready'));
    assert.ok(isSettled('ready', 'creating'));
  });
});
