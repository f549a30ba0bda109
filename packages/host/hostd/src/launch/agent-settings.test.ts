import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agentSettings } from './agent-settings.ts';

const CURATED = { manifest: { id: 'tplv_a', languages: ['python'] }, rootfsDir: '/rootfs', layers: [] };
const LAYERS = [{ digest: 'a', folder: '/' }] as const;

test('the agent of a version that was built on the host has its defaults', () => {
  assert.deepEqual(agentSettings(CURATED), {});
});

test('kernels of a version with files of a client are forked inside the sandbox', () => {
  assert.deepEqual(agentSettings({ ...CURATED, layers: LAYERS }), { CLOCHE_OWN_ZYGOTE: '1' });
  assert.deepEqual(agentSettings({ ...CURATED, manifest: { id: 'tplv_a', languages: [] }, layers: LAYERS }), {});
});

test('the manifest sets the account and the modules that are loaded ahead', () => {
  const manifest = {
    ...CURATED.manifest,
    warm: { imports: ['torch', 'a.b'] },
    user: { uid: 0, gid: 0, home: '/root' },
  };
  assert.deepEqual(agentSettings({ ...CURATED, manifest }), {
    CLOCHE_USER_UID: '0',
    CLOCHE_USER_GID: '0',
    CLOCHE_USER_HOME: '/root',
    CLOCHE_OWN_ZYGOTE: '1',
    CLOCHE_WARM_IMPORTS: 'torch,a.b',
  });
});
