/** Pictures as sequences that a terminal draws. They are sent as they are: the terminal decodes them. */

/** How a terminal takes pictures; `none` for a terminal that takes none. */
export type PictureProtocol = 'kitty' | 'iterm2' | 'none';

/** Bounds of a picture that is drawn; larger ones are only named. */
const MAX_SIDE = 4096;
export const MAX_BYTES = 4 * 1024 * 1024;
/** Characters of base64 in one sequence of kitty's protocol. */
const KITTY_CHUNK = 4096;

const PNG_HEAD = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/** Returns the protocol of the terminal that these variables describe. In tmux and screen, pictures do not arrive. */
export function protocolOf(env: Readonly<Record<string, string | undefined>>): PictureProtocol {
  const { TERM = '', TERM_PROGRAM = '', KITTY_WINDOW_ID, LC_TERMINAL, CI, TMUX, STY } = env;
  if (TERM === 'dumb' || TERM.startsWith('screen') || TERM.startsWith('tmux') || CI || TMUX || STY) return 'none';
  if (KITTY_WINDOW_ID || TERM === 'xterm-kitty' || TERM === 'xterm-ghostty' || TERM_PROGRAM === 'ghostty')
    return 'kitty';
  const known = ['iTerm.app', 'WezTerm', 'vscode', 'mintty'];
  return known.includes(TERM_PROGRAM) || LC_TERMINAL === 'iTerm2' ? 'iterm2' : 'none';
}

/** Returns the sequence that draws a picture; undefined if it is no PNG or JPEG within the bounds. */
export function drawn(picture: Buffer, protocol: PictureProtocol): string | undefined {
  const size = sizeOf(picture);
  if (protocol === 'none' || size === undefined || picture.length > MAX_BYTES) return undefined;
  if (size.width > MAX_SIDE || size.height > MAX_SIDE || size.width < 1 || size.height < 1) return undefined;
  const content = picture.toString('base64');
  if (protocol === 'iterm2') return `\u001b]1337;File=inline=1;size=${picture.length}:${content}\u0007\n`;
  // Kitty draws PNG alone.
  if (size.format !== 'png') return undefined;
  const chunks = content.match(new RegExp(`.{1,${KITTY_CHUNK}}`, 'g')) ?? [];
  return `${chunks
    .map((chunk, index) => {
      const first = index === 0 ? 'f=100,a=T,q=2,' : '';
      return `\u001b_G${first}m=${index === chunks.length - 1 ? 0 : 1};${chunk}\u001b\\`;
    })
    .join('')}\n`;
}

/** Reads the size from the head of a PNG or JPEG; undefined if it is neither. */
export function sizeOf(picture: Buffer): { format: 'png' | 'jpeg'; width: number; height: number } | undefined {
  if (picture.length >= 24 && picture.subarray(0, 8).equals(PNG_HEAD) && picture.toString('latin1', 12, 16) === 'IHDR')
    return { format: 'png', width: picture.readUInt32BE(16), height: picture.readUInt32BE(20) };
  if (picture.length < 4 || picture.readUInt16BE(0) !== 0xffd8) return undefined;
  for (let at = 2; at + 9 <= picture.length && picture[at] === 0xff; ) {
    const marker = picture[at + 1] ?? 0;
    // A start of frame has the size; these three markers of the same range are none.
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker))
      return { format: 'jpeg', width: picture.readUInt16BE(at + 7), height: picture.readUInt16BE(at + 5) };
    at += 2 + picture.readUInt16BE(at + 2);
  }
  return undefined;
}
