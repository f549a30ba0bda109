import { Counter, Histogram, type Registry } from 'prom-client';
import type { Judgement } from './archive-judge.ts';

/** Metrics of uploaded archives, for operators. */
export class ArchiveMetrics {
  readonly #judged: Counter<'result'>;
  readonly #seconds: Histogram;

  constructor(metrics: Registry) {
    this.#judged = new Counter({
      name: 'cloche_workspace_archives_judged_total',
      help: 'Archives of workspace runs that were uploaded: accepted or refused.',
      labelNames: ['result'],
      registers: [metrics],
    });
    for (const result of ['accepted', 'refused']) this.#judged.inc({ result }, 0);
    this.#seconds = new Histogram({
      name: 'cloche_workspace_archive_judge_seconds',
      help: 'Time to judge an archive, including its wait for a thread.',
      buckets: [0.05, 0.2, 1, 5, 20, 60, 300],
      registers: [metrics],
    });
  }

  async measure(judge: () => Promise<Judgement>): Promise<Judgement> {
    const end = this.#seconds.startTimer();
    const judgement = await judge();
    end();
    this.#judged.inc({ result: judgement.status });
    return judgement;
  }
}
