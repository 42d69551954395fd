"""All of RLHF on one page: prompts → responses → scores → KL → rewards → advantages → PPO.

    python helpers/one_page.py [ITERATIONS]        60 take two or three minutes on a CPU

The actor, a small language model, continues prompts. A reward model scores the texts; PPO makes what
scores well more likely; a KL penalty keeps the actor near the reference, a copy of it as it began.
Nothing is checked, nothing is hidden: the other files hold the same seven steps, one idea each.
Shapes: B responses of T tokens, padded right, to prompts of P tokens, padded left; V tokens in all.
"""

import copy
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer, DynamicCache

data = Path(__file__).resolve().parents[1] / "data"
seed, iterations, batch_size = 0, 60, 64  # a batch: 64 prompts, one response each
response_length, temperature = 24, 1.0  # 24 tokens at most
kl_coef = 0.1  # β: KL coefficient, reward per nat
gamma, lam = 1.0, 0.95  # γ and λ of GAE
cliprange, cliprange_value, vf_coef = 0.2, 0.2, 0.1
num_ppo_epochs, minibatch_size = 4, 64
learning_rate, adam_eps, max_grad_norm = 1e-3, 1e-5, 1.0


def position_ids(mask):
    return mask.cumsum(1) - mask.long()  # (B, P + T): padding takes no position


@torch.no_grad()
def sample_responses(actor, tokenizer, prompts, generator):
    """Token by token; the cache keeps what was computed from the tokens before."""
    batch = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
    ids, mask, new = batch.input_ids, batch.attention_mask.bool(), batch.input_ids  # (B, P)
    running, cache, drawn = mask.any(1, keepdim=True), DynamicCache(), []  # (B, 1)
    while running.any() and len(drawn) < response_length:
        positions = position_ids(mask)[:, -new.shape[1] :]
        output = actor(new, attention_mask=mask, position_ids=positions, past_key_values=cache)
        logprobs = (output.logits[:, -1] / temperature).log_softmax(-1)  # (B, V)
        new = torch.multinomial(logprobs.exp(), 1, generator=generator)  # (B, 1)
        drawn.append(logprobs.gather(1, new) * running)
        new = torch.where(running, new, tokenizer.pad_token_id)
        ids, mask = torch.cat([ids, new], 1), torch.cat([mask, running], 1)  # the stop token counts
        running = running & (new != tokenizer.eos_token_id)
    return ids, mask, torch.cat(drawn, 1)  # (B, P + T), (B, P + T), (B, T)


@torch.no_grad()
def score_texts(encoder, head, tokenizer, texts):
    """The reward model: a scalar head on the first token; the reference's scores have mean 0, std 1."""
    batch = tokenizer(texts, return_tensors="pt", padding=True, padding_side="right")
    first = encoder(batch.input_ids, batch.attention_mask).last_hidden_state[:, 0]  # (B, d)
    return (first @ head["weight"][0] + head["bias"] - head["score_mean"]) / head["score_std"]


def forward(model, ids, mask, T):
    """What the model says at the token *before* each response token, where that one was chosen."""
    output = model(ids, attention_mask=mask, position_ids=position_ids(mask))
    return output.logits[:, -T - 1 : -1]  # (B, T, V) of a policy, (B, T, 1) of the critic


def forward_logprobs(policy, ids, mask, T):
    logprobs = (forward(policy, ids, mask, T) / temperature).log_softmax(-1)  # (B, T, V)
    return logprobs.gather(-1, ids[:, -T:, None]).squeeze(-1) * mask[:, -T:]  # (B, T)


def compute_gae(rewards, values):
    """δ_t = r_t + γ·V_{t+1} − V_t,  A_t = δ_t + γλ·A_{t+1}; all of them are 0 on padding."""
    advantages, advantage, next_value = torch.zeros_like(rewards), 0.0, 0.0
    for t in reversed(range(rewards.shape[1])):
        delta = rewards[:, t] + gamma * next_value - values[:, t]  # (B,)
        advantages[:, t] = advantage = delta + gamma * lam * advantage
        next_value = values[:, t]
    return advantages, advantages + values  # (B, T), and returns (B, T)


def whiten(x, counted):
    return (x - x[counted].mean()) / (x[counted].var() + 1e-8).sqrt() * counted  # (B, T)


def ppo_loss(actor, critic, ids, mask, old_logprobs, old_values, advantages, returns):
    """Policy loss and value loss, both clipped: no gain in going further than ε from the rollout."""
    T = advantages.shape[1]
    counted = mask[:, -T:]  # (B, T)
    ratio = (forward_logprobs(actor, ids, mask, T) - old_logprobs).exp()  # (B, T)
    clipped = ratio.clamp(1 - cliprange, 1 + cliprange)
    policy_loss = -torch.minimum(ratio * advantages, clipped * advantages)[counted].mean()
    values = forward(critic, ids, mask, T).squeeze(-1)  # (B, T)
    clipped = values.clamp(old_values - cliprange_value, old_values + cliprange_value)
    errors = torch.maximum((values - returns).square(), (clipped - returns).square())
    return policy_loss + vf_coef * 0.5 * errors[counted].mean()


def train():
    """The seven steps, over and over; yields scores [B], KL in nats [B] and texts."""
    tokenizer = AutoTokenizer.from_pretrained(data / "sft")
    actor = AutoModelForCausalLM.from_pretrained(data / "sft")
    reference, critic = copy.deepcopy(actor), copy.deepcopy(actor)
    critic.lm_head = nn.Linear(actor.config.n_embd, 1)  # the reward to come, one number a token
    nn.init.zeros_(critic.lm_head.weight), nn.init.zeros_(critic.lm_head.bias)
    encoder = AutoModel.from_pretrained(data / "reward")
    head = load_file(data / "reward" / "reward_head.safetensors")
    prompts = [json.loads(line)["prompt"] for line in (data / "prompts.jsonl").open()]
    parameters = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, eps=adam_eps)
    draws, samples, shuffles = (torch.Generator().manual_seed(3 * seed + i) for i in range(3))
    for iteration in range(iterations):
        # 1. draw prompts
        batch = [prompts[i] for i in torch.randperm(len(prompts), generator=draws)[:batch_size]]
        # 2. the actor answers
        ids, mask, logprobs = sample_responses(actor, tokenizer, batch, samples)
        T = logprobs.shape[1]
        counted = mask[:, -T:]  # (B, T)
        # 3. the reward model scores the whole texts
        texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
        scores = score_texts(encoder, head, tokenizer, texts)  # (B,)
        with torch.no_grad():
            # 4. the reference: how likely were these tokens before training?
            kl = logprobs - forward_logprobs(reference, ids, mask, T)  # (B, T)
            # 5. rewards: −β·KL on each token, the score on the last
            rewards = -kl_coef * kl  # (B, T)
            rewards[range(batch_size), counted.sum(1) - 1] += scores
            # 6. advantages, whitened only after the returns are formed
            values = forward(critic, ids, mask, T).squeeze(-1) * counted  # (B, T)
            advantages, returns = compute_gae(rewards, values)
            rollout = ids, mask, logprobs, values, whiten(advantages, counted), returns
        # 7. PPO: some epochs of minibatches, the learning rate annealed to 0
        optimizer.param_groups[0]["lr"] = learning_rate * (1 - iteration / iterations)
        for _ in range(num_ppo_epochs):
            for rows in torch.randperm(batch_size, generator=shuffles).split(minibatch_size):
                optimizer.zero_grad()
                ppo_loss(actor, critic, *(tensor[rows] for tensor in rollout)).backward()
                nn.utils.clip_grad_norm_(parameters, max_grad_norm)
                optimizer.step()
        yield scores, kl.sum(1), texts


if __name__ == "__main__":
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else iterations
    for number, (scores, kl, texts) in enumerate(train(), start=1):
        print(f"iteration {number:3d}   score {scores.mean():6.3f}   KL {kl.mean():6.3f}")
        if number in (1, iterations):
            print("", *texts[:4], "", sep="\n    ")
