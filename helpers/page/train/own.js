// A reward without code: the reward model's score, words liked and disliked, and length, each with a weight.

/** Only the reward model, as it is: nothing to normalise. */
function isPlain(own) {
  return own.model === 1 && !own.length && !(own.liked.length && own.like) && !(own.disliked.length && own.dislike);
}

/** How often words of a list stand in a response; `once`: each of them counts once. */
function countOf(list, tokens, once) {
  return list.reduce((sum, word) => sum + (once ? Number(tokens.includes(word)) : tokens.filter((token) => token === word).length), 0);
}

/** The reward before normalising; words are tokens, `length` is for each ten of them. */
function rawReward(own, { proxy, tokens }) {
  const liked = own.like * countOf(own.liked, tokens, own.once), disliked = own.dislike * countOf(own.disliked, tokens, own.once);
  return own.model * proxy + liked - disliked + (own.length * tokens.length) / 10;
}

/** The reward as a function of a response, of mean 0 and variance 1 on these; the reward model's score stays as it is. */
function normalisedReward(own, responses) {
  if (isPlain(own)) return ({ proxy }) => proxy;
  const raw = responses.map((response) => rawReward(own, response)), mean = average(raw);
  const spread = Math.sqrt(variance(raw)), std = spread > 1e-6 ? spread : 1; // as the course: equal rewards stay as they are
  return (response) => (rawReward(own, response) - mean) / std;
}
