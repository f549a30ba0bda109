import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Operation, operations } from '@cloche/contract';
import type { TObject } from 'typebox';
import { AppError } from '../base/app-error.ts';
import { requestValidator } from './request-validator.ts';

interface IntegerParameter {
  readonly operation: Operation;
  readonly name: string;
  readonly minimum: number;
  readonly maximum: number;
}

const integerParameters = (Object.values(operations) as Operation[]).flatMap((operation) =>
  Object.entries((operation.query as TObject | undefined)?.properties ?? {}).flatMap(([name, schema]) => {
    const { type, minimum, maximum } = schema as { type?: string; minimum: number; maximum: number };
    return type === 'integer' ? [{ operation, name, minimum, maximum }] : [];
  }),
);

/** Returns the value that the operation reads from `text`, or the message of the refusal. */
function read({ operation, name }: IntegerParameter, text: string): unknown {
  const names = Object.keys(operation.params?.properties ?? {});
  const params = Object.fromEntries(names.map((each) => [each, 'x']));
  // No operation with an integer parameter requires another query parameter, except a path.
  const path = (operation.query?.required ?? []).map((each) => `&${each}=x`).join('');
  try {
    const valid = requestValidator(operation)({
      params,
      query: `${name}=${text}${path}`,
      headers: {},
      body: undefined,
    });
    return (valid.query as Record<string, unknown>)[name];
  } catch (error) {
    return error instanceof AppError ? error.message : error;
  }
}

describe('a whole number in a query', () => {
  it('a whole number in a query is a parameter of several operations, each of which states its bounds', () => {
    assert.ok(integerParameters.length >= 7);
    for (const { operation, name, minimum, maximum } of integerParameters) {
      const where = `${operation.id} ${name}`;
      assert.ok(Number.isSafeInteger(minimum) && Number.isSafeInteger(maximum) && minimum <= maximum, where);
    }
  });

  for (const parameter of integerParameters) {
    const { operation, name, minimum, maximum } = parameter;
    it(`a whole number in a query is taken from ${minimum} to ${maximum} as ${name} of ${operation.id}, and refused beyond`, () => {
      for (const value of [minimum, minimum + 1, maximum - 1, maximum]) {
        assert.equal(read(parameter, String(value)), value);
        assert.equal(read(parameter, `000${value}`), value);
      }
      const tooMuch = `query.${name} must be at most ${maximum}`;
      for (const text of [String(BigInt(maximum) + 1n), '9007199254740992', '9'.repeat(17), '9'.repeat(400)]) {
        assert.equal(read(parameter, text), tooMuch, text);
      }
      const tooLittle = `query.${name} must be at least ${minimum}`;
      for (const text of [String(minimum - 1), '-9007199254740992', `-${'9'.repeat(400)}`]) {
        assert.equal(read(parameter, text), tooLittle, text);
      }
      for (const text of ['', '1.0', '1e1', '0x1', '+1', '%201', 'Infinity', 'NaN', '１']) {
        assert.match(String(read(parameter, text)), /must be a whole number/, text);
      }
    });
  }
});
