import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { needsRoot } from '@cloche/testkit/needs-root';
import { withEffectiveUser } from './effective-user.ts';
import { bindLibc } from './libc.ts';

const prctlCall = bindLibc('int prctl(int option, ulong value, ulong a, ulong b, ulong c)');
const deathSignalCall = bindLibc('int prctl(int option, _Out_ int *signal, ulong a, ulong b, ulong c)');
const [PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_GET_SECUREBITS] = [1, 2, 3, 27];
const SIGURG = 23;
const USER = 0x5fff_0000;

const rights = () => readFileSync(`/proc/thread-self/status`, 'utf8').match(/^(Uid|CapEff):.*$/gm);
const state = () => {
  const signal = [0];
  deathSignalCall(PR_GET_PDEATHSIG, signal, 0, 0, 0);
  const [dumpable, secureBits] = [PR_GET_DUMPABLE, PR_GET_SECUREBITS].map((option) => prctlCall(option, 0, 0, 0, 0));
  return { rights: rights(), deathSignal: signal[0], dumpable, secureBits };
};

test('a thread has another effective user and all of its capabilities during one call only', {
  skip: needsRoot,
}, () => {
  prctlCall(PR_SET_PDEATHSIG, SIGURG, 0, 0, 0);
  const before = state();
  const during = withEffectiveUser(USER, rights);
  assert.deepEqual(during, [`Uid:\t0\t${USER}\t0\t${USER}`, before.rights?.[1]]);
  assert.deepEqual(state(), before);
  assert.equal(before.deathSignal, SIGURG);

  const failure = new Error('as intended');
  assert.throws(() => {
    withEffectiveUser(USER, () => {
      throw failure;
    });
  }, failure);
  assert.deepEqual(state(), before);
});
