import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { chartOf, dataOf } from './e2b-chart.ts';

const textOf = (axes: object[], more = {}) => JSON.stringify(chartOf(JSON.stringify({ type: 'x', axes, ...more })));
const chart = (axes: object[], more = {}) => JSON.parse(textOf(axes, more)) as Record<string, unknown>;
const NO_UNITS = { x_unit: null, y_unit: null };

describe('a chart of E2B', () => {
  it('a chart of E2B is a line with its axes and the units in their labels', () => {
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

  it('a chart of E2B is a scatter, bars, a pie and boxes', () => {
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

  it('a chart of E2B has numbers that Python does not take for integers', () => {
    const axis = { ticks: [0, 0.5, -2, 1e21, null], labels: ['t'] };
    const cases: Readonly<Record<string, readonly [series: object, numbers: string[]]>> = {
      line: [{ x: ['a', 7], y: [8, null] }, ['0.0', '0.5', '-2.0', '1e+21', '8.0', '7.0']],
      scatter: [{ x: [0.25], y: [-1] }, ['0.0', '0.5', '-2.0', '1e+21', '0.25', '-1.0']],
      bar: [{ x: ['a'], y: [11] }, ['11.0']],
      pie: [{ x: ['a'], y: [0.25], radii: [12] }, ['90.0', '12.0']],
      box: [{ y: [1, 2, 3, 4, 5], outliers: [9] }, ['1.0', '2.0', '3.0', '4.0', '5.0', '9.0']],
    };
    const numbersOf = (text: string) => [...text.matchAll(/(?<=[:[,])-?\d[\d.e+]*/g)].map(([number]) => number);
    for (const [type, [series, numbers]] of Object.entries(cases)) {
      const axes = { x: axis, series: [{ type, ...series }] };
      assert.deepEqual(numbersOf(textOf([axes])), numbers, type);
      assert.deepEqual(numbersOf(textOf([axes, axes])), [...numbers, ...numbers], type);
    }
  });

  it('a chart of E2B is unknown where something is drawn that is no series, also in one of several axes', () => {
    assert.deepEqual(chart([{ title: 'Circles', series: [], others: ['Circle'] }]), {
      ...{ type: 'unknown', title: 'Circles', elements: [] },
    });
    const line = { type: 'line', x: [1, 2], y: [3, 4] };
    assert.equal(chart([{ series: [line], others: ['PolyCollection'] }]).type, 'unknown');
    const { title, elements } = chart([{ series: [line] }, { series: [] }, { others: ['AxesImage'] }]);
    const types = (elements as { type: string }[]).map(({ type }) => type);
    assert.deepEqual([title, types], ['', ['line', 'line', 'unknown']]);
  });

  it('a chart of E2B leaves out lines that E2B takes for a grid', () => {
    const level = { type: 'line', x: [0, 1], y: [2, 2] };
    const labelsOf = (...series: object[]) =>
      (chart([{ series }]).elements as { label: string }[]).map((each) => each.label);
    const line = { type: 'line', x: [1, 2], y: [3, 4] };
    const unlike = { type: 'line', x: [1, 2], y: [null, null] };
    assert.deepEqual(labelsOf(level, line, { ...level, x: [3, 3], y: [0, 1] }, unlike), ['Line 1', 'Line 3']);
    assert.deepEqual(labelsOf(level, { type: 'bar', x: ['a'], y: [1] }), ['a']);
    assert.deepEqual(labelsOf(level, { type: 'scatter', x: [1], y: [1] }), ['_child0']);
  });

  it('a chart of E2B names bars of groups by the ticks that they stand beside, and others by where they stand', () => {
    const series = [{ type: 'bar', x: [-0.2, 0.8], y: [1, 2] }];
    const namesOf = (labels: string[]) =>
      (chart([{ x: { labels }, series }]).elements as { label: string }[]).map(({ label }) => label);
    assert.deepEqual(namesOf(['a', 'b']), ['a', 'b']);
    assert.deepEqual(namesOf(['\u22120.5', '1']), ['-0.2', '0.8']);
    assert.deepEqual(namesOf(['a', 'b', 'c']), ['-0.2', '0.8']);
  });

  it('a chart of E2B has times of numpy without their nanoseconds', () => {
    const x = ['2026-01-03T00:00:00.000000000', '2026-01-03T00:00:00.5', 'a.000000000'];
    const [element] = chart([{ series: [{ type: 'line', x, y: [1, 2, 3] }] }]).elements as { points: string[][] }[];
    const found = element?.points.map(([time]) => time);
    assert.deepEqual(found, ['2026-01-03T00:00:00', '2026-01-03T00:00:00.5', 'a.000000000']);
  });

  it('a chart of E2B is a superchart for several axes, and unknown for a mixture', () => {
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
    it(`a chart of E2B is none of ${text.slice(0, 20)}`, () => assert.equal(chartOf(text), undefined));
  }

  for (const axes of [
    {},
    { series: 5 },
    { series: [5] },
    { series: [{ type: 'line', x: 5 }] },
    { series: [{ type: 'pie', y: {} }] },
  ]) {
    it(`a chart of E2B of ${JSON.stringify(axes)} ends nothing`, () =>
      assert.equal(typeof chart([axes]).type, 'string'));
  }
});

it('a table of E2B has the values of each column', () => {
  const table = { columns: [{ name: 'a' }, { name: 'b c' }], rows: [[1, 'x'], [2], 5] };
  assert.deepEqual(dataOf(JSON.stringify(table)), { a: [1, 2, null], 'b c': ['x', null, null] });
  assert.deepEqual(dataOf('no JSON'), {});
});
