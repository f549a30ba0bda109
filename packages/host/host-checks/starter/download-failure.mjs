/**
 * Returns a sentence with the fix for a command that downloads, by what it printed. Blames the network only for what
 * failed by it.
 *
 * @param {string} output
 */
export function remedyFor(output) {
  const place = /(?:https?:\/\/|host: |getaddrinfo \w+ |resolve '|resolve host )([^\s/'",:]+)/.exec(output);
  const where = place ? ` ${place[1]}` : ' the places that it downloads from';
  if (/ENOSPC|No space left on device|Disk quota exceeded/i.test(output)) {
    return 'Free disk space, then start again: what was downloaded so far is kept.';
  }
  if (
    /CERT_|SSLError|UNABLE_TO_|SELF_SIGNED|self.signed certificate|certificate (verif|is not trusted|has expired)/i.test(
      output,
    )
  ) {
    return `This machine does not trust the certificate of${where}. If a proxy of your network signs it, add its certificate to those of this machine and set NODE_EXTRA_CA_CERTS to its file.`;
  }
  if (/ENOTFOUND|EAI_AGAIN|Temporary failure resolving|Could not resolve/i.test(output)) {
    return `This machine cannot resolve${where}: mend its DNS, or set a proxy or mirror for npm (\`npm config set registry\`), apt and pip.`;
  }
  if (
    /ETIMEDOUT|ECONNREFUSED|ECONNRESET|ENETUNREACH|EHOSTUNREACH|Could not connect|Connection timed out|fetch failed|npm (error|ERR!) network/i.test(
      output,
    )
  ) {
    return `This machine does not reach${where}: see that its firewall permits it, or set a proxy or mirror for npm (\`npm config set registry\`), apt and pip.`;
  }
  if (/EACCES|EROFS|Permission denied|Read-only file system/i.test(output)) {
    return 'Make the folder that the lines above name writable, then start again.';
  }
  return 'The lines above say what failed. Mend it, then start again.';
}
