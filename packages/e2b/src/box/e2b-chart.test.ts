import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { chartOf, dataOf } from './e2b-chart.ts';

const chart = (axes: object[], more = {}) =>
  chartOf(JSON.stringify({ type: 'x', axes, ...more })) as Record<string, unknown>;
const NO_UNITS = { x_unit: null, y_unit: null };

describe('a chart of E2B', () => {
  it('is a line with its axes and the units in their labels', () => {
    const x = { scale: 'datetime', ticks: ['2026-01-01'], labels: ['Jan'] };
    const series = [
      { type: 'line', x: ['2026-01-01'], y: [1], label: 'sin' },
      { type: 'line', x: [1, 2], y: [3] },
    ];
    assert.deepEqual(chart([{ title: 't', xLabel: 'Time (s)', yLabel: 'Level [Hz]', x, series }]), {
      ...{ type: 'line', title: 't', x_label: 'Time (s)', y_label: 'Level [Hz]', x_unit: 's', y_unit: 'Hz' },
      ...{ x_ticks: ['2026-01-01'], x_tick_labels: ['Jan'], x_scale: 'datetime' },
      ...{ y_ticks: [], y_tick_labels: [], y_scale: 'linear' },
      elements: [
        { label: 'sin', points: [['2026-01-01', 1]] },
        {
          label: 'Line 1',
          points: [
            [1, 3],
            [2, null],
          ],
        },
      ],
    });
  });

  it('is a scatter, bars, a pie and boxes', () => {
    assert.equal(chart([{ series: [{ type: 'scatter', x: [1], y: [2] }] }]).type, 'scatter');
    const bars = { type: 'bar', x: ['a', 2], y: [1, 2] };
    assert.deepEqual(chart([{ xLabel: 'x', series: [bars] }]), {
      ...{ type: 'bar', title: null, x_label: 'x', y_label: null, ...NO_UNITS },
      elements: [
        { label: 'a', group: 'Group 0', value: 1 },
        { label: '2', group: 'Group 0', value: 2 },
      ],
    });
    assert.equal(chart([{ xLabel: 'x', series: [{ ...bars, horizontal: true }] }]).y_label, 'x');
    assert.deepEqual(chart([{ series: [{ type: 'pie', x: ['a', 'b'], y: [0.9, 0.1], radii: [1, 2] }] }]).elements, [
      { label: 'a', angle: 324, radius: 1 },
      { label: 'b', angle: 36, radius: 2 },
    ]);
    const box = { type: 'box', label: 'a', y: [1, 2, 3, 4, 5], outliers: [9] };
    assert.deepEqual(chart([{ series: [box] }]).elements, [
      { label: 'a', min: 1, first_quartile: 2, median: 3, third_quartile: 4, max: 5, outliers: [9] },
    ]);
  });

  it('is a superchart for several axes, and unknown for a mixture', () => {
    const line = { series: [{ type: 'line', x: [1], y: [2] }] };
    const mixed = { series: [{ type: 'line' }, { type: 'bar' }] };
    const { type, title, elements } = chart([line, mixed], { title: 'all' });
    assert.deepEqual([type, title], ['superchart', 'all']);
    assert.deepEqual(
      (elements as { type: string }[]).map((each) => each.type),
      ['line', 'unknown'],
    );
  });

  for (const text of ['', 'no JSON', 'null', '[]', '{}', '{"axes":5}', '{"axes":[]}', '['.repeat(100_000)]) {
    it(`is none of ${text.slice(0, 20)}`, () => assert.equal(chartOf(text), undefined));
  }

  for (const axes of [
    {},
    { series: 5 },
    { series: [5] },
    { series: [{ type: 'line', x: 5 }] },
    { series: [{ type: 'pie', y: {} }] },
  ]) {
    it(`of ${JSON.stringify(axes)} ends nothing`, () => assert.equal(typeof chart([axes]).type, 'string'));
  }
});

it('a table of E2B has the values of each column', () => {
  const table = { columns: [{ name: 'a' }, { name: 'b c' }], rows: [[1, 'x'], [2], 5] };
  assert.deepEqual(dataOf(JSON.stringify(table)), { a: [1, 2, null], 'b c': ['x', null, null] });
  assert.deepEqual(dataOf('no JSON'), {});
});
