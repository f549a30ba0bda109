/**
 * Global setup of the stage `e2e-servers`: each service of its test files has three servers of one PostgreSQL database,
 * behind the load balancer.
 */
import { type TestPostgres, testPostgres } from './postgres.ts';
import { ALL_PROTOCOLS, type OwnService, SHARED_POSTGRES, shareService, testService } from './service.ts';
import { openLender } from './service-lender.ts';

let postgres: TestPostgres | undefined;
let service: OwnService | undefined;
let lender: AsyncDisposable | undefined;

export async function globalSetup(): Promise<void> {
  postgres = await testPostgres();
  process.env[SHARED_POSTGRES] = postgres.sockets;
  service = await testService(ALL_PROTOCOLS);
  shareService(service);
  lender = await openLender();
}

export async function globalTeardown(): Promise<void> {
  await lender?.[Symbol.asyncDispose]();
  await service?.close();
  await postgres?.close();
}
