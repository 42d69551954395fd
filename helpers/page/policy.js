// A policy from a file, and a text that it reads and goes on with, as train/rloo.js samples.

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

/** Words and signs of a text, as the course's tokenizer cuts it. */
function cutWords(text) {
  return text.toLowerCase().match(/[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s]+/gu) || [];
}

/** The tokens of a text, with the start before them. */
function encode(policy, text) {
  return [START_TOKEN, ...cutWords(text).map((word) => policy.places.get(word) ?? UNKNOWN_TOKEN)];
}

/** A response of `writer`, with log writer − log reader of each token, and the probabilities that both give to the first. */
function writeResponse(writer, reader, tokens, random = Math.random) {
  const [actor, reference] = [writer, reader].map((policy) => (policy.placed ??= placeModel(plainHeap(), policy)));
  const { words, positions } = writer, [acts, scratch] = [actor, reference].map((model) => makeActs(model, positions, true));
  const text = { actor, reference, acts, scratch, tree: makeTree(positions, positions) };
  const rollout = sampleResponses(text, [tokens], 1, (row) => drawToken(actor, acts, row, random)), [response] = rollout.responses;
  compareResponses(text, rollout);
  const next = [acts, scratch].map((room) => words.map((_, token) => Math.exp(logprobOf(actor, room, rollout.first, token))));
  return { words: response.tokens.map((token) => words[token]), drift: response.drift, next };
}
