// A policy that reads and writes one text, token by token: its weights from a file, then the forward of train/gpt.js.
const START_TOKEN = 1, END_TOKEN = 2, UNKNOWN_TOKEN = 3; // as in the course's tokenizer; 0 is padding

/** Weights as half floats → Float32Array. */
function fromHalf(bytes) {
  const half = new Uint16Array(bytes), whole = new Float32Array(half.length);
  for (let at = 0; at < half.length; at++) {
    const sign = half[at] & 0x8000 ? -1 : 1, exponent = (half[at] >> 10) & 31, fraction = half[at] & 1023;
    whole[at] = sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
  }
  return whole;
}

/** A policy from a file that `helpers/page/policies.py` writes: {config, words, tensors, weights}. */
function readPolicy({ config, words, tensors, weights }) {
  const bytes = Uint8Array.from(atob(weights), (letter) => letter.charCodeAt(0));
  const numbers = fromHalf(bytes.buffer), found = {};
  let from = 0;
  for (const [name, size] of tensors) {
    found[name] = numbers.subarray(from, from + size);
    from += size;
  }
  return { ...config, words, places: new Map(words.map((word, at) => [word, at])), tensors: found };
}

/** A text that is being read or written: room for the policy's activations, of so many tokens in all. */
function begin(policy) {
  policy.placed ??= placeModel(plainHeap(), policy);
  return { acts: makeActs(policy.placed, policy.positions, true), tree: makeTree(policy.positions, policy.positions), row: -1 };
}

/** Read one more token; log-probs of the next one, nats. */
function read(policy, kept, token) {
  const { placed, words } = policy, { acts, tree } = kept, row = (kept.row = tree.add(token, kept.row));
  forward(placed, acts, tree, row, row + 1);
  predict(placed, acts, row, row + 1);
  return words.map((_, word) => logprobOf(placed, acts, row, word));
}

/** Words and signs of a text, as the course's tokenizer cuts it. */
function cutWords(text) {
  return text.toLowerCase().match(/[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s]+/gu) || [];
}

/** The tokens of a text, with the start before them. */
function encode(policy, text) {
  return [START_TOKEN, ...cutWords(text).map((word) => policy.places.get(word) ?? UNKNOWN_TOKEN)];
}

/** The words of a text that the policy does not know. */
function unknownWords(policy, text) {
  return cutWords(text).filter((word) => !policy.places.has(word));
}

/** Log-probs of the token after these, and what is kept of them to go on. */
function readAll(policy, tokens) {
  const kept = begin(policy);
  let logprobs = null;
  for (const token of tokens) logprobs = read(policy, kept, token);
  return { kept, logprobs };
}

/** A response of `writer`, token by token, with log writer − log reader of each: [{word, drift}]. */
function writeResponse(writer, reader, tokens, longest, random = Math.random) {
  const [own, other] = [readAll(writer, tokens), readAll(reader, tokens)];
  const written = [];
  while (written.length < longest && own.kept.tree.count < writer.positions) {
    const token = drawToken(writer.placed, own.kept.acts, own.kept.row, random);
    written.push({ word: writer.words[token], drift: own.logprobs[token] - other.logprobs[token] });
    if (token === END_TOKEN || written.length === longest) break;
    own.logprobs = read(writer, own.kept, token);
    other.logprobs = read(reader, other.kept, token);
  }
  return written;
}
