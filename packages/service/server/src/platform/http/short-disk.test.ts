import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { type Operation, openApiDocument, operations, takesSpace } from '@cloche/contract';
import { exampleOf, type Schema } from '../../../testing/schema-mutants.ts';
import { startTestService, type TestService } from '../../../testing/test-service.ts';
import { type Route, route, uploadRoute } from './route.ts';

const document = JSON.parse(JSON.stringify(openApiDocument('0.0.0')));
/** Operations whose response is JSON; the others create nothing. */
const answering = (Object.values(operations) as Operation[]).filter(
  ({ download, events, webSocket }) => !download && !events && !webSocket,
);

let service: TestService;
before(async () => {
  service = await startTestService(
    answering.map((operation): Route => {
      if (operation.upload) return uploadRoute(operation, async () => ({ json: {} }));
      return route(operation, async () => ({}));
    }),
  );
});
after(() => service.close());

function bodyOf({ path, method, upload }: Operation): unknown {
  if (upload) return 'bytes';
  const schema: Schema | undefined =
    document.paths[path][method.toLowerCase()].requestBody?.content['application/json'].schema;
  const name = (schema as { $ref?: string } | undefined)?.$ref?.split('/').at(-1);
  return schema && exampleOf(name === undefined ? schema : document.components.schemas[name]);
}

/** Returns the code of the error of a request to `operation`, if it is refused for the disk. */
async function refusalOf(operation: Operation): Promise<string | undefined> {
  const path = operation.path.replace(/\{\w+\}/g, 'some_1');
  const query = operation.query && 'path' in operation.query.properties ? '?path=a' : '';
  const options = { body: bodyOf(operation), idempotencyKey: randomUUID() };
  const headers = operation.upload ? { 'content-type': operation.upload.contentTypes[0] ?? '' } : {};
  const { body } = await service.call(operation.method, path + query, { ...options, headers });
  const message: string | undefined = body?.error?.message;
  return message?.includes('free disk space') ? body.error.code : undefined;
}

describe('a request while the disk of the service is short', () => {
  for (const operation of answering) {
    const isRefused = takesSpace(operation);
    it(`a request while the disk of the service is short to ${operation.id} is ${isRefused ? 'refused' : 'not refused for it'}`, async () => {
      service.leaveFree(0);
      assert.equal(await refusalOf(operation), isRefused ? 'unavailable' : undefined);
    });
  }

  it('a request while the disk of the service is short is refused if it creates or uploads something, and not if it removes or ends something', () => {
    const refused = Object.values(operations as Record<string, Operation>).filter(takesSpace);
    assert.deepEqual(
      refused.filter(({ method }) => method === 'DELETE' || method === 'GET'),
      [],
    );
    const ids = refused.map(({ id }) => id);
    for (const id of Object.keys(operations)) {
      if (/^(create|export|upload|open(?!Pty)|write(?!CommandStdin))/.test(id)) assert.ok(ids.includes(id), id);
      if (/^(kill|cancel|delete|revoke|interrupt)/.test(id)) assert.ok(!ids.includes(id), id);
    }
  });
});
