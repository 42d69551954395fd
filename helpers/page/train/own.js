// A reward without code: the reward model's score, words liked and disliked, and length, each with a weight.
const REFERENCE_SAMPLES = 512, RARE = 0.01; // as the course's normaliser; times per response below which a word is rare

/** Only the reward model, as it is: nothing to normalise. */
function isPlain(own) {
  return own.model === 1 && !own.length && !(own.liked.length && own.like) && !(own.disliked.length && own.dislike);
}

/** How often words of a list stand in a response; `once`: each of them counts once. */
function countOf(list, tokens, once) {
  return list.reduce((sum, word) => sum + (once ? Number(tokens.includes(word)) : tokens.filter((token) => token === word).length), 0);
}

/** The reward before normalising; words are tokens, `length` is for each ten of them. */
function rawReward(own, proxy, tokens) {
  const liked = own.like * countOf(own.liked, tokens, own.once), disliked = own.dislike * countOf(own.disliked, tokens, own.once);
  return own.model * proxy + liked - disliked + (own.length * tokens.length) / 10;
}

/** Mean and scale of a reward on samples of the reference, and whether it varies; the reward model's score stays as it is. */
function measureReward(own, samples) {
  if (isPlain(own)) return { mean: 0, std: 1, varies: true };
  const raw = samples.map(({ proxy, tokens }) => rawReward(own, proxy, tokens)), mean = average(raw);
  const std = Math.sqrt(raw.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (raw.length - 1)), varies = std > 1e-6;
  return { mean, std: varies ? std : 1, varies };
}
