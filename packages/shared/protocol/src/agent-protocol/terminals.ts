/**
 * Server ↔ agent: terminals. `GET /terminals/:id?…` with `Upgrade: cloche-terminal` → 101, then frames of bytes
 * (`byte-frames.ts`). A query with all of `columns`, `rows`, `user` and `idleMs` starts a new terminal; with
 * `place`, bash's prompt has that name in place of the host's. Without a query, the request joins an existing one, which
 * first sends the content of its screen.
 *
 * | to the agent | | from the agent | |
 * |---|---|---|---|
 * | `I` | input | `O` | output |
 * | `R` | `columns rows` | `X` | exit code of the shell; the last frame |
 */
export const TERMINAL_PROTOCOL = 'cloche-terminal';

/** Terminals of one sandbox at a time. */
export const MAX_TERMINALS = 32;
