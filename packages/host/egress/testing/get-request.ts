/** Returns the bytes of a GET request after whose answer the connection closes. */
export function getRequest(host: string, target = '/'): string {
  return `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;
}
