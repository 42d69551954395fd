// The reward model's forward: a DistilBERT whose score is read at the first token of prompt + response.

/** The tokens of a response's text, as the tokenizer reads it again: no special ones; signs in a row are one, unknown. */
function scoredTokens(tokens, words) {
  const kept = tokens.filter((token) => token > UNKNOWN_TOKEN), isSign = (at) => /^\W+$/.test(words[kept[at]]);
  const read = kept.map((token, at) => (isSign(at) && isSign(at + 1) ? UNKNOWN_TOKEN : token));
  return [START_TOKEN, ...read.filter((_, at) => !(isSign(at) && isSign(at - 1)))];
}

/** GELU by the error function (Abramowitz and Stegun 7.1.26: within 2e-7), in place. */
function exactGelu(x, count) {
  for (let i = 0; i < count; i++) {
    const z = Math.abs(x[i]) * Math.SQRT1_2, t = 1 / (1 + 0.3275911 * z);
    const tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) * Math.exp(-z * z);
    x[i] *= x[i] < 0 ? 0.5 * tail : 1 - 0.5 * tail;
  }
}

/** Normalised scores of texts (lists of tokens, the start first); the last layer is computed at first tokens only. */
function scoreTexts(model, acts, texts) {
  const { width: d, heads, layers, positions, epsilon, named: w } = model, room = acts.layers[0];
  const tokens = texts.flatMap((some, text) => some.map((token, place) => ({ token, place, text }))), rows = tokens.length;
  const starts = tokens.flatMap(({ place }, row) => (place ? [] : [row])), every = Int32Array.from(tokens, (_, row) => row);
  tokens.forEach(({ token, place }, row) => {
    for (let i = 0; i < d; i++) room.x2[row * d + i] = w.wte[token * d + i] + w.wpe[place * d + i];
  });
  normalise(room.x2, w["ln_0.weight"], w["ln_0.bias"], epsilon, room.x, room.stats1, 0, rows);
  for (let at = 0; at < layers; at++) {
    const h = `h.${at}.`, asked = at === layers - 1 ? starts : every, count = asked.length;
    linear(model, `${h}attn.c_attn`, room.x, room.qkv, 0, rows);
    asked.forEach((row, to) => {
      const { text } = tokens[row];
      attendRow(room.qkv, d, heads, row, every, starts[text], texts[text].length, room.shares, 0, positions, room.seen, to * d);
      room.x.copyWithin(to * d, row * d, (row + 1) * d);
    });
    linear(model, `${h}attn.c_proj`, room.seen, room.x2, 0, count, room.x);
    normalise(room.x2, w[`${h}ln_1.weight`], w[`${h}ln_1.bias`], epsilon, room.n1, room.stats1, 0, count);
    linear(model, `${h}mlp.c_fc`, room.n1, room.inner, 0, count);
    exactGelu(room.inner, count * 4 * d);
    linear(model, `${h}mlp.c_proj`, room.inner, room.x2, 0, count, room.n1);
    normalise(room.x2, w[`${h}ln_2.weight`], w[`${h}ln_2.bias`], epsilon, room.x, room.stats2, 0, count);
  }
  return texts.map((_, text) => {
    let score = w["head.bias"][0];
    for (let i = 0; i < d; i++) score += room.x[text * d + i] * w["head.weight"][i];
    return (score - model.scoreMean) / model.scoreStd;
  });
}
