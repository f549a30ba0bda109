/**
 * The agent's interface for terminals: `GET /terminals/:id?…` with `Upgrade: cloche-terminal` → 101, then frames of bytes
 * (`byte-frames.ts`). The query of a new one says all of `columns`, `rows`, `user` and `idleMs`; without it a terminal is
 * joined that is there: what its screen shows is told first.
 *
 * | to the agent | | from the agent | |
 * |---|---|---|---|
 * | `I` | what is typed | `O` | what is shown |
 * | `R` | `columns rows` | `X` | exit code of the shell; last |
 */
export const TERMINAL_PROTOCOL = 'cloche-terminal';

/** Terminals of one sandbox at a time. */
export const MAX_TERMINALS = 32;
