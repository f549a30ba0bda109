import type { Measurement, Row } from '../measurement.ts';
import { beside, figuresOf } from '../statistics.ts';
import { inTurns, repeat, timed } from '../timing.ts';

/** Opening a further context in a running sandbox. */
export const contexts: Measurement = {
  name: 'contexts',
  title: 'a new context in a running sandbox',
  async measure(bench) {
    const subject = await bench.subject();
    const jupyter = await bench.peers.jupyter();
    const rows: Row[] = [];
    for (const [language, atMost] of [
      ['python', 15],
      ['javascript', 30],
    ] as const) {
      const id = await subject.createReady();
      const open = async () => {
        let contextId = '';
        const ms = await timed(async () => {
          contextId = await subject.createContext(id, language);
        });
        await subject.http.call('DELETE', `/v1/sandboxes/${id}/code/contexts/${contextId}`);
        return ms;
      };
      await open();
      const rounds = bench.rounds(50, 5);
      // Both languages are compared with a Jupyter kernel of Python.
      const startKernel = jupyter
        ? async (round: number) => {
            const ms = await jupyter.startKernel(`context-${language}-${round}`, '1');
            await jupyter.stopKernel(`context-${language}-${round}`);
            return ms;
          }
        : undefined;
      const values = await inTurns(rounds, { cloche: open, jupyter: startKernel });
      rows.push({
        what: `new context in a running sandbox, ${language}`,
        unit: 'ms',
        subject: figuresOf(values.cloche),
        targets: [{ atMost }],
        peer: beside('Jupyter kernel: start → first result', values.jupyter),
        note: 'one to warm up',
      });
      rows.push({
        what: `new context in a running sandbox, ${language}, one right after another`,
        unit: 'ms',
        subject: figuresOf(await repeat(rounds, open)),
        note: 'each is deleted before the next, which leaves no time to start a kernel ahead',
      });
      await subject.kill(id);
    }
    return { rows };
  },
};
