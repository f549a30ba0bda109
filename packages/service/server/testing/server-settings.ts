/**
 * Settings of servers under test. The protocols beside `/v1` are off, because they prepare their routes at each start.
 * A test of one switches it on.
 */
export const SERVER_SETTINGS = {
  CLOCHE_PORT: '0',
  CLOCHE_E2B: 'off',
  CLOCHE_JUPYTER: 'off',
  CLOCHE_MCP: 'off',
} as const;
