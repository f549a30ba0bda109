import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { CurrentSandboxMetrics, SandboxId } from '@cloche/contract';
import picocolors from 'picocolors';
import { keysIn } from '../terminal/live-screen.ts';
import { frameOf, sparkline } from './top-frames.ts';
import { pressed, shownRows, type TopState } from './top-state.ts';

const LIST: TopState = { view: 'list', order: 'cpu', filter: '', isOnlyOne: false };
const IDS = ['sbx_a1', 'sbx_b2', 'sbx_c3'];

/** Returns the state after these keys, as a terminal sends them, and what they asked for. */
function after(keys: string, from: TopState = LIST) {
  let state = from;
  const actions: string[] = [];
  for (const key of keysIn(keys)) {
    const next = pressed(state, key, IDS);
    state = next.state;
    if (next.action) actions.push(next.action);
  }
  return { state, actions };
}

describe('the keys of cloche top', () => {
  it('the keys of cloche top select, show alone, sort, filter, help and quit', () => {
    for (const [keys, is, actions = []] of [
      ['\u001b[B', { selectedId: 'sbx_b2' }],
      ['\u001b[B\u001b[B\u001b[B\u001b[B', { selectedId: 'sbx_c3' }],
      ['\u001bOB\u001b[B\u001b[A', { selectedId: 'sbx_b2' }],
      ['\u001b[A', { selectedId: 'sbx_a1' }],
      ['\u001b[B\r', { view: 'one', selectedId: 'sbx_b2' }],
      ['\r\r', { view: 'list', selectedId: 'sbx_a1' }],
      ['s', { order: 'memory' }],
      ['ssssss', { order: 'cpu' }],
      ['/b2k', { view: 'filter', filter: 'b2k' }],
      ['/b2\u007f\r', { view: 'list', filter: 'b' }],
      ['/b\u001b', { view: 'list', filter: '' }],
      ['/\u001b[31m\u0007é日', { view: 'filter', filter: '' }],
      ['?', { view: 'help' }],
      ['?x', { view: 'list' }],
      ['q', {}, ['quit']],
      ['\u001b', {}, ['quit']],
      ['/\u0003', {}, ['quit']],
    ] as const) {
      const { state, actions: asked } = after(keys);
      for (const [name, value] of Object.entries(is)) assert.equal(state[name as keyof TopState], value, keys);
      assert.deepEqual(asked, actions, keys);
    }
  });

  it('destroy only after a question, which names the sandbox and the service', () => {
    const asked = after('\u001b[Bk');
    assert.deepEqual([asked.state.view, asked.state.selectedId, asked.actions], ['confirm', 'sbx_b2', []]);
    const options = { columns: 120, rows: 24, colors: picocolors.createColors(false), url: 'https://prod.example.com' };
    const [question] = frameOf(asked.state, { data: [], hasMore: false }, undefined, options);
    assert.equal(question, 'Destroy sbx_b2 at https://prod.example.com? y destroys it, any other key does not');
    for (const no of ['n', '\r', '\u001b', 'k', ' ', '\u001b[A'])
      assert.deepEqual(after(no, asked.state).actions, [], no);
    assert.deepEqual(after('y', asked.state).actions, ['destroy']);
  });

  it('the keys of cloche top leave the view of the only sandbox by quitting', () => {
    const only: TopState = { ...LIST, view: 'one', selectedId: 'sbx_a1', isOnlyOne: true };
    for (const keys of ['q', '\u001b', '\u0003']) assert.deepEqual(after(keys, only).actions, ['quit']);
    assert.equal(after('k', only).state.view, 'confirm');
    assert.equal(after('kn', only).state.view, 'one');
  });
});

describe('the screen of cloche top', () => {
  const measured = (id: string, cpu: number, memoryBytes: number) =>
    ({
      sandboxId: id as SandboxId,
      limits: { cpu: 1, memoryBytes: 1, diskBytes: 1, processes: 1 },
      now: { at: '', cpu, memoryBytes, networkBytes: { egress: 0, ingress: 0 } },
    }) as CurrentSandboxMetrics;

  it('the screen of cloche top has the rows that the filter lets through, in the order that was asked for', () => {
    const data = [measured('sbx_a', 1, 5), measured('sbx_b', 2, 3), measured('sbx_ab', 0, 9)];
    const ids = (order: TopState['order'], filter = '') =>
      shownRows(data, { order, filter }).map((one) => one.sandboxId);
    assert.deepEqual(ids('cpu'), ['sbx_b', 'sbx_a', 'sbx_ab']);
    assert.deepEqual(ids('memory'), ['sbx_ab', 'sbx_a', 'sbx_b']);
    assert.deepEqual(ids('id', 'a'), ['sbx_a', 'sbx_ab']);
  });

  it('the screen of cloche top keeps the selected row in sight', () => {
    const data = Array.from({ length: 50 }, (_, index) => measured(`sbx_${index}`, 50 - index, 0));
    const options = { columns: 80, rows: 10, colors: picocolors.createColors(false), url: '' };
    const lines = frameOf({ ...LIST, selectedId: 'sbx_40' }, { data, hasMore: false }, undefined, options);
    assert.ok(lines.slice(0, 10).some((line) => line.startsWith('sbx_40 ')));
  });

  it('the screen of cloche top shows which sandboxes are paused', () => {
    const data = [measured('sbx_live', 1, 5), { ...measured('sbx_asleep', 0, 9), paused: true }];
    const options = { columns: 80, rows: 10, colors: picocolors.createColors(false), url: '' };
    const lines = frameOf(LIST, { data, hasMore: false }, undefined, options);
    assert.match(lines[0] ?? '', /^2 sandboxes \(1 paused\), /);
    assert.match(lines.find((line) => line.startsWith('sbx_asleep')) ?? '', / paused /);
    assert.match(lines.find((line) => line.startsWith('sbx_live')) ?? '', / 1\.00\/1 /);
  });

  it('the screen of cloche top draws what was measured as bars, as many as there is room for', () => {
    assert.equal(sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8), '▁▂▃▄▅▆▇█');
    assert.equal(sparkline([0, 0, 7, 7], 2), '▁█');
    assert.equal(sparkline([1, 1], 60, 2), '▅▅');
    for (const [values, width] of [
      [[], 9],
      [[1], 0],
      [[0, 0], 2],
    ] as const) {
      assert.equal(sparkline(values, width).length, Math.min(values.length, width));
    }
  });
});
