import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SANDBOX_STATUSES } from '@cloche/contract';
import {
  factsOf,
  type PauseState,
  type RecordState,
  type RecordStatus,
  STATUS_FACTS,
} from '../sandbox-status/status-facts.ts';
import { allows, isSettled, TRANSITIONS, type TransitionName } from './sandbox.ts';
import { MOVES, type MoveName, moveOf } from './sandbox-pauses.ts';

const PAUSE_STATES: readonly RecordState[] = [
  'pausing',
  'paused',
  'waking',
  'parking',
  'dropping',
  'parked',
  'booting',
];
const STATES = Object.keys(STATUS_FACTS) as RecordState[];
const RECORD_STATUSES = STATES.filter((state): state is RecordStatus => !PAUSE_STATES.includes(state));

describe('the facts of the statuses', () => {
  const all = STATES.map((state) => {
    const isPause = PAUSE_STATES.includes(state);
    const record = isPause
      ? { status: 'ready' as const, pauseState: state as PauseState }
      : { status: state as RecordStatus };
    return { state, ...record, ...factsOf(record) };
  });
  const none = (matches: (one: (typeof all)[number]) => boolean) =>
    assert.deepEqual(
      all.filter(matches).map(({ state }) => state),
      [],
    );

  it('the facts of the statuses cover each status of the contract but the two that activity decides', () => {
    assert.deepEqual(
      RECORD_STATUSES,
      SANDBOX_STATUSES.filter((status) => status !== 'running' && status !== 'idle'),
    );
  });

  it('the facts of the statuses do not contradict each other', () => {
    none(({ acceptsWork, refusal }) => acceptsWork !== (refusal === undefined));
    none(({ acceptsWork, holdsInstance, hasLostMemory }) => acceptsWork && !holdsInstance && !hasLostMemory);
    none(
      ({ isPending, isReady, needsWake, isOver }) =>
        Number(isPending) + Number(isReady) + Number(needsWake) + Number(isOver) !== 1,
    );
    none(({ isEnded, isOver, holdsInstance, countsLive }) => isEnded && (!isOver || holdsInstance || countsLive));
    none(({ onIdle, isReady }) => onIdle === 'destroy' && !isReady);
    none(({ isLaunched, isReady, needsWake }) => isLaunched && !isReady && !needsWake);
    none(({ isLaunched, hasLostMemory }) => isLaunched && hasLostMemory);
    none(({ isMoving, metersOnlyDisk, needsWake }) => (isMoving || metersOnlyDisk) && !needsWake);
    none(({ countsLive, countsPaused, keepsProject }) => keepsProject !== (countsLive || countsPaused));
  });

  it('the facts of the statuses agree with the transitions', () => {
    // A sandbox with an instance can be ended. A sandbox that is over never becomes ready again.
    none(({ status, holdsInstance }) => holdsInstance && !allows('end', status) && !allows('destroy', status));
    none(({ status, isPending }) => isPending !== allows('open', status));
    none(({ status, isOver }) => isOver && (allows('launch', status) || allows('relaunch', status)));
  });
});

describe('the transitions of a sandbox', () => {
  it('the transitions of a sandbox are these and no others', () => {
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

  it('the transitions of a sandbox in and out of a pause are these and no others', () => {
    const table = (Object.keys(MOVES) as MoveName[]).flatMap((name) =>
      moveOf(name).from.map((from) => `${from} -${name}-> ${moveOf(name).to ?? from}`),
    );
    assert.deepEqual(table.sort(), [
      'booting -cancelBoot-> parked',
      'booting -finishBoot-> ready',
      'booting -takeOver-> booting',
      'dropping -cancelDrop-> paused',
      'dropping -finishDrop-> parked',
      'dropping -takeOver-> dropping',
      'parked -announceRetention-> parked',
      'parked -beginBoot-> booting',
      'parked -setRetention-> parked',
      'parking -cancelPark-> ready',
      'parking -finishPark-> parked',
      'parking -takeOver-> parking',
      'paused -announceRetention-> paused',
      'paused -beginDrop-> dropping',
      'paused -beginWake-> waking',
      'paused -loseMemory-> parked',
      'paused -setRetention-> paused',
      'pausing -cancelPause-> ready',
      'pausing -finishPause-> paused',
      'pausing -loseInstance-> parked',
      'pausing -takeOver-> pausing',
      'ready -beginPark-> parking',
      'ready -beginPause-> pausing',
      'ready -loseInstance-> parked',
      'waking -cancelWake-> paused',
      'waking -finishWake-> ready',
      'waking -loseMemory-> parked',
      'waking -takeOver-> waking',
    ]);
  });

  it('lead nowhere from destroyed', () => {
    for (const name of Object.keys(TRANSITIONS) as TransitionName[]) assert.ok(!allows(name, 'destroyed'));
  });
});

describe('a wait for a status', () => {
  it('a wait for a status is over when the status is there', () => {
    for (const status of SANDBOX_STATUSES) assert.ok(isSettled(status, status));
  });

  it('a wait for a status goes on while the status can still come', () => {
    assert.ok(!isSettled('creating', 'ready'));
    assert.ok(!isSettled('idle', 'running'));
    assert.ok(!isSettled('ready', 'destroyed'));
  });

  it('a wait for a status is over when the status cannot come any more', () => {
    for (const ended of ['expiring', 'destroyed', 'failed'] as const) assert.ok(isSettled(ended, 'ready'));
    assert.ok(isSettled('ready', 'creating'));
  });
});
