/** The server, which stands still after steps of pauses and wakes that a test names. */
import { BeginMove } from '../../packages/service/server/src/features/pauses/begin-move.ts';
import { Freezer } from '../../packages/service/server/src/features/pauses/freezer.ts';
import { SqlSandboxRepository } from '../../packages/service/server/src/features/sandbox-records/sql-sandbox-repository.ts';
import { type HeldStep, holdAfter } from './held-steps.ts';

const MOVES: Readonly<Record<string, HeldStep>> = { finishPause: 'P4', finishWake: 'W5' };

// The moves that begin are part of a transaction, which must be over.
holdAfter(BeginMove.prototype, 'pause', ({ id }) => ({ sandboxId: id, step: 'P1' }));
holdAfter(BeginMove.prototype, 'wake', ({ id }) => ({ sandboxId: id, step: 'W1' }));
holdAfter(SqlSandboxRepository.prototype, 'move', ({ id }, move) => ({ sandboxId: id, step: MOVES[move] }));
holdAfter(Freezer.prototype, 'closeGate', ({ id }) => ({ sandboxId: id, step: 'P2' }));
holdAfter(Freezer.prototype, 'thaw', ({ id }) => ({ sandboxId: id, step: 'W3' }));

await import('../../packages/service/server/src/main.ts');
