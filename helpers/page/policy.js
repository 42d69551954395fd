// The policy itself: a GPT-2 with its keys and values kept, in plain typed arrays. Nothing of the page is used here.
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

/** y = x·W + b, W [inputs, outputs] by rows (GPT-2's Conv1D). */
function linear(x, weight, bias) {
  const outputs = bias.length, y = Float32Array.from(bias);
  for (let i = 0; i < x.length; i++) {
    const scale = x[i], row = i * outputs;
    for (let j = 0; j < outputs; j++) y[j] += scale * weight[row + j];
  }
  return y;
}

function layerNorm(x, weight, bias, epsilon) {
  const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
  const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
  const scale = 1 / Math.sqrt(variance + epsilon);
  return x.map((value, at) => (value - mean) * scale * weight[at] + bias[at]);
}

/** GPT-2's GELU, by tanh. */
function gelu(x) {
  return x.map((value) => 0.5 * value * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (value + 0.044715 * value ** 3))));
}

function softmax(x) {
  const most = Math.max(...x), parts = x.map((value) => Math.exp(value - most));
  const sum = parts.reduce((total, value) => total + value, 0);
  return parts.map((value) => value / sum);
}

/** Attention of the last position over all before it; `kept` holds a layer's keys and values. */
function attend(query, kept, heads) {
  const wide = query.length / heads, out = new Float32Array(query.length);
  for (let head = 0; head < heads; head++) {
    const from = head * wide;
    const scores = kept.keys.map((key) => {
      let dot = 0;
      for (let i = from; i < from + wide; i++) dot += query[i] * key[i];
      return dot / Math.sqrt(wide);
    });
    softmax(scores).forEach((share, place) => {
      for (let i = from; i < from + wide; i++) out[i] += share * kept.values[place][i];
    });
  }
  return out;
}

/** A text that is being read or written: what each layer keeps of it. */
function begin(policy) {
  return Array.from({ length: policy.layers }, () => ({ keys: [], values: [] }));
}

/** Read one more token; log-probs of the next one, nats. */
function read(policy, kept, token) {
  const { width, tensors: w, epsilon } = policy, position = kept[0].keys.length;
  let x = Float32Array.from({ length: width }, (_, i) => w.wte[token * width + i] + w.wpe[position * width + i]);
  kept.forEach((layer, at) => {
    const of = (name) => w[`h.${at}.${name}`];
    const all = linear(layerNorm(x, of("ln_1.weight"), of("ln_1.bias"), epsilon), of("attn.c_attn.weight"), of("attn.c_attn.bias"));
    layer.keys.push(all.subarray(width, 2 * width));
    layer.values.push(all.subarray(2 * width));
    const seen = linear(attend(all.subarray(0, width), layer, policy.heads), of("attn.c_proj.weight"), of("attn.c_proj.bias"));
    x = x.map((value, i) => value + seen[i]);
    const inner = gelu(linear(layerNorm(x, of("ln_2.weight"), of("ln_2.bias"), epsilon), of("mlp.c_fc.weight"), of("mlp.c_fc.bias")));
    const thought = linear(inner, of("mlp.c_proj.weight"), of("mlp.c_proj.bias"));
    x = x.map((value, i) => value + thought[i]);
  });
  x = layerNorm(x, w["ln_f.weight"], w["ln_f.bias"], epsilon);
  const logits = policy.words.map((_, word) => {
    let dot = 0;
    for (let i = 0; i < width; i++) dot += x[i] * w.wte[word * width + i];
    return dot;
  });
  const most = Math.max(...logits), sum = logits.reduce((total, value) => total + Math.exp(value - most), 0);
  return logits.map((value) => value - most - Math.log(sum));
}

/** The tokens of a text as the course's tokenizer cuts it, with the start before them. */
function encode(policy, text) {
  const words = text.toLowerCase().match(/[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s]+/gu) || [];
  return [START_TOKEN, ...words.map((word) => policy.places.get(word) ?? UNKNOWN_TOKEN)];
}

/** The words of a text that the policy does not know. */
function unknownWords(policy, text) {
  return (text.toLowerCase().match(/[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s]+/gu) || []).filter((word) => !policy.places.has(word));
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
  let [own, other] = [readAll(writer, tokens), readAll(reader, tokens)];
  const written = [];
  while (written.length < longest && own.kept[0].keys.length < writer.positions) {
    let left = random(), token = 0;
    while (token < own.logprobs.length - 1 && (left -= Math.exp(own.logprobs[token])) > 0) token++;
    written.push({ word: writer.words[token], drift: own.logprobs[token] - other.logprobs[token] });
    if (token === END_TOKEN || written.length === longest) break;
    own.logprobs = read(writer, own.kept, token);
    other.logprobs = read(reader, other.kept, token);
  }
  return written;
}
