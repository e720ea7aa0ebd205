const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/** `length` characters of A-Za-z0-9 from a cryptographic source, each equally likely. */
export function randomId(length: number): string {
  let text = "";
  const bytes = new Uint8Array(length * 2);
  while (text.length < length) {
    crypto.getRandomValues(bytes);
    for (const byte of bytes) {
      // 248 is the largest multiple of 62 in a byte: above it, some characters would be likelier.
      if (byte < 248 && text.length < length) text += ALPHABET[byte % 62];
    }
  }
  return text;
}
