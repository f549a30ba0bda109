import { readFileSync } from 'node:fs';
import type { HttpClient } from '../http-client.ts';
import type { Measurement, Row } from '../measurement.ts';
import { APP_FILE, AppPeer } from '../peers/app.ts';
import { figuresOf } from '../statistics.ts';
import type { Subject } from '../subject.ts';
import { inTurns, perSecond, timed } from '../timing.ts';

const PORT = 8000;
const LARGE_MB = 200;
const CLIENTS = 16;
const URL_INSIDE = `http://127.0.0.1:${PORT}`;

/**
 * A server in a sandbox: reached through a preview, compared with the same server on the host and with curl in the
 * sandbox.
 */
export const previews: Measurement = {
  name: 'previews',
  title: 'previews',
  fullOnly: true,
  async measure(bench) {
    const subject = await bench.subject();
    await using host = await AppPeer.start();
    const id = await subject.createReady({ networkPolicy: { mode: 'deny-all' } });
    await subject.http.send('PUT', `/v1/sandboxes/${id}/files/content?path=app.mjs`, readFileSync(APP_FILE));
    await subject.start(id, ['node', 'app.mjs', `${PORT}`]);
    const wait = ['--retry', '50', '--retry-connrefused', '--retry-delay', '0', '--retry-max-time', '10'];
    await subject.command(id, ['curl', '-s', ...wait, URL_INSIDE]);
    await subject.command(id, ['truncate', '-s', `${LARGE_MB}MB`, 'large']);
    const preview = await subject.openPreview(id, PORT);

    const ask = (http: HttpClient) => () => timed(() => http.receive('/100'));
    await inTurns(20, { preview: ask(preview), host: ask(host.http) });
    const single = await inTurns(bench.rounds(500, 100), { preview: ask(preview), host: ask(host.http) });
    const many = (http: HttpClient) => () => perSecond(CLIENTS, bench.rounds(1500, 500), () => http.receive('/100'));
    const crowd = await inTurns(bench.rounds(4, 2), { preview: many(preview), host: many(host.http) });
    const large = Buffer.alloc(LARGE_MB * 1_000_000);
    const rate = async (act: () => Promise<unknown>) => (LARGE_MB * 1000) / (await timed(act));
    const bulk = await inTurns(bench.rounds(4, 2), {
      down: () => rate(() => preview.drain(`/${large.length}`)),
      downInside: () => curlRate(subject, id, 'download', [`${URL_INSIDE}/${large.length}`]),
      up: () => rate(() => preview.send('POST', '/', large)),
      upInside: () => curlRate(subject, id, 'upload', ['-T', 'large', URL_INSIDE]),
    });
    preview.close();
    await subject.kill(id);
    const onHost = (values: readonly number[]) => ({ name: 'the same server on the host', figures: figuresOf(values) });
    const inside = (values: readonly number[]) => ({ name: 'curl in the sandbox', figures: figuresOf(values) });
    const rows: Row[] = [
      {
        what: 'a request through a preview',
        unit: 'ms',
        subject: figuresOf(single.preview),
        peer: onHost(single.host),
        note: 'twenty to warm up; each has a connection of its own into the sandbox',
      },
      {
        what: `requests through a preview a second, ${CLIENTS} clients`,
        unit: '/s',
        subject: figuresOf(crowd.preview),
        peer: onHost(crowd.host),
      },
      {
        what: `${LARGE_MB} MB out of a preview`,
        unit: 'MB/s',
        subject: figuresOf(bulk.down),
        peer: inside(bulk.downInside),
      },
      { what: `${LARGE_MB} MB into a preview`, unit: 'MB/s', subject: figuresOf(bulk.up), peer: inside(bulk.upInside) },
    ];
    return { rows };
  },
};

/** Returns the rate that curl reports, in MB/s. */
async function curlRate(subject: Subject, id: string, way: string, args: readonly string[]): Promise<number> {
  const printed = await subject.command(id, ['curl', '-s', '-o', '/dev/null', '-w', `%{speed_${way}}`, ...args]);
  return Number(printed) / 1e6;
}
