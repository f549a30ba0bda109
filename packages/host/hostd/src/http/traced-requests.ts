import { Stopwatch, TIMINGS_HEADER } from '@cloche/protocol';
import type { FastifyInstance } from 'fastify';
import type { OnStep } from '../launch/launcher.ts';

declare module 'fastify' {
  interface FastifyRequest {
    trace?: RequestTrace | undefined;
  }
}

interface RequestTrace {
  readonly id: string;
  readonly stopwatch: Stopwatch;
  readonly onStep: OnStep;
}

/** Tells the server what each of its traced requests took. */
export function timeTracedRequests(app: FastifyInstance): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const id = /^00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/.exec(String(request.headers.traceparent))?.[1];
    if (id !== undefined) {
      const stopwatch = new Stopwatch();
      request.trace = { id, stopwatch, onStep: (step, durationMs) => stopwatch.note(step, durationMs) };
    }
    done();
  });
  app.addHook('onSend', (request, reply, _payload, done) => {
    if (request.trace) reply.header(TIMINGS_HEADER, request.trace.stopwatch.read());
    done();
  });
}
