"""Mistakes planted in helpers/ one at a time, by test_planted_bugs.py (a test must fail with each), and by
notebooks/planted_in_helpers.py (a lesson must, where one is named)."""

from dataclasses import dataclass
from pathlib import Path

from helpers.kit.exercise import mistakes_of  # which imports no file that is planted in

ROOT = Path(__file__).resolve().parents[1]
PAGE = "test_one_page.py::test_the_page_makes_the_same_run_as_the_loop"
CHOICE = "algorithm/test_bandit.py::test_bradley_terry_is_minus_log_of_the_chance_of_the_choice"
TESTS = {  # who must notice a mistake in a file, where it is not tests/algorithm/test_<file>
    "kl.py": "algorithm/test_kl.py algorithm/test_ppo.py",
    "rollouts.py": "algorithm/test_rollouts.py algorithm/test_head_in_parts.py",
    "sampling.py": f"algorithm/test_rollouts.py {PAGE}",
    "steps.py": f"{PAGE} algorithm/test_without_a_critic.py algorithm/test_loop.py",
    "groups.py": "algorithm/test_groups.py algorithm/test_without_a_critic.py",
    "ppo.py": "algorithm/test_ppo.py algorithm/test_without_a_critic.py",
    "pairs.py": "algorithm/test_direct.py",
    "models.py": "algorithm/test_loop.py",
    "reward_model.py": f"{CHOICE} algorithm/test_models.py",
    "theory/optimum.py": "theory/test_optimum.py",
    "scale/memory.py": "scale/test_memory.py",
    "lessons/debugging/measures.py": "lessons/debugging/test_clinic.py",
}


@dataclass(frozen=True)
class Plant:
    """One mistake: what becomes of a line of helpers/, and the lessons that teach this line."""

    name: str
    file: str
    right: str
    wrong: str
    lessons: str  # numbers, in the order in which they are run

    def edited(self) -> str:
        """The file with the mistake. ValueError: the line is not there, or not once."""
        text = (ROOT / "helpers" / self.file).read_text(encoding="utf-8")
        if (count := text.count(self.right)) != 1:
            raise ValueError(f"{self.file}: {self.right!r} stands there {count} times")
        return text.replace(self.right, self.wrong)

    @property
    def tests(self) -> list[str]:
        """The test files that must notice."""
        names = TESTS.get(self.file, f"algorithm/test_{self.file}").split()
        return [str(ROOT / "tests" / name) for name in names]


def read_plants(text: str) -> list[Plant]:
    """Mistakes written as in the checks: `file lessons: name`, lines that go (-) and that come (+)."""
    found = []
    for place, name, right, wrong in mistakes_of(text):
        file, _, lessons = place.partition(" ")
        found.append(Plant(name, file, right, wrong, lessons))
    return found


PLANTS = read_plants(r"""
gae.py 02: bootstraps after the end
- torch.zeros_like(values[:, :1])
+ values[:, -1:]
gae.py 02: γ left out of the sum
- gamma * lam * running
+ lam * running
gae.py 02: γ left out of δ
- gamma * next_values
+ next_values
gae.py 02: returns are the advantages
- advantages, advantages + values
+ advantages, advantages
gae.py: returns from whitened advantages
- return advantages, advantages + values
+ white = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
+     return advantages, white + values
whitening.py 03: divides by the variance
- torch.rsqrt(var + EPSILON)
+ 1 / (var + EPSILON)
whitening.py 03: padding counts in the mean
- x, 0.0).sum() / mask.sum()
+ x, 0.0).sum() / mask.numel()
whitening.py 03: the mean is not put back
- if shift_mean else whitened + mean
+ if shift_mean else whitened
whitening.py 03: divisor n
- (count - 1).clamp(min=1) if unbiased else count
+ count
whitening.py 13: statistics of one process
- gather(advantages), gather(mask)
+ advantages, mask
kl.py 04: log-ratio reversed
- log_ratio = logprobs - ref_logprobs
-     if
+ log_ratio = ref_logprobs - logprobs
+     if
kl.py 04: k3 reversed
- torch.expm1(-log_ratio) + log_ratio
+ torch.expm1(log_ratio) - log_ratio
kl.py 00: a reward for drifting
- -kl_coef * kl, 0.0
+ kl_coef * kl, 0.0
kl.py 00 02: score on the last column
- torch.where(mask, steps, -1).amax(dim=1)
+ steps[-1].expand(len(mask))
kl.py 07: β moves the wrong way
- observed_kl / self.target - 1.0
+ 1.0 - observed_kl / self.target
kl.py 01 04 07: forward KL over the vocabulary
- (logprobs.exp() * log_ratio)
+ (ref_logprobs.exp() * log_ratio)
rollouts.py 01: EOS does not count
- is_eos.cumsum(dim=1) - is_eos == 0
+ is_eos.cumsum(dim=1) == 0
rollouts.py 01: positions begin at 1
- return mask.cumsum(dim=1) - mask
+ return mask.cumsum(dim=1)
rollouts.py 01: log-probs not normalised
- chosen - logits.logsumexp(dim=-1)
+ chosen
rollouts.py 01: scored at another temperature
- logits if temperature == 1.0 else logits / temperature
+ logits
rollouts.py 01 02 06: values of the token before
- value_network(*inputs)[
+ value_network(*inputs).roll(1, dims=1)[
rollouts.py: log-probs one position late
- return _at_temperature(logits, temperature)
+ return _at_temperature(logits, temperature).roll(1, dims=1)
rollouts.py: parts in the wrong order
- masked_scatter(mask, torch.cat(part))
+ masked_scatter(mask, torch.cat(part[::-1]))
models.py: the reference learns
- return freeze(copy.deepcopy(actor))
+ return actor
sampling.py 01: temperature without effect
- logits.float() / temperature
+ logits.float()
sampling.py 01: positions stand still
- positions[:, -1:] + 1
+ positions[:, -1:]
sampling.py 01: prompts padded right
- padding_side="left")
+ padding_side="right")
ppo.py 04: max for min
- torch.minimum(gain, clipped_gain)
+ torch.maximum(gain, clipped_gain)
ppo.py 04: min for max in the critic
- torch.maximum(square, clipped_square)
+ torch.minimum(square, clipped_square)
ppo.py 04: clipped: all outside 1 ± ε
- (clipped_gain < gain)
+ (clipped_gain != gain)
ppo.py 04: approx_kl is k1
- masked_mean(0.5 * log_ratio.square(), mask)
+ masked_mean(log_ratio, mask)
ppo.py 04: the loss is the gain
- loss = -mean(torch.minimum
+ loss = mean(torch.minimum
ppo.py 04: the ratio upside down
- log_ratio = torch.where(mask, logprobs - old_logprobs, 0.0)
+ log_ratio = torch.where(mask, old_logprobs - logprobs, 0.0)
ppo.py 04: entropy below 0
- -products.sum(dim=-1)
+ products.sum(dim=-1)
ppo.py 04: a bonus that is a price
- loss - config.entropy_coef
+ loss + config.entropy_coef
ppo.py 02 04: variance left, not explained
- 1.0 - residual / variance
+ residual / variance
ppo.py 04 06: gradient not clipped
- clip_grad_norm_(parameters, max_grad_norm)
+ clip_grad_norm_(parameters, 1e9)
ppo.py 04 10: KL in the loss not through the ratio
- ratio.detach() if config.kl_loss == "k2" else ratio
+ ratio.detach()
steps.py 00 02 06: γ and λ swapped
- compute_gae(rewards, values, config.gamma, config.lam, mask)
+ compute_gae(rewards, values, config.lam, config.gamma, mask)
steps.py 04 07: KL in both places
- state.kl_coef if config.kl_placement == "reward" else 0.0
+ state.kl_coef
steps.py 00: the rate is not annealed
- left = 1.0 - state.iteration / state.config.iterations
+ left = 1.0
steps.py 10: one prompt a response
- share(order[:size]) for _ in range(group)]
+ share(order[:size] * group)]
steps.py: whitened before the returns are formed
-         advantages = whiten_advantages(advantages, mask)
+         advantages = whiten_advantages(advantages, mask)
+         returns = advantages + values
groups.py 10: others over K
- others / (group_size - 1)
+ others / group_size
groups.py 10: std of the batch
- grouped.std(dim=1, keepdim=True)
+ grouped.std()
groups.py 10: mean of means is the mean
- (torch.where(mask, x, 0.0).sum(dim=1) / mask.sum(dim=1)).mean()
+ torch.where(mask, x, 0.0).sum() / mask.sum()
groups.py 10: the length that was written
- (len(x) * length)
+ mask.sum()
groups.py 10: pass@k puts back
- / (n - drawn)
+ / n
groups.py 10: a product for a mean
- log_ratio.sum(dim=1) / mask.sum(dim=1), mask
+ log_ratio.sum(dim=1), mask
groups.py 10: equal groups of other rows
- .repeat_interleave(group_size)
+ .repeat(group_size)
off_policy.py 10: weights of tokens for sequences
- if level == "sequence":
+ if level == "never":
off_policy.py 10: no cap
- 0.0).clamp(max=cap)
+ 0.0)
direct.py 11: no reference
- (logprobs - ref_logprobs.detach())
+ logprobs
direct.py 11: prefers the rejected
- margin = chosen_reward - rejected_reward
-     loss
+ margin = rejected_reward - chosen_reward
+     loss
direct.py 11: mean log-prob of a response
- temperature).sum(dim=1)
-
-
- def implicit
+ temperature).mean(dim=1)
+
+
+ def implicit
direct.py 11: IPO's target twice
- 1 / (2 * kl_coef)
+ 1 / kl_coef
direct.py: padding counted
- forward_logprobs(policy, *tokens, temperature=temperature)
+ forward_logprobs(policy, *tokens[:3], tokens[3] | True, temperature=temperature)
direct.py: label turned round
- (probabilities * first + (1 - probabilities) * second)
+ (probabilities * second + (1 - probabilities) * first)
direct.py: micro-batches not weighted
- (loss * share).backward()
+ loss.backward()
direct.py: rate not annealed
- anneal(state)
+ state.config.learning_rate
pairs.py 11: labels the other way
- torch.sigmoid(first - second)
+ torch.sigmoid(second - first)
pairs.py: prompt counted as response
- text[len(prompt) :]
+ text
pairs.py: stop token after a cut
- (row + [tokenizer.eos_token_id])[:response_length]
+ row[: response_length - 1] + [tokenizer.eos_token_id]
pairs.py: reference of other pairs
- [block * size : (block + 1) * size]
+ [:size]
pairs.py: passes overlap
- here = first - epochs[0] * count
+ here = 0
reward_model.py 05: Bradley–Terry reversed
- -logsigmoid(chosen - rejected)
+ -logsigmoid(rejected - chosen)
reward_model.py 05: reads the last token
- hidden[:, 0]
+ hidden[:, -1]
reward_model.py 05: scaled by the variance
- score_std.copy_(scores.std())
+ score_std.copy_(scores.var())
reward_model.py 05: a tie is right
- 0.5 * (chosen == rejected)
+ 1.0 * (chosen == rejected)
theory/optimum.py 07: log without β
- (kl_coef * log_mean)
+ log_mean
theory/optimum.py 07: times β
- rewards.double() / kl_coef
+ rewards.double() * kl_coef
theory/optimum.py 07 11: KL of the other order
- (torch.xlogy(probs, probs) - torch.xlogy(probs, other))
+ (torch.xlogy(other, other) - torch.xlogy(other, probs))
lessons/debugging/measures.py 09: late is early
- slice(len(values) - max(1, len(values) // 3), len(values))
+ slice(0, max(1, len(values) // 3))
scale/memory.py 13: Adam keeps one moment
- Entry(role, "Adam", 8 * trained)
+ Entry(role, "Adam", 4 * trained)
""")
