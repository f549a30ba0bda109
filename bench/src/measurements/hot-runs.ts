import type { Measurement, Row } from '../measurement.ts';
import type { KernelConversation, KernelGatewayPeer } from '../peers/kernel-gateway.ts';
import { beside, figuresOf } from '../statistics.ts';
import { inTurns, perSecond, repeat, timed } from '../timing.ts';

const WARM_UP = 200;

/** One client and one context: each request waits for the previous response. */
export const hotRuns: Measurement = {
  name: 'hot',
  title: 'hot runs, one at a time',
  async measure(bench) {
    const subject = await bench.subject();
    const fastify = await bench.peers.fastify();
    const jupyter = await bench.peers.jupyter();
    const id = await subject.createReady();
    const run = () => timed(() => subject.run(id, '1+1'));
    const post = fastify && (() => timed(() => fastify.post()));
    const rounds = bench.rounds(3000, 800);
    await inTurns(WARM_UP, { run, post });
    const http = await inTurns(rounds, { run, post });

    await jupyter?.startKernel('hot', '1+1');
    const execute = jupyter && (() => jupyter.execute('hot', '1+1'));
    if (execute) await repeat(50, execute);
    const both = await inTurns(bench.rounds(500, 100), { run, execute });
    await jupyter?.stopKernel('hot');
    await subject.kill(id);
    const what = 'hot run of `1+1` over HTTP';
    const rows: Row[] = [
      {
        what,
        unit: 'ms',
        subject: figuresOf(http.run),
        targets: [{ atMost: 0.6 }, { of: 'p99', atMost: 2.5 }],
        peer: beside('empty POST to Fastify', http.post),
        ratioAtMost: 4,
        note: `${WARM_UP} of each to warm up; its idempotency record included`,
      },
      {
        what: `${what}, beside a kernel without HTTP`,
        unit: 'ms',
        subject: figuresOf(both.run),
        peer: beside('jupyter_client execute', both.execute),
        ratioAtLeast: 5,
        note: '50 to warm up',
      },
    ];
    return { rows };
  },
};

const CLIENTS = 16;
const CONTEXTS = 8;

/** Many clients at once: the number of runs a second of all together. */
export const throughput: Measurement = {
  name: 'throughput',
  title: 'hot runs a second',
  async measure(bench) {
    const subject = await bench.subject();
    const gateway = await bench.peers.kernelGateway();
    const id = await subject.createReady();
    const contextIds = await Promise.all(Array.from({ length: CONTEXTS }, () => subject.createContext(id, 'python')));
    const conversations = gateway ? await converse(gateway) : [];
    const cloche = (client: number) => subject.run(id, '1+1', { contextId: contextIds[client % CONTEXTS] });
    const peer = (client: number) => (conversations[client] as KernelConversation).execute('1+1');
    const lastMs = bench.rounds(3000, 1000);
    await perSecond(CLIENTS, 500, cloche);
    if (gateway) await perSecond(CLIENTS, 500, peer);
    const values = await inTurns(bench.rounds(5, 2), {
      cloche: () => perSecond(CLIENTS, lastMs, cloche),
      gateway: gateway && (() => perSecond(CLIENTS, lastMs, peer)),
    });
    for (const conversation of conversations) conversation.close();
    await subject.kill(id);
    const row: Row = {
      what: `hot runs a second, ${CLIENTS} clients, ${CONTEXTS} contexts`,
      unit: '/s',
      subject: figuresOf(values.cloche),
      targets: [{ atLeast: 1500 }],
      peer: beside('Jupyter kernel gateway', values.gateway),
      note: 'half a second of each to warm up; client and services share the processors',
    };
    return { rows: [row] };
  },
};

/** Opens a conversation for each client; two clients share a kernel. */
async function converse(gateway: KernelGatewayPeer): Promise<KernelConversation[]> {
  const kernels = await Promise.all(Array.from({ length: CONTEXTS }, () => gateway.startKernel()));
  const clients = Array.from({ length: CLIENTS }, (_, client) => kernels[client % CONTEXTS] ?? '');
  return Promise.all(clients.map((kernel) => gateway.connect(kernel)));
}
