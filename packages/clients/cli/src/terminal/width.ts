/** Characters that take two columns: those of East Asian scripts, and emoji. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}|\p{Emoji}\ufe0f/u;
/** Characters that take no column of their own. */
const COMBINING = /^[\p{Mn}\p{Me}\p{Cf}]+$/u;
const GRAPHEMES = new Intl.Segmenter('en', { granularity: 'grapheme' });
const ASCII = /^[\x20-\x7e]*$/;

/**
 * Returns the columns that printable text takes in a terminal. Our own code: Node keeps its function to itself, and the
 * tables of Unicode that libraries carry are larger than the program.
 */
export function widthOf(text: string): number {
  if (ASCII.test(text)) return text.length;
  let width = 0;
  for (const { segment } of GRAPHEMES.segment(text)) width += widthOfGrapheme(segment);
  return width;
}

/** Returns the text, cut to `width` columns with an ellipsis if it is wider. */
export function cutTo(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let cut = '';
  let used = 0;
  for (const { segment } of GRAPHEMES.segment(text)) {
    used += widthOfGrapheme(segment);
    if (used > width - 1) break;
    cut += segment;
  }
  return width < 1 ? '' : `${cut}…`;
}

/** Returns the text with spaces up to `width` columns. */
export function padTo(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - widthOf(text)));
}

function widthOfGrapheme(grapheme: string): number {
  if (COMBINING.test(grapheme)) return 0;
  return WIDE.test(grapheme) ? 2 : 1;
}
