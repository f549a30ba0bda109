/** The parts for commands of other packages: `@cloche/setup` adds commands for the host of a service. */
export { CliError, OperatorError, UsageError } from './cli-error.ts';
export { group, leaf, perform } from './command.ts';
export { scopesOf } from './commands/key.ts';
export { showQuotas } from './commands/quota.ts';
export { watchForInterruption } from './interruption.ts';
export { duration, list, quota } from './option-values.ts';
export type { Session } from './session.ts';
export { formatAge, formatLeft } from './terminal/duration.ts';
export { jsonLine } from './terminal/printable.ts';
export { type Column, table } from './terminal/table.ts';
export { CLEAR_LINE, type Colors } from './terminal/terminal.ts';
