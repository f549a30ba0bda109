/** Header fields of a request to open a WebSocket. The key is the example of RFC 6455. */
export const WEB_SOCKET_UPGRADE = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
};
