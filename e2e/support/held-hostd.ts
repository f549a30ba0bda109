/** hostd, which stands still after it has frozen or thawed an instance, where a test says so. */
import { Freezing } from '../../packages/host/hostd/src/instances/freezing.ts';
import { holdAfter } from './held-steps.ts';

holdAfter(Freezing.prototype, 'freeze', ({ sandboxId }) => ({ sandboxId, step: 'P3' }));
holdAfter(Freezing.prototype, 'thaw', ({ sandboxId }) => ({ sandboxId, step: 'W2' }));

await import('../../packages/host/hostd/src/main.ts');
