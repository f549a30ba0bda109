/** Answers to what is not an ordinary request: malformed HTTP, endless headers, tunnels. */
import type { IncomingMessage } from 'node:http';
import { LIMITS } from '@cloche/contract';
import type { Refusal } from '@cloche/node-support';
import { AppError, invalidRequest } from '../base/app-error.ts';
import type { IdSource } from '../base/id-source.ts';
import { errorResponse, JSON_TYPE } from './error-response.ts';
import { BEFORE_KEY } from './front.ts';
import type { Outcomes } from './outcomes.ts';
import { REQUEST_ID_HEADER, requestIdOf } from './request-id.ts';

export interface RawErrorsDeps {
  readonly ids: IdSource;
  /** Default: the refusals are neither logged nor counted. */
  readonly outcomes?: Pick<Outcomes, 'note'>;
}

/** Makes the answers to requests that do not reach the app, and logs and counts each. */
export class RawErrors {
  readonly #deps: RawErrorsDeps;

  constructor(deps: RawErrorsDeps) {
    this.#deps = deps;
  }

  /** Refuses data that is not a valid request. */
  invalid(error: NodeJS.ErrnoException): Refusal {
    return this.#refuse(describe(error));
  }

  connect(request: IncomingMessage): Refusal {
    const error = new AppError('method_not_allowed', 'This service is not a proxy: it does not support CONNECT.');
    // RFC 9110 requires `Allow`. It is empty, because the target of CONNECT is another host, which has no methods here.
    return this.#refuse(error, request, { allow: '' });
  }

  expectation(request: IncomingMessage): Refusal {
    return this.#refuse(invalidRequest({ path: 'headers.expect', message: 'must be "100-continue"' }), request);
  }

  fields(request: IncomingMessage): Refusal {
    const message = `are more than ${BEFORE_KEY.headFields}; send fewer`;
    return this.#refuse(invalidRequest({ path: 'headers', message }), request);
  }

  #refuse(error: AppError, request?: IncomingMessage, fields: Refusal['fields'] = {}): Refusal {
    const { ids, outcomes } = this.#deps;
    const requestId = requestIdOf(request?.headers[REQUEST_ID_HEADER], ids);
    const { status, body } = errorResponse(error, requestId);
    const { method, url } = request ?? {};
    outcomes?.note({ requestId, operation: undefined, method, url, status, durationMs: 0, errorCode: error.code });
    return {
      status,
      fields: { 'content-type': JSON_TYPE, [REQUEST_ID_HEADER]: requestId, ...fields },
      body: JSON.stringify(body),
    };
  }
}

function describe(error: NodeJS.ErrnoException): AppError {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return invalidRequest({
        path: 'headers',
        message: `and the URL together are larger than ${LIMITS.headerBytes} bytes`,
      });
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return invalidRequest({ path: 'request', message: 'took too long to arrive' });
    default:
      return invalidRequest({ path: 'request', message: 'is not valid HTTP/1.1' });
  }
}
