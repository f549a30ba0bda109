import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { after, before, it } from 'node:test';
import { unboundedParts } from '@cloche/testkit/unbounded-parts';
import type { FastifyInstance, RouteOptions } from 'fastify';
import { pino } from 'pino';
import { E2bRouter } from './e2b-router.ts';

/** Name under which Fastify announces each app that is made. */
const MADE = 'fastify.initialization';
const routes: RouteOptions[] = [];
let router: E2bRouter;

/** Notes the routes of an app before it has any. */
function note(message: unknown): void {
  (message as { fastify: FastifyInstance }).fastify.addHook('onRoute', (route) => {
    routes.push(route);
  });
}

before(async () => {
  subscribe(MADE, note);
  router = await E2bRouter.open({
    apiUrl: () => '',
    publicUrl: undefined,
    seal: { seal: (text) => text, open: (sealed) => sealed },
    previews: {
      domain: () => '',
      handle: () => undefined,
      upgrade: () => undefined,
      isPublic: async () => false,
      findPublic: async () => undefined,
    },
    addressOf: () => '',
    ownerOf: () => '',
    stateOf: async () => undefined,
    overwriteTtl: async () => undefined,
    equip: async () => undefined,
    notes: { put: async () => undefined, all: async () => new Map(), keep: async () => undefined },
    log: pino({ level: 'silent' }),
  });
  unsubscribe(MADE, note);
});
after(() => router?.close());

it('a request of an E2B client has a maximum for each text, list and number of fields of its schema', () => {
  const schemas = routes.flatMap(({ method, url, schema = {} }) =>
    [schema.body, schema.querystring, schema.params]
      .filter((part) => part !== undefined)
      .map((part) => [`${method} ${url}`, part] as const),
  );
  assert.ok(schemas.length > 10, `${schemas.length} schemas`);
  const unbounded = schemas.flatMap(([name, schema]) => unboundedParts(schema).map((part) => `${name} ${part}`));
  assert.deepEqual(unbounded, []);
});
