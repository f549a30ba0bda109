import { IDEMPOTENCY_HEADER, type Issue, isIdempotencyKey, LIMITS, type Operation } from '@cloche/contract';
import { type TSchema, Type } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { invalidRequest } from '../base/app-error.ts';
import { describeIssues } from './describe-issues.ts';
import { queryReader } from './read-query.ts';

/** The parts of a request before validation. */
export interface RawRequest {
  readonly params: unknown;
  /** The query string without the question mark. */
  readonly query: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Parsed JSON, or undefined without a body. */
  readonly body: unknown;
}

/** The parts of a request after validation. */
export interface ValidRequest {
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;
  readonly idempotencyKey: string | undefined;
}

/** Returns all issues of a value. Removes and converts nothing. */
type Check = (value: unknown) => readonly Issue[];

type Validate = (request: RawRequest) => ValidRequest;

const NONE: readonly Issue[] = [];
const compiled = new WeakMap<Operation, Validate>();

/**
 * Returns a function that throws AppError `invalid_request` with every issue. An operation's schemas are compiled once
 * in a process, also for several servers of it.
 */
export function requestValidator(operation: Operation): Validate {
  const known = compiled.get(operation) ?? compileValidator(operation);
  compiled.set(operation, known);
  return known;
}

function compileValidator(operation: Operation): Validate {
  const checkParams = checker('params', operation.params ?? Type.Object({}));
  const checkQuery = checker('query', operation.query ?? Type.Object({}, { additionalProperties: false }));
  const checkBody = operation.body && checker('body', operation.body);
  const readQuery = queryReader(operation.query);

  return ({ params, query: text, headers, body: given }) => {
    const idempotencyKey = headers[IDEMPOTENCY_HEADER];
    const query = readQuery(text);
    const body = given === undefined && operation.bodyOptional ? {} : given;
    const issues = [
      keyIssues(operation, idempotencyKey),
      nulIssues(params),
      checkParams(params),
      query.issues,
      checkQuery(query.values),
      checkBody ? bodyIssues(body, checkBody) : unexpectedBody(body),
    ];
    if (issues.some((some) => some.length > 0)) throwAll(issues.flat());
    const isKeyed = operation.idempotency !== 'none' && typeof idempotencyKey === 'string';
    return { params, query: query.values, body, idempotencyKey: isKeyed ? idempotencyKey : undefined };
  };
}

/** Returns a function that throws AppError `invalid_request` with every issue of a body. */
export function bodyValidator<Body>(schema: TSchema): (body: unknown) => Body {
  const check = checker('body', schema);
  return (body) => {
    throwAll(bodyIssues(body, check));
    // Sound: `Body` is derived from `schema`.
    return body as Body;
  };
}

function throwAll([first, ...others]: readonly Issue[]): void {
  if (first) throw invalidRequest(first, ...others);
}

/** Compiles the schema when its first value is checked: at the start, all of them take 40 ms of processor time. */
function checker(part: string, schema: TSchema): Check {
  let validator: Validator | undefined;
  return (value) => {
    validator ??= Compile(schema);
    return validator.Check(value) ? NONE : describeIssues(part, schema, value, validator.Errors(value));
  };
}

function keyIssues(operation: Operation, key: string | string[] | undefined): readonly Issue[] {
  if (operation.idempotency === 'none') return NONE;
  const path = `headers.${IDEMPOTENCY_HEADER}`;
  if (key === undefined) {
    return operation.idempotency === 'required'
      ? [
          {
            path,
            message: 'is required: send Idempotency-Key with a string that is unique to this operation, such as a UUID',
          },
        ]
      : NONE;
  }
  if (typeof key === 'string' && isIdempotencyKey(key)) return NONE;
  return [{ path, message: `must be 1 to ${LIMITS.idempotencyKeyLength} printable ASCII characters` }];
}

function bodyIssues(body: unknown, check: Check): readonly Issue[] {
  if (body === undefined) return [{ path: 'body', message: 'is required: send a JSON object' }];
  const crowded = findCrowded(body);
  return crowded === undefined ? check(body) : [{ path: crowded, message: 'has too many fields; send fewer' }];
}

/**
 * Returns the path of an object with more fields than any schema allows, before the schema would check each field. Only
 * lists may be longer.
 */
function findCrowded(body: unknown): string | undefined {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return undefined;
  const isCrowded = (value: unknown) =>
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    Object.keys(value).length > LIMITS.bodyValues;
  if (isCrowded(body)) return 'body';
  const crowded = Object.entries(body).find(([, value]) => isCrowded(value));
  return crowded && `body.${crowded[0]}`;
}

/** A parameter of a path is compared with the ids of rows, which PostgreSQL does not do with a NUL. */
function nulIssues(params: unknown): readonly Issue[] {
  // Sound: the router's parameters are texts.
  const texts = params as Readonly<Record<string, string>>;
  const names = Object.keys(texts).filter((name) => texts[name]?.includes('\0'));
  if (names.length === 0) return NONE;
  return names.map((name) => ({ path: `params.${name}`, message: 'must not contain the character NUL (U+0000)' }));
}

/** Allows an empty object: some clients always send a body. */
function unexpectedBody(body: unknown): readonly Issue[] {
  const isEmpty = body === undefined || (typeof body === 'object' && body !== null && JSON.stringify(body) === '{}');
  return isEmpty ? NONE : [{ path: 'body', message: 'must be left out: this operation accepts no body' }];
}
