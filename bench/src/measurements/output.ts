import type { Measurement, Row } from '../measurement.ts';
import { beside, figuresOf } from '../statistics.ts';
import { inTurns, timed } from '../timing.ts';

const FLOOD = "import sys\nfor _ in range(500): sys.stdout.write(('x' * 99 + '\\n') * 1000)";

/** Prints the time of each print. Client and sandbox are on one machine and share its clock. */
const printTimes = (times: number) =>
  `import time\nfor _ in range(${times}):\n    print(time.time_ns(), flush=True)\n    time.sleep(0.01)`;

export const output: Measurement = {
  name: 'output',
  title: 'output on its way',
  async measure(bench) {
    const subject = await bench.subject();
    const jupyter = await bench.peers.jupyter();
    const id = await subject.createReady();
    await subject.run(id, '1+1');

    const response = await subject.stream(id, printTimes(bench.rounds(300, 60)));
    const delays: number[] = [];
    for await (const chunk of response) {
      const now = performance.timeOrigin + performance.now();
      // A delayed chunk contains several times; the oldest has waited longest.
      for (const [, printedAt] of String(chunk).matchAll(/"stdout","data":"(\d{19})/g)) {
        delays.push(now - Number(printedAt) / 1e6);
      }
    }

    await jupyter?.startKernel('flood', '1+1');
    const floods = await inTurns(bench.rounds(7, 2), {
      cloche: () => timed(() => subject.run(id, FLOOD)),
      jupyter: jupyter && (() => jupyter.execute('flood', FLOOD)),
    });
    await jupyter?.stopKernel('flood');
    await subject.kill(id);
    const rows: Row[] = [
      {
        what: 'stream: print → client',
        unit: 'ms',
        subject: figuresOf(delays.slice(5)),
        targets: [{ atMost: 2 }],
        note: 'five prints to warm up; one each 10 ms',
      },
      {
        what: '50 MB of standard output through a run',
        unit: 'ms',
        subject: figuresOf(floods.cloche),
        targets: [{ atMost: 1000 }],
        peer: beside('jupyter_client execute', floods.jupyter),
        note: 'Cloche reads all and keeps its bound of it; Jupyter passes all on to the client',
      },
    ];
    return { rows };
  },
};
