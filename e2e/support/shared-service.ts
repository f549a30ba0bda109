/** Global setup of a stage (`--test-global-setup`): Node's runner calls it before the test files and after them. */
import { ALL_PROTOCOLS, shareService, type TestService, testService } from './service.ts';
import { openLender } from './service-lender.ts';

let service: TestService | undefined;
let lender: AsyncDisposable | undefined;

export async function globalSetup(): Promise<void> {
  service = await testService(ALL_PROTOCOLS);
  shareService(service);
  lender = await openLender();
}

export async function globalTeardown(): Promise<void> {
  await lender?.[Symbol.asyncDispose]();
  await service?.close();
}
