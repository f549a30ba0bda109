import { type AppError, unavailable } from '../../base/app-error.ts';

/** Error codes of Node.js and SQLSTATEs, or their two-character classes, after which a repeated request may succeed. */
const PASSING: readonly string[] = [
  ...['ECONNREFUSED', 'ECONNRESET', 'ENOENT', 'ENOTFOUND', 'EAI_AGAIN', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH'],
  // Connection failures, shutdown and crash of the server, too many connections.
  ...['08', '57P', '53300'],
  // A deadlock, a lock or a statement that took too long, a transaction that stood still.
  ...['40P01', '55P03', '57014', '25P03'],
];
/** Connections that one server uses: 16 of its pool, one for its lease and one for notifications. */
const CONNECTIONS_OF_A_SERVER = 18;
/** Messages of `pg` for a lost connection, which have no code. */
const LOST =
  /^(Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Client was closed)/;

/** Returns the error for clients if the failure is temporary, or undefined for any other failure. */
export function passingFailure(error: unknown): AppError | undefined {
  if (!(error instanceof Error)) return undefined;
  const code = codeOf(error);
  const isPassing = PASSING.some((each) => code === each || (each.length < 5 && code.startsWith(each)));
  return isPassing || LOST.test(error.message) || isStalePlan(error)
    ? unavailable('The database does not answer at the moment; try again.', error)
    : undefined;
}

/** Returns whether a prepared statement failed because a migration has changed its tables since. */
export function isStalePlan(error: unknown): boolean {
  return error instanceof Error && codeOf(error) === '0A000' && error.message.startsWith('cached plan must not change');
}

/** Returns the remedy for a failed first connection, as a message for the operator. */
export function describeFailure(error: unknown, { server, user, database }: Target): string {
  const code = error instanceof Error ? codeOf(error) : '';
  const message = error instanceof Error ? error.message : String(error);
  switch (code) {
    case '28P01':
    case '28000':
      return `PostgreSQL at ${server} refuses the user "${user}" (${message}); correct the user or the password in CLOCHE_DATABASE_URL, or pg_hba.conf of the server`;
    case '3D000':
      return `PostgreSQL at ${server} has no database "${database}"; create it: createdb --owner=${user} ${database}`;
    case '53300':
      return `PostgreSQL at ${server} has no free connection (${message}); raise its max_connections: a server of Cloche takes up to ${CONNECTIONS_OF_A_SERVER}`;
    default:
      return `PostgreSQL at ${server} cannot be used: ${message || code}; start it, or correct CLOCHE_DATABASE_URL`;
  }
}

/** Returns the remedy if only one connection can be made and a second one fails, as a message for the operator. */
export function describeShortage({ message }: Error, { server }: Target): string {
  return (
    `${server} gives one connection to PostgreSQL, but no second one (${message}); a server of Cloche takes up to ` +
    `${CONNECTIONS_OF_A_SERVER}: raise default_pool_size of PgBouncer, or max_connections of PostgreSQL`
  );
}

export interface Target {
  /** `host:port`, or the path of a socket. */
  readonly server: string;
  readonly user: string;
  readonly database: string;
}

function codeOf(error: Error): string {
  // `AggregateError` of Node.js for a name with several addresses has the code, too.
  return 'code' in error && typeof error.code === 'string' ? error.code : '';
}
