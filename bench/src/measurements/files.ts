import { randomBytes } from 'node:crypto';
import type { Measurement, Row } from '../measurement.ts';
import { figuresOf } from '../statistics.ts';
import type { Subject } from '../subject.ts';
import { inTurns, timed } from '../timing.ts';

const LARGE_MB = 200;
const SMALL_BYTES = 4096;

/**
 * Uploads and downloads of files, compared with a plain copy on the same disk, the sandbox's own. All of them read from
 * the page cache or create a file. The time to remove created files is not counted.
 */
export const files: Measurement = {
  name: 'files',
  title: 'files',
  async measure(bench) {
    const subject = await bench.subject();
    const id = await subject.createReady();
    const path = (name: string) => `/v1/sandboxes/${id}/files/content?path=${name}`;
    const large = randomBytes(LARGE_MB * 1_000_000);
    const small = randomBytes(SMALL_BYTES);
    const from = '/workspace/large';
    await subject.http.send('PUT', path('large'), large);
    const rate = async (act: () => Promise<unknown>) => (LARGE_MB * 1000) / (await timed(act));
    const values = await inTurns(bench.rounds(7, 2), {
      write: async () => {
        const written = await rate(() => subject.http.send('PUT', path('new'), large));
        await subject.command(id, ['rm', '/workspace/new']);
        return written;
      },
      read: () => rate(() => subject.http.drain(path('large'))),
      copy: () => copyRate(subject, id, from),
    });
    const many = await inTurns(bench.rounds(300, 60), {
      write: () => timed(() => subject.http.send('PUT', path('small'), small)),
      read: () => timed(() => subject.http.receive(path('small'))),
    });
    await subject.kill(id);
    const peer = { name: 'cp in the sandbox', figures: figuresOf(values.copy) };
    const rows: Row[] = [
      {
        what: `write a file of ${LARGE_MB} MB`,
        unit: 'MB/s',
        subject: figuresOf(values.write),
        peer,
        ratioAtLeast: 0.5,
      },
      { what: `read a file of ${LARGE_MB} MB`, unit: 'MB/s', subject: figuresOf(values.read), peer, ratioAtLeast: 0.5 },
      { what: 'write a file of 4 KiB', unit: 'ms', subject: figuresOf(many.write) },
      { what: 'read a file of 4 KiB', unit: 'ms', subject: figuresOf(many.read) },
    ];
    return { rows };
  },
};

/** Returns the rate of a copy to a new file, as an upload creates one too. Timed inside the sandbox. */
async function copyRate(subject: Subject, id: string, from: string): Promise<number> {
  const code = [
    'import subprocess, time',
    'started = time.perf_counter()',
    `subprocess.run(['cp', '${from}', '${from}.copy'], check=True)`,
    'took = time.perf_counter() - started',
    `subprocess.run(['rm', '${from}.copy'], check=True)`,
    'print(took)',
  ];
  const { stdout } = await subject.run(id, code.join('\n'));
  return LARGE_MB / Number(stdout);
}
