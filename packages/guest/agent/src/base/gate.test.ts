import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { afterEach, beforeEach, describe, it, mock } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { GATE_TICKS } from '@cloche/protocol';
import { Gate } from './gate.ts';

describe('the gate', () => {
  beforeEach(() => mock.timers.enable({ apis: ['setInterval'] }));
  afterEach(() => mock.timers.reset());

  it('the gate opens by itself after its ticks, which begin again with each pause', () => {
    const gate = new Gate();
    gate.requireOpen();
    gate.close('one');
    assert.throws(() => gate.requireOpen(), { code: 'pausing', status: 409 });
    for (let tick = 1; tick < GATE_TICKS; tick += 1) mock.timers.tick(1000);
    gate.close('one');
    for (let tick = 1; tick < GATE_TICKS; tick += 1) mock.timers.tick(1000);
    assert.equal(gate.isClosed, true);
    mock.timers.tick(1000);
    assert.equal(gate.isClosed, false);
    gate.close('two');
    assert.equal(gate.isClosed, true);
  });

  it('the gate is opened by the token of the last pause alone, any number of times', () => {
    const gate = new Gate();
    gate.open('none');
    gate.close('one');
    gate.close('two');
    gate.open('one');
    assert.equal(gate.isClosed, true);
    for (let times = 0; times < 2; times += 1) gate.open('two');
    assert.equal(gate.isClosed, false);
  });

  it('the gate ends the streams that are open when it closes, and no others', () => {
    const gate = new Gate();
    const makeStream = () => Object.assign(new EventEmitter(), { destroyed: 0, destroy: () => undefined as unknown });
    const [open, closed] = [makeStream(), makeStream()];
    for (const stream of [open, closed]) {
      stream.destroy = () => {
        stream.destroyed += 1;
        stream.emit('close');
      };
      gate.endAtClosing(stream);
    }
    closed.emit('close');
    gate.close('one');
    gate.close('one');
    assert.deepEqual([open.destroyed, closed.destroyed], [1, 0]);
  });

  it('the gate holds the times that it measures while it is closed', async () => {
    const gate = new Gate();
    const ended: string[] = [];
    gate.startTimer(() => ended.push('before'), 20);
    const cleared = gate.startTimer(() => ended.push('cleared'), 20);
    gate.close('one');
    gate.startTimer(() => ended.push('meanwhile'), 20);
    gate.clearTimer(cleared);
    await delay(60);
    assert.deepEqual(ended, []);
    gate.open('one');
    await delay(60);
    assert.deepEqual(ended.sort(), ['before', 'meanwhile']);
    gate.clearTimer(cleared);
    gate.clearTimer(undefined);
  });
});
