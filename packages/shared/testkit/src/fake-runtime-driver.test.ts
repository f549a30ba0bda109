import { FakeRuntimeDriver } from './fake-runtime-driver.ts';
import { describeRuntimeDriver } from './runtime-driver-suite.ts';

describeRuntimeDriver('fake', async () => ({
  driver: new FakeRuntimeDriver(),
  spec: {
    source: { kind: 'template', templateVersionId: 'tplv_pythonnode1' },
    resources: { cpu: 1, memoryBytes: 2 ** 28, diskBytes: 2 ** 28, pids: 64 },
    network: { mode: 'unrestricted' },
  },
  language: 'python',
  programs: {
    print: (text) => `print ${text}`,
    set: (name, value) => `set ${name} ${value}`,
    get: (name) => `get ${name}`,
    printAndHang: (text) => `print ${text}\nhang`,
    echo: (port) => `listen ${port}`,
  },
  close: async () => undefined,
}));
