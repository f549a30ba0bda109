import type { Curve } from '../measurement.ts';

const WIDTH = 760;
const HEIGHT = 400;
const MARGIN = { top: 64, right: 150, bottom: 56, left: 70 };
const RIGHT = WIDTH - MARGIN.right;
const BOTTOM = HEIGHT - MARGIN.bottom;
/** Distance between two labels. */
const LABEL_PX = 16;
const COLORS = ['#1f6feb', '#d1570a', '#1a7f37', '#8250df'];
const INK = '#1f2328';
const FAINT = '#656d76';
const RULE = '#e4e8ec';

/**
 * Draws latency (logarithmic) by live sandboxes as one SVG: each curve shows the median, in a band up to the 95th
 * percentile.
 */
export function renderPlot(curves: readonly Curve[]): string {
  const points = curves.flatMap(({ points: own }) => own);
  const most = Math.max(1, ...points.map(({ live }) => live));
  const [low, high] = decades(points.flatMap(({ ms, p95 = ms }) => [ms, p95]));
  const x = (live: number) => round(MARGIN.left + (live / most) * (RIGHT - MARGIN.left));
  const y = (ms: number) => round(BOTTOM - ((Math.log10(ms) - low) / (high - low)) * (BOTTOM - MARGIN.top));
  const lives = [...new Set(points.map(({ live }) => live))];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="12" fill="${FAINT}">`,
    '<title>Latency against live sandboxes</title>',
    `<rect width="${WIDTH}" height="${HEIGHT}" rx="6" fill="white"/>`,
    `<text x="${MARGIN.left}" y="28" font-size="15" font-weight="600" fill="${INK}">Latency against live sandboxes</text>`,
    `<text x="${MARGIN.left}" y="46">median, and shaded up to the 95th percentile; milliseconds, logarithmic</text>`,
    ...gridLines(low, high, y),
    ...lives.map((live) => `<path d="M${x(live)} ${BOTTOM}v5" stroke="${FAINT}"/>`),
    ...lives.map((live) => `<text x="${x(live)}" y="${BOTTOM + 20}" text-anchor="middle">${live}</text>`),
    `<text x="${(MARGIN.left + RIGHT) / 2}" y="${HEIGHT - 12}" text-anchor="middle">live sandboxes, each with pandas imported</text>`,
    ...curves.flatMap((curve, index) => drawCurve(curve, COLORS[index % COLORS.length] ?? INK, x, y)),
    ...labels(curves, x, y),
    '</svg>',
    '',
  ].join('\n');
}

type Scale = (value: number) => number;

/** Draws a line for each power of ten, and fainter lines at twice and five times as much. */
function gridLines(low: number, high: number, y: Scale): string[] {
  const lines: string[] = [];
  for (let power = low; power <= high; power += 1) {
    for (const times of power < high ? [1, 2, 5] : [1]) {
      const ms = Number((times * 10 ** power).toPrecision(1));
      const dashes = times === 1 ? '' : ' stroke-dasharray="2 4"';
      lines.push(`<path d="M${MARGIN.left} ${y(ms)}H${RIGHT}" stroke="${RULE}"${dashes}/>`);
      lines.push(`<text x="${MARGIN.left - 10}" y="${round(y(ms) + 4)}" text-anchor="end">${ms} ms</text>`);
    }
  }
  return lines;
}

function drawCurve({ points }: Curve, color: string, x: Scale, y: Scale): string[] {
  const median = points.map(({ live, ms }) => `${x(live)},${y(ms)}`);
  const above = points.map(({ live, ms, p95 = ms }) => `${x(live)},${y(p95)}`);
  return [
    `<polygon fill="${color}" fill-opacity="0.12" points="${[...above, ...median.toReversed()].join(' ')}"/>`,
    `<polyline fill="none" stroke="${color}" stroke-width="2.5" stroke-linejoin="round" points="${median.join(' ')}"/>`,
    ...points.map(
      ({ live, ms }) =>
        `<circle cx="${x(live)}" cy="${y(ms)}" r="4" fill="white" stroke="${color}" stroke-width="2"><title>${live} live: ${figure(ms)} ms</title></circle>`,
    ),
  ];
}

/** Places each label next to the end of its curve, without overlap. */
function labels(curves: readonly Curve[], x: Scale, y: Scale): string[] {
  const wanted = curves.flatMap(({ title, points }, index) => {
    const last = points.at(-1);
    return last ? [{ title, last, index, at: y(last.ms) }] : [];
  });
  let lowest = MARGIN.top - 2 * LABEL_PX;
  return wanted
    .toSorted((one, other) => one.at - other.at)
    .map(({ title, last, index, at }) => {
      lowest = Math.max(at, lowest + 2 * LABEL_PX);
      const left = round(x(last.live) + 14);
      const color = COLORS[index % COLORS.length];
      return `<text x="${left}" y="${round(lowest)}" fill="${color}" font-weight="600">${asText(title)}<tspan x="${left}" dy="${LABEL_PX}" font-weight="400">${figure(last.ms)} ms</tspan></text>`;
    });
}

/** Returns the powers of ten below and above all values. */
function decades(values: readonly number[]): [low: number, high: number] {
  const positive = values.filter((value) => value > 0);
  const low = Math.floor(Math.log10(Math.min(1, ...positive)));
  return [low, Math.max(low + 1, Math.ceil(Math.log10(Math.max(10, ...positive))))];
}

function figure(ms: number): string {
  return ms.toFixed(ms < 10 ? 2 : 1);
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function asText(text: string): string {
  return text.replace(/[&<>]/g, (character) => `&#${character.charCodeAt(0)};`);
}
