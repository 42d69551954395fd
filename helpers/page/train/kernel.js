// The one matrix product that all models here use: C = A·B, in WebAssembly SIMD, else in plain JavaScript.

/** A WebAssembly module of one function, four rows by eight columns at a time; strides and n in bytes. */
function kernelBytes() {
  const [A, A_ROW, A_STEP, B, B_ROW, C, C_ROW, M, N, K, j, p, x, y, t] = Array.from({ length: 15 }, (_, at) => at);
  const sums = [15, 16, 17, 18, 19, 20, 21, 22], u = 23, v = 24, s = 25, ADD = 0x6a, SHIFT = 0x74, four = [0, 1, 2, 3];
  const get = (local) => [0x20, local], set = (local, ...value) => [...value.flat(), 0x21, local];
  const number = (value) => [0x41, value], more = (local, ...by) => set(local, get(local), ...by, ADD);
  const load = (at, offset) => [...get(at), 0xfd, 0x00, 0, offset], splat = (at) => [...get(at), 0xfd, 0x09, 0, 0];
  const store = (at, offset, local) => [...get(at), ...get(local), 0xfd, 0x0b, 0, offset];
  const muladd = (sum, other) => set(sum, get(sum), get(s), get(other), [0xfd, 0xe6, 0x01, 0xfd, 0xe4, 0x01]);
  const loop = (...body) => [0x03, 0x40, ...body.flat(), 0x0d, 0, 0x0b]; // again while its last value is not 0
  const inner = loop(
    set(u, load(y, 0)), set(v, load(y, 16)), set(t, get(x)),
    ...four.map((row) => [...set(s, splat(t)), ...muladd(sums[2 * row], u), ...muladd(sums[2 * row + 1], v), ...more(t, get(A_ROW))]),
    more(x, get(A_STEP)), more(y, get(B_ROW)), more(p, [0x41, 0x7f]), get(p),
  );
  const columns = loop(
    ...sums.map((sum) => set(sum, [0x43, 0, 0, 0, 0, 0xfd, 0x13])),
    set(x, get(A)), set(y, get(B), get(j), ADD), set(p, get(K)), inner, set(t, get(C), get(j), ADD),
    ...four.map((row) => [...store(t, 0, sums[2 * row]), ...store(t, 16, sums[2 * row + 1]), ...more(t, get(C_ROW))]),
    more(j, number(32)), get(j), get(N), 0x49,
  );
  const rows = loop(
    set(j, number(0)), columns, more(A, get(A_ROW), number(2), SHIFT), more(C, get(C_ROW), number(2), SHIFT),
    more(M, [0x41, 0x7c]), get(M), number(0), 0x4a,
  );
  const long = (size) => (size < 128 ? [size] : [(size & 127) | 128, size >> 7]);
  const section = (id, ...bytes) => [id, ...long(bytes.length), ...bytes];
  const code = [2, 5, 0x7f, 11, 0x7b, ...rows, 0x0b];
  return new Uint8Array([
    0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, ...section(1, 1, 0x60, 10, ...Array(10).fill(0x7f), 0),
    ...section(2, 1, 1, 0x6d, 1, 0x6d, 2, 0, 1), ...section(3, 1, 0), ...section(7, 1, 1, 0x66, 0, 0),
    ...section(10, 1, ...long(code.length), ...code),
  ]);
}

/** Room for so many floats that do not move, and the product there; null without SIMD. */
function fastHeap(floats) {
  try {
    const pages = Math.ceil(floats / 16384), memory = new WebAssembly.Memory({ initial: pages, maximum: pages });
    const { f } = new WebAssembly.Instance(new WebAssembly.Module(kernelBytes()), { m: { m: memory } }).exports;
    let used = 0;
    const take = (size) => {
      const view = new Float32Array(memory.buffer, 4 * used, size);
      used += Math.ceil(size / 4) * 4;
      return view;
    };
    const product = (a, aRow, aStep, b, c, m, n, k) =>
      f(a.byteOffset, 4 * aRow, 4 * aStep, b.byteOffset, 4 * n, c.byteOffset, 4 * n, m, 4 * n, k);
    return { take, product, simd: true };
  } catch {
    return null;
  }
}

/** The same without WebAssembly, several times slower. */
function plainHeap() {
  const product = (a, aRow, aStep, b, c, m, n, k) => {
    c.fill(0, 0, m * n);
    for (let i = 0; i < m; i++) {
      for (let p = 0; p < k; p++) {
        const to = i * n, from = p * n, value = a[i * aRow + p * aStep];
        for (let j = 0; j < n; j++) c[to + j] += value * b[from + j];
      }
    }
  };
  return { take: (size) => new Float32Array(size), product, simd: false };
}

/** C [m, n] = A [m, k]·B [k, n]. n is a multiple of 8; up to three rows after the last of C may be written. */
function multiply(heap, a, b, c, m, n, k) {
  if (m > 0) heap.product(a, k, 1, b, c, m, n, k);
}

/** C [m, n] = Aᵀ·B of A [k, m] and B [k, n]; m is a multiple of 4. */
function multiplyTransposed(heap, a, b, c, m, n, k) {
  if (k > 0) heap.product(a, 1, m, b, c, m, n, k);
  else c.fill(0, 0, m * n);
}

/** The transpose of a [rows, columns], into `out`. */
function transpose(a, rows, columns, out) {
  for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) out[j * rows + i] = a[i * columns + j];
  return out;
}
