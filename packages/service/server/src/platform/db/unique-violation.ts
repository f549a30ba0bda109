/** Result code `SQLITE_CONSTRAINT_UNIQUE`. */
const SQLITE_UNIQUE = 2067;
/** SQLSTATE `unique_violation` of PostgreSQL. */
const POSTGRES_UNIQUE = '23505';

/** Returns whether a statement failed because a row with the same unique value exists. */
export function isUniqueViolation(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ('errcode' in error && error.errcode === SQLITE_UNIQUE) || ('code' in error && error.code === POSTGRES_UNIQUE);
}
