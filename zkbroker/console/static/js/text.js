// Text of messages made harmless and visible: control characters, those that change the direction of
// writing, and those without width are shown as escapes. No character of a message acts on the page.

// Tab and line feed stay where text has lines; one line shows them as escapes too.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const BREAKS = /[\t\n]/g;

// Limits against hostile text: pieces of a text, and columns of indentation.
const MOST_PIECES = 1000;
const DEEPEST = 40;

const NAMES = { "\t": "\\t", "\n": "\\n", "\r": "\\r" };

function escape(character) {
  const code = character.charCodeAt(0);
  if (NAMES[character]) return NAMES[character];
  return code < 0x100
    ? `\\x${code.toString(16).padStart(2, "0")}`
    : `\\u{${code.toString(16).padStart(4, "0")}}`;
}

// Pieces of a text: [{text, escaped}], for lines.
export function visible(text, { oneLine = false } = {}) {
  const shown = [];
  let from = 0;
  const hidden = oneLine ? new RegExp(`${HIDDEN.source}|${BREAKS.source}`, "g") : HIDDEN;
  const add = (piece, escaped) => {
    const last = shown[shown.length - 1];
    if (last && (last.escaped === escaped || shown.length >= MOST_PIECES)) last.text += piece;
    else if (piece) shown.push({ text: piece, escaped });
  };
  for (const found of text.matchAll(hidden)) {
    add(text.slice(from, found.index), false);
    add(escape(found[0]), true);
    from = found.index + found[0].length;
  }
  add(text.slice(from), false);
  return shown;
}

// Indents a JSON text without parsing its numbers: 12345678901234567890 stays what it is.
export function indentJson(text) {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  let depth = 0;
  let shown = "";
  const indent = () => "  ".repeat(Math.min(depth, DEEPEST));
  tokens.forEach((token, at) => {
    if (token === "{" || token === "[") {
      const empty = tokens[at + 1] === (token === "{" ? "}" : "]");
      depth += 1;
      shown += empty ? token : `${token}\n${indent()}`;
    } else if (token === "}" || token === "]") {
      const empty = tokens[at - 1] === (token === "}" ? "{" : "[");
      depth -= 1;
      shown += empty ? token : `\n${indent()}${token}`;
    } else if (token === ",") shown += `,\n${indent()}`;
    else shown += token === ":" ? ": " : token;
  });
  return shown;
}

// 00000010  7b 22 61 22 ...  {"a"...   from plain hex digits: 16 bytes a line.
export function hexLines(hex) {
  const lines = [];
  for (let at = 0; at < hex.length; at += 32) {
    const octets = hex.slice(at, at + 32).match(/../g) ?? [];
    const ascii = octets.map((octet) => {
      const code = parseInt(octet, 16);
      return code >= 0x20 && code < 0x7f ? String.fromCharCode(code) : "·";
    });
    const left = octets.slice(0, 8).join(" ").padEnd(23);
    const right = octets.slice(8).join(" ").padEnd(23);
    lines.push(`${(at / 2).toString(16).padStart(8, "0")}  ${left}  ${right}  ${ascii.join("")}`);
  }
  return lines.join("\n");
}
