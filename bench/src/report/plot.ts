import type { Curve } from '../measurement.ts';

const WIDTH = 720;
const HEIGHT = 360;
const MARGIN = { top: 24, right: 160, bottom: 44, left: 64 };
const COLORS = ['#1f6feb', '#d1570a', '#1a7f37', '#8250df'];

/** Latency (logarithmic) against live sandboxes, as one SVG. */
export function renderPlot(curves: readonly Curve[]): string {
  const points = curves.flatMap(({ points: own }) => own);
  const most = Math.max(1, ...points.map(({ live }) => live));
  const [low, high] = decades(points.map(({ ms }) => ms));
  const x = (live: number) => MARGIN.left + (live / most) * (WIDTH - MARGIN.left - MARGIN.right);
  const y = (ms: number) => {
    const share = (Math.log10(ms) - low) / (high - low);
    return HEIGHT - MARGIN.bottom - share * (HEIGHT - MARGIN.top - MARGIN.bottom);
  };
  const right = WIDTH - MARGIN.right;
  const lines = Array.from({ length: high - low + 1 }, (_, index) => 10 ** (low + index)).flatMap((ms) => [
    `<line x1="${MARGIN.left}" x2="${right}" y1="${at(y(ms))}" y2="${at(y(ms))}" stroke="#d0d7de"/>`,
    `<text x="${MARGIN.left - 8}" y="${at(y(ms) + 4)}" text-anchor="end">${ms} ms</text>`,
  ]);
  const lives = [...new Set(points.map(({ live }) => live))].map(
    (live) => `<text x="${at(x(live))}" y="${HEIGHT - MARGIN.bottom + 18}" text-anchor="middle">${live}</text>`,
  );
  const drawn = curves.flatMap(({ title, points: own }, index) => {
    const color = COLORS[index % COLORS.length];
    const last = own.at(-1);
    return [
      `<polyline fill="none" stroke="${color}" stroke-width="2" points="${own.map(({ live, ms }) => `${at(x(live))},${at(y(ms))}`).join(' ')}"/>`,
      ...own.map(({ live, ms }) => `<circle cx="${at(x(live))}" cy="${at(y(ms))}" r="3" fill="${color}"/>`),
      last
        ? `<text x="${at(x(last.live) + 10)}" y="${at(y(last.ms) + 4)}" fill="${color}">${asText(title)}</text>`
        : '',
    ];
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="white"/>`,
    ...lines,
    ...lives,
    `<text x="${(MARGIN.left + right) / 2}" y="${HEIGHT - 8}" text-anchor="middle">live sandboxes</text>`,
    ...drawn,
    '</svg>',
    '',
  ].join('\n');
}

/** The powers of ten below and above all values. */
function decades(values: readonly number[]): [low: number, high: number] {
  const positive = values.filter((value) => value > 0);
  const low = Math.floor(Math.log10(Math.min(1, ...positive)));
  return [low, Math.max(low + 1, Math.ceil(Math.log10(Math.max(10, ...positive))))];
}

function at(value: number): string {
  return value.toFixed(1);
}

function asText(text: string): string {
  return text.replace(/[&<>]/g, (character) => `&#${character.charCodeAt(0)};`);
}
