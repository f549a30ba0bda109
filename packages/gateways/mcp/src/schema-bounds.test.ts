import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { unboundedParts } from '@cloche/testkit/unbounded-parts';
import { z } from 'zod';
import { TOOLS } from './mcp-server.ts';
import { PROMPT_ARGUMENTS } from './prompts/register-prompts.ts';

describe('the input of a tool', () => {
  for (const { name, input } of TOOLS) {
    it(`the input of a tool has a maximum for each text, list and number of fields: ${name}`, () => {
      assert.deepEqual(unboundedParts(z.toJSONSchema(input, { io: 'input' })), []);
    });
  }
});

describe('an argument of a prompt', () => {
  for (const [name, given] of Object.entries(PROMPT_ARGUMENTS)) {
    it(`an argument of a prompt has a maximum for each text: ${name}`, () => {
      assert.deepEqual(unboundedParts(z.toJSONSchema(given, { io: 'input' })), []);
    });
  }
});
