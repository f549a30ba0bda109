import type { Measurement, Row } from '../measurement.ts';
import { UPSTREAM_ADDRESS, Upstream } from '../peers/upstream.ts';
import { figuresOf } from '../statistics.ts';
import { Subject } from '../subject.ts';
import { inTurns } from '../timing.ts';

const BYTES = 200_000_000;

/** Cost of the gateway: a sandbox with an allowlist and one without send requests to the same server. */
export const gateway: Measurement = {
  name: 'gateway',
  title: 'traffic through the gateway',
  fullOnly: true,
  async measure(bench) {
    await using upstream = await Upstream.start();
    const subject = await Subject.open({ CLOCHE_EGRESS_EXTRA_CA: upstream.rootFile });
    try {
      const plain = await subject.createReady();
      const gated = await subject.createReady({ networkPolicy: { mode: 'allowlist', hosts: [UPSTREAM_ADDRESS] } });
      const rows: Row[] = [];
      for (const scheme of ['http', 'https'] as const) {
        const url = `${scheme}://${UPSTREAM_ADDRESS}`;
        rows.push(...(await compare(scheme, url, { plain, gated, subject, rounds: bench.rounds(5, 2) })));
      }
      return { rows };
    } finally {
      await subject.close();
    }
  },
};

interface Compared {
  plain: string;
  gated: string;
  subject: Subject;
  rounds: number;
}

async function compare(scheme: string, url: string, { plain, gated, subject, rounds }: Compared): Promise<Row[]> {
  const requests = 1000;
  const both = async (code: string) => {
    const values = { plain: [] as number[], gated: [] as number[] };
    const act = (name: keyof typeof values, id: string) => async () => {
      const { stdout } = await subject.run(id, code);
      return values[name].push(...stdout.trim().split(' ').map(Number));
    };
    await inTurns(rounds, { plain: act('plain', plain), gated: act('gated', gated) });
    return values;
  };
  const download = curl(`['-w', '%{speed_download}', '-o', '/dev/null', '${url}/${BYTES}']`, 'float(out) / 1e6');
  // Each sandbox keeps one connection; curl expands the range of addresses.
  const sequential = curl(
    `['-w', '%{time_total} ', '-o', '/dev/null', '${url}/[1-${requests}]']`,
    '*[float(seconds) * 1e3 for seconds in out.split()]',
  );
  const parallel = curl(
    `['-Z', '--parallel-max', '16', '-o', '/dev/null', '${url}/[1-${requests}]']`,
    `${requests} / elapsed`,
  );
  await both(curl(`['-o', '/dev/null', '${url}/[1-50]']`, '0'));
  const rows: Row[] = [];
  for (const [what, unit, code, atLeast] of [
    [`${scheme}: one download of ${BYTES / 1e6} MB`, 'MB/s', download, 150],
    [`${scheme}: a request, one after another`, 'ms', sequential, undefined],
    [`${scheme}: requests a second, 16 at once`, '/s', parallel, 500],
  ] as const) {
    const values = await both(code);
    rows.push({
      what,
      unit,
      subject: figuresOf(values.gated),
      ...(atLeast !== undefined && { targets: [{ atLeast }] }),
      peer: { name: 'the same sandbox without a policy', figures: figuresOf(values.plain) },
      note: 'by curl in the sandbox; 50 requests to warm up; server, gateway and curl share the processors',
    });
  }
  return rows;
}

/** Returns Python that prints the figures of one curl: `out` is its output, `elapsed` its duration in seconds. */
function curl(args: string, figure: string): string {
  return [
    'import subprocess, time',
    'begin = time.perf_counter()',
    `out = subprocess.run(['curl', '-sSfk', *${args}], check=True, capture_output=True, text=True).stdout`,
    'elapsed = time.perf_counter() - begin',
    `print(${figure})`,
  ].join('\n');
}
