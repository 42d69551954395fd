// A GPT-2 forward and backward. All real tokens stand in one matrix, a row each; there is no padding.
// Rows form a tree: each follows its parent, and a prompt's responses share the prompt's rows.
const START_TOKEN = 1, END_TOKEN = 2, UNKNOWN_TOKEN = 3; // as in the course's tokenizer; 0 is padding, words follow

/** An empty tree of at most so many rows; `path` has each row's ancestors, from the first token to itself. */
function makeTree(rows, positions) {
  const tree = { count: 0, positions, token: new Int32Array(rows), place: new Int32Array(rows), path: new Int32Array(rows * positions) };
  tree.add = (token, parent) => {
    const row = tree.count, place = parent < 0 ? 0 : tree.place[parent] + 1;
    if (row === rows || place === positions) throw new Error(`There is room for ${rows} tokens, and ${positions} in a text.`);
    tree.token[row] = token;
    tree.place[row] = place;
    tree.path.copyWithin(row * positions, parent * positions, parent * positions + place);
    tree.path[row * positions + place] = row;
    tree.count += 1;
    return row;
  };
  return tree;
}

/** Numbers by the tensors' names, one after another in the heap; the embeddings' rows are rounded up to 8. */
function placeTensors(heap, width, tensors) {
  const sizes = Object.entries(tensors).map(([name, { length }]) => [name, name === "wte" ? width * 8 * Math.ceil(length / width / 8) : length]);
  const flat = heap.take(sizes.reduce((sum, [, size]) => sum + size, 0)), named = {};
  let from = 0;
  for (const [name, size] of sizes) {
    named[name] = flat.subarray(from, from + size);
    named[name].set(tensors[name]);
    from += size;
  }
  return { flat, named };
}

/** A model of the page ({layers, heads, width, epsilon, tensors, …}) in the heap. */
function placeModel(heap, model) {
  const placed = { ...model, heap, ...placeTensors(heap, model.width, model.tensors) };
  placed.vocabulary = placed.named.wte.length / model.width; // rounded up to 8
  placed.head = heap.take(placed.named.wte.length); // the embeddings, transposed
  return turnHead(placed);
}

function turnHead(model) {
  transpose(model.named.wte, model.vocabulary, model.width, model.head);
  return model;
}

/** Room for what a forward makes of so many rows; `kept`: each layer's apart, for a backward or further rows. */
function makeActs(model, rows, kept) {
  const { heap, width, heads, layers, positions } = model, take = (size) => heap.take((rows + 4) * size);
  const layer = () => ({
    x: take(width), n1: take(width), stats1: new Float64Array(2 * rows), qkv: take(3 * width), seen: take(width),
    shares: new Float32Array(rows * heads * positions), x2: take(width), n2: take(width), stats2: new Float64Array(2 * rows),
    inner: take(4 * width), active: take(4 * width),
  });
  const first = layer(), all = Array.from({ length: layers }, (_, at) => (at && kept ? layer() : first));
  const x = kept ? take(width) : first.x;
  return { layers: all, x, n: take(width), stats: new Float64Array(2 * rows), logits: take(model.vocabulary), logZ: new Float64Array(rows) };
}

// ---- forward: rows `from` to `to` ----
function normalise(x, weight, bias, epsilon, out, stats, from, to) {
  const d = weight.length;
  for (let row = from; row < to; row++) {
    const at = row * d;
    let sum = 0, squares = 0;
    for (let i = 0; i < d; i++) sum += x[at + i];
    const mean = sum / d;
    for (let i = 0; i < d; i++) squares += (x[at + i] - mean) ** 2;
    const scale = 1 / Math.sqrt(squares / d + epsilon);
    for (let i = 0; i < d; i++) out[at + i] = (x[at + i] - mean) * scale * weight[i] + bias[i];
    stats[2 * row] = mean;
    stats[2 * row + 1] = scale;
  }
}

/** out = x·W + b, plus `base` where given: W [inputs, outputs] by rows (GPT-2's Conv1D). */
function linear(model, name, x, out, from, to, base = null) {
  const bias = model.named[`${name}.bias`], n = bias.length, k = model.named[`${name}.weight`].length / n;
  multiply(model.heap, x.subarray(from * k), model.named[`${name}.weight`], out.subarray(from * n), to - from, n, k);
  for (let row = from; row < to; row++) {
    const at = row * n;
    for (let i = 0; i < n; i++) out[at + i] += base ? bias[i] + base[at + i] : bias[i];
  }
}

/** One row's attention over `count` rows that stand in `seen` from `first` on; its shares are kept from `at` on. */
function attendRow(qkv, d, heads, row, seen, first, count, shares, at, room, out, outAt) {
  const wide = d / heads, scale = 1 / Math.sqrt(wide);
  out.fill(0, outAt, outAt + d);
  for (let head = 0, share = at; head < heads; head++, share += room) {
    const query = row * 3 * d + head * wide, to = outAt + head * wide;
    let most = -Infinity, sum = 0;
    for (let s = 0; s < count; s++) {
      const key = seen[first + s] * 3 * d + d + head * wide;
      let dot = 0;
      for (let i = 0; i < wide; i++) dot += qkv[query + i] * qkv[key + i];
      shares[share + s] = dot * scale;
      most = Math.max(most, shares[share + s]);
    }
    for (let s = 0; s < count; s++) sum += shares[share + s] = Math.exp(shares[share + s] - most);
    for (let s = 0; s < count; s++) {
      const value = seen[first + s] * 3 * d + 2 * d + head * wide, part = (shares[share + s] /= sum);
      for (let i = 0; i < wide; i++) out[to + i] += part * qkv[value + i];
    }
  }
}

const GELU_SCALE = Math.sqrt(2 / Math.PI), GELU_CUBE = 0.044715;
/** GPT-2's GELU by tanh: x·sigmoid(2u), u = √(2/π)·(x + 0.044715·x³). */
function gelu(x, out, from, to) {
  for (let i = from; i < to; i++) {
    const value = x[i];
    out[i] = value / (1 + Math.exp(-2 * GELU_SCALE * (value + GELU_CUBE * value * value * value)));
  }
}

/** Hidden states of the tree's rows `from` to `to`, whose ancestors have theirs already or stand among them. */
function forward(model, acts, tree, from, to) {
  const { width: d, heads, epsilon, named: w, positions } = model;
  for (let row = from; row < to; row++) {
    const word = tree.token[row] * d, place = tree.place[row] * d;
    for (let i = 0; i < d; i++) acts.layers[0].x[row * d + i] = w.wte[word + i] + w.wpe[place + i];
  }
  acts.layers.forEach((a, at) => {
    const h = `h.${at}.`, next = acts.layers[at + 1]?.x ?? acts.x;
    normalise(a.x, w[`${h}ln_1.weight`], w[`${h}ln_1.bias`], epsilon, a.n1, a.stats1, from, to);
    linear(model, `${h}attn.c_attn`, a.n1, a.qkv, from, to);
    for (let row = from; row < to; row++) {
      attendRow(a.qkv, d, heads, row, tree.path, row * positions, tree.place[row] + 1, a.shares, row * heads * positions, positions, a.seen, row * d);
    }
    linear(model, `${h}attn.c_proj`, a.seen, a.x2, from, to, a.x);
    normalise(a.x2, w[`${h}ln_2.weight`], w[`${h}ln_2.bias`], epsilon, a.n2, a.stats2, from, to);
    linear(model, `${h}mlp.c_fc`, a.n2, a.inner, from, to);
    gelu(a.inner, a.active, from * 4 * d, to * 4 * d);
    linear(model, `${h}mlp.c_proj`, a.active, next, from, to, a.x2);
  });
  normalise(acts.x, w["ln_f.weight"], w["ln_f.bias"], epsilon, acts.n, acts.stats, from, to);
}

/** Logits of the token after each of these rows, and the logarithm of their exponentials' sum. */
function predict(model, acts, from, to) {
  const { vocabulary, width, words } = model, count = words.length;
  multiply(model.heap, acts.n.subarray(from * width), model.head, acts.logits.subarray(from * vocabulary), to - from, vocabulary, width);
  for (let row = from; row < to; row++) {
    const at = row * vocabulary;
    let most = -Infinity, sum = 0;
    for (let i = 0; i < count; i++) most = Math.max(most, acts.logits[at + i]);
    for (let i = 0; i < count; i++) sum += Math.exp(acts.logits[at + i] - most);
    acts.logZ[row] = most + Math.log(sum);
  }
}

/** log π of a token after a row, nats. */
function logprobOf(model, acts, row, token) {
  return acts.logits[row * model.vocabulary + token] - acts.logZ[row];
}

/** A token drawn after a row: the first whose summed probability reaches a uniform number. */
function drawToken(model, acts, row, random) {
  let left = random(), token = 0;
  while (token < model.words.length - 1 && (left -= Math.exp(logprobOf(model, acts, row, token))) > 0) token += 1;
  return token;
}

// ---- backward: all rows of the tree ----
/** Gradients by name, of the model's form, and room for the gradients of activations. */
function makeGradients(model, rows) {
  const { heap, width } = model, take = (size) => heap.take((rows + 4) * size);
  const room = { x: take(width), n: take(width), wide: take(4 * width), turned: heap.take(4 * width * width) };
  return { ...placeTensors(heap, width, model.tensors), ...room };
}

/** Gradients of W and b, and of x into `out`, from those of y = x·W + b. */
function linearBack(model, grads, name, x, dy, out, rows) {
  const weight = model.named[`${name}.weight`], bias = grads.named[`${name}.bias`], n = bias.length, k = weight.length / n;
  multiplyTransposed(model.heap, x, dy, grads.named[`${name}.weight`], k, n, rows);
  for (let row = 0; row < rows; row++) for (let i = 0; i < n; i++) bias[i] += dy[row * n + i];
  multiply(model.heap, dy, transpose(weight, k, n, grads.turned), out, rows, k, n);
}

/** Gradients of a normalisation's weight and bias; that of its input is added to `dx`. */
function normaliseBack(model, grads, name, x, stats, dy, dx, rows) {
  const weight = model.named[`${name}.weight`], d = weight.length;
  const [dWeight, dBias] = [grads.named[`${name}.weight`], grads.named[`${name}.bias`]];
  for (let row = 0; row < rows; row++) {
    const at = row * d, mean = stats[2 * row], scale = stats[2 * row + 1];
    let sum = 0, along = 0;
    for (let i = 0; i < d; i++) {
      const hat = (x[at + i] - mean) * scale, g = dy[at + i] * weight[i];
      dWeight[i] += dy[at + i] * hat;
      dBias[i] += dy[at + i];
      sum += g;
      along += g * hat;
    }
    for (let i = 0; i < d; i++) {
      const hat = (x[at + i] - mean) * scale;
      dx[at + i] += scale * (dy[at + i] * weight[i] - sum / d - (hat * along) / d);
    }
  }
}

/** In place: gradient of GELU's output → of its input; sigmoid(2u) is output/input. */
function geluBack(x, out, grad, count) {
  for (let i = 0; i < count; i++) {
    const value = x[i], gate = value === 0 ? 0.5 : out[i] / value;
    grad[i] *= gate + 2 * value * gate * (1 - gate) * GELU_SCALE * (1 + 3 * GELU_CUBE * value * value);
  }
}

/** Gradients of queries, keys and values, from those of what the rows have seen. */
function attendBack(model, acts, tree, dSeen, dQkv) {
  const { width: d, heads, positions } = model, wide = d / heads, scale = 1 / Math.sqrt(wide), { qkv, shares } = acts;
  const pull = new Float64Array(positions);
  dQkv.fill(0, 0, tree.count * 3 * d);
  for (let row = 0; row < tree.count; row++) {
    for (let head = 0; head < heads; head++) {
      const query = row * 3 * d + head * wide, from = row * d + head * wide, share = (row * heads + head) * positions;
      let mean = 0;
      for (let s = 0; s <= tree.place[row]; s++) {
        const value = tree.path[row * positions + s] * 3 * d + 2 * d + head * wide, part = shares[share + s];
        let dot = 0;
        for (let i = 0; i < wide; i++) {
          dot += dSeen[from + i] * qkv[value + i];
          dQkv[value + i] += part * dSeen[from + i];
        }
        pull[s] = dot;
        mean += part * dot;
      }
      for (let s = 0; s <= tree.place[row]; s++) {
        const key = tree.path[row * positions + s] * 3 * d + d + head * wide, g = shares[share + s] * (pull[s] - mean) * scale;
        for (let i = 0; i < wide; i++) {
          dQkv[query + i] += g * qkv[key + i];
          dQkv[key + i] += g * qkv[query + i];
        }
      }
    }
  }
}

/** Gradients of all weights from those of the logits, which stand in `acts.logits` from row `first` on. */
function backward(model, acts, tree, grads, first) {
  const { width: d, vocabulary, heap } = model, rows = tree.count, some = rows - first, dLogits = acts.logits.subarray(first * vocabulary);
  grads.flat.fill(0);
  multiplyTransposed(heap, dLogits, acts.n.subarray(first * d), grads.named.wte, vocabulary, d, some);
  grads.n.fill(0, 0, first * d);
  multiply(heap, dLogits, model.named.wte, grads.n.subarray(first * d), some, d, vocabulary);
  grads.x.fill(0, 0, rows * d);
  normaliseBack(model, grads, "ln_f", acts.x, acts.stats, grads.n, grads.x, rows);
  for (let at = model.layers - 1; at >= 0; at--) {
    const h = `h.${at}.`, a = acts.layers[at];
    linearBack(model, grads, `${h}mlp.c_proj`, a.active, grads.x, grads.wide, rows);
    geluBack(a.inner, a.active, grads.wide, rows * 4 * d);
    linearBack(model, grads, `${h}mlp.c_fc`, a.n2, grads.wide, grads.n, rows);
    normaliseBack(model, grads, `${h}ln_2`, a.x2, a.stats2, grads.n, grads.x, rows);
    linearBack(model, grads, `${h}attn.c_proj`, a.seen, grads.x, grads.n, rows);
    attendBack(model, a, tree, grads.n, grads.wide);
    linearBack(model, grads, `${h}attn.c_attn`, a.n1, grads.wide, grads.n, rows);
    normaliseBack(model, grads, `${h}ln_1`, a.x, a.stats1, grads.n, grads.x, rows);
  }
  for (let row = 0; row < rows; row++) {
    const word = tree.token[row] * d, place = tree.place[row] * d;
    for (let i = 0; i < d; i++) {
      grads.named.wte[word + i] += grads.x[row * d + i];
      grads.named.wpe[place + i] += grads.x[row * d + i];
    }
  }
}
