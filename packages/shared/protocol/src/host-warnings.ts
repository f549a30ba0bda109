import { type Static, Type } from 'typebox';
import { Sentence, Word } from './bounded.ts';

/** Something of this host that keeps sandboxes from the network, although code runs. */
export const HostWarning = Type.Object({
  /** A name of `HOST_CHECKS` in the contract; a newer hostd may have more. */
  check: Word,
  message: Sentence,
  /** Sentences; commands are between backticks. */
  remedy: Sentence,
});
export type HostWarning = Static<typeof HostWarning>;

export const HostWarningList = Type.Object({ warnings: Type.Array(HostWarning, { maxItems: 16 }) });
export type HostWarningList = Static<typeof HostWarningList>;
