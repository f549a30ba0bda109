import assert from 'node:assert/strict';
import { it } from 'node:test';
import { renderPlot } from './plot.ts';

it('a plot has each curve within its frame, slower ones higher up', () => {
  const slow = {
    title: 'create <cold>',
    points: [
      { live: 1, ms: 40 },
      { live: 700, ms: 60 },
    ],
  };
  const fast = {
    title: 'hot',
    points: [
      { live: 1, ms: 0.5 },
      { live: 700, ms: 0.6 },
    ],
  };
  const svg = renderPlot([slow, fast]);
  const lines = [...svg.matchAll(/<polyline[^>]* points="([^"]+)"/g)].map(([, points = '']) =>
    points.split(' ').map((point) => point.split(',').map(Number)),
  );
  assert.equal(lines.length, 2);
  for (const [x = -1, y = -1] of lines.flat()) assert.ok(x >= 0 && x <= 760 && y >= 0 && y <= 400, `${x},${y}`);
  assert.ok((lines[0]?.[0]?.[1] ?? 0) < (lines[1]?.[0]?.[1] ?? 0));
  assert.ok(svg.includes('create &#60;cold&#62;'));
});
